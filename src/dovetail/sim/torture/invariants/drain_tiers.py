"""A drain goes tier by tier: pods, then DaemonSets, then critical pods, then critical DaemonSets.

Judged at every eviction that took effect: no pod of an earlier tier that the drain has to wait for is left on the node.
Pods bound a moment ago are excused, and so are deletions that the deadline of the drain forces: those go all at once.
"""

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.pods import holds_up_a_drain, tier
from dovetail.sim.world import ApiCall

NAMES = ("a pod", "a DaemonSet's pod", "a critical pod", "a critical DaemonSet's pod")


class DrainsGoByTiers(Invariant):
    """What others depend on goes last."""

    name = "drains go tier by tier"

    def pod_stopped(self, before: ObjectVersion, after: ObjectVersion | None, call: ApiCall) -> None:  # noqa: ARG002 - evicted at all
        """A pod was evicted."""
        turn = tier(before)
        if call.operation != "evict" or turn == 0 or not before.active:
            return
        history = self.history
        known = history.now - history.stale
        for pod in history.pods_on(before.node):
            waited_for = pod.uid != before.uid and tier(pod) < turn and holds_up_a_drain(pod, history.instants())
            if waited_for and history.since.bound[pod.uid] <= known:
                kind, earlier = NAMES[turn], NAMES[tier(pod)]
                self.broken(f"{before.key} on {before.node}, {kind}, is evicted before {pod.key}, {earlier}")
