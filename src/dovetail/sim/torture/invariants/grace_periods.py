"""A pod that is told to stop gets its own grace period; only the deadline of its node's drain shortens it.

Judged when a call of the controllers told a pod to stop, or to stop sooner, from the grace the API server granted:

- no pod on a live node is removed without any grace, and none gets less than its own grace, less than it had, and less
  than what is left until the deadline at the same time;
- a pod that has finished has nothing left to stop: the API server removes it at once, whatever grace is asked for;
- a deadline that is known early enough costs no pod its grace: the pod is deleted as long before as it may take. This
  is judged where nothing was made to fail since.
"""

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import NodeView
from dovetail.sim.torture.invariants.observer import ClaimHistory
from dovetail.sim.torture.invariants.pods import holds_up_a_drain, is_finished, own_grace
from dovetail.sim.world import ApiCall

SLACK = 2.0  # the API keeps whole seconds
REACTION = 15.0
"""Seconds in which the controllers must have acted on what is known: retries of refused evictions take up to ten."""


class PodsKeepTheirGrace(Invariant):
    """Every pod has the time to stop that it asks for."""

    name = "pods keep their grace period"

    def pod_stopped(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - any call
        """A pod was told to stop, or to stop sooner."""
        node = self.history.node_named(before.node)
        if node is None or before.node in self.history.excused_nodes or is_finished(before):
            return
        granted = float(after.meta.get("deletionGracePeriodSeconds", 0)) if after is not None else 0.0
        due = own_grace(before)
        if granted + SLACK >= due:
            return
        story = self.history.claim_on(before.node)
        left = self._left(story)
        if granted == 0 or left is None or granted + SLACK < min(due, left):
            self.broken(f"{before.key} on {before.node} gets {granted:.0f} s to stop, and asks for {due:.0f} s")
        elif story is not None and before.active and self._could_have_been_earlier(before, story):
            self.broken(f"{before.key} on {before.node} gets {granted:.0f} of its {due:.0f} s: it was deleted too late")

    def node_gone(self, node: NodeView) -> None:
        """The instance ended, by the deadline perhaps: its pods must have been told in time."""
        story = next((e for e in self.history.claims.values() if e.value.provider_id == node.provider_id), None)
        if story is None or node.name in self.history.excused_nodes or story.value.deadline is None:
            return
        for pod in self.history.pods_on(node.name):
            if pod.active and holds_up_a_drain(pod, ()) and self._could_have_been_earlier(pod, story):
                self.broken(f"{pod.key} on {node.name} was never told to stop before the deadline of the drain")

    def _left(self, story: ClaimHistory | None) -> float | None:
        """The least that can be left until the deadline, by any clock; None without one."""
        deadline = story.value.deadline if story is not None else None
        if deadline is None:
            return None
        return min((deadline - now).total_seconds() for now in self.history.instants())

    def _could_have_been_earlier(self, pod: ObjectVersion, story: ClaimHistory) -> bool:
        """Whether the deadline and the pod were known for long when the pod's own grace just fitted before it."""
        history, deadline = self.history, story.value.deadline
        if deadline is None or story.deadline_since is None or len(history.instants()) > 2:  # two: the clock is right
            return False
        turn = history.at(deadline) - own_grace(pod)
        known = max(story.deadline_since, history.since.bound.get(pod.uid, history.now))
        return known + REACTION < turn and history.now > turn + REACTION and history.calm(turn)
