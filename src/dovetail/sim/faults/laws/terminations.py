"""No instance ends while a pod that a drain has to wait for runs on its node, by what the API server says that instant.

That the controllers had not heard of the pod is no excuse: they have to list the pods of a node right before its
instance ends. Excused are:

- nodes whose instance was lost, killed or reclaimed, and claims past the deadline of their terminationGracePeriod or
  repaired by force;
- nodes that never registered, or whose NodeClaim is gone: nothing is drained there;
- pods that a drain leaves: ended, static, tolerating the disruption taint, or more than a minute overdue. A pod of a
  DaemonSet is drained like any other, unless it tolerates the taint;
- the race between the list and the end: a pod bound after the pods of the node were last listed, or within `RACE`.
"""

from dovetail.model.nodeclaim import REGISTERED
from dovetail.sim.faults.history import History
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.faults.laws.truth import holds_up_a_drain

RACE = 2.0
LISTED_WITHIN = 45.0
"""Seconds for which a list counts: the calls that follow it may be slow, or be repeated."""


class NoInstanceEndsUnderPods(Law):
    """What is still running is evicted first."""

    name = "no instance ends under a running pod"

    def node_gone(self, name: str, provider_id: str) -> None:
        """The instance of a node ended."""
        history = self.history
        claim = next((each.value for each in history.claims.values() if each.value.provider_id == provider_id), None)
        if name in history.excused_nodes or claim is None or not claim.has(REGISTERED) or self.forced(claim, 0.0):
            return
        known_at = bound_before(name, history)
        for pod in history.world.store.pods_on(name):
            bound_at = history.since.bound[pod.uid]
            if bound_at < known_at and holds_up_a_drain(pod, history.instants()):
                self.broken(f"{pod.key}, bound {history.now - bound_at:.0f} s before, ran on {name} when it ended")


def bound_before(node: str, history: History) -> float:
    """Pods bound to the node before this instant have to be known now."""
    now = history.now
    listed_at = history.supervisor.trouble.pods_listed_at.get(node, now)
    return min(now - RACE, listed_at) if now - listed_at <= LISTED_WITHIN else now - RACE
