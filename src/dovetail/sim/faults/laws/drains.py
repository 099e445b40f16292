"""Pods leave through the eviction API, from nodes that are going, and no instance ends under a pod that still runs.

That is how PodDisruptionBudgets hold: the API refuses what would violate them, so only a way around it could. The one
way allowed is a drain whose deadline has come.
"""

from dovetail.core.lifecycle.drain import DISRUPTION_TAINTS
from dovetail.model import kinds
from dovetail.model.pod import Pod
from dovetail.model.taints import tolerates
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.world import Call

STUCK = 60.0  # seconds after which a pod that should have stopped is no longer waited for


class PodsAreAsked(Law):
    """Nobody is thrown out around the disruption budgets."""

    name = "disruption budgets are never violated"

    def about_to(self, call: Call) -> None:
        """An eviction, or the deletion of a pod."""
        if call.kind != "Pod" or call.operation not in {"evict", "delete"}:
            return
        pod = self.running_pod(call.key)
        if pod is None:
            return
        claim = self.claim_on(pod.node_name)
        if call.operation == "evict":
            if not self._going(pod.node_name):
                self.broken(f"{pod.key} is evicted from {pod.node_name}, which stays")
            return
        grace = pod.spec.termination_grace_period_seconds
        if not pod.deleting and not self.forced(claim, 30.0 if grace is None else grace):
            self.broken(f"{pod.key} on {pod.node_name} is deleted, not evicted")

    def _going(self, node_name: str) -> bool:
        node = next((each for each in self.history.nodes.values() if each.value.name == node_name), None)
        claim = self.claim_on(node_name)
        return node is None or node.value.deleting or (claim is not None and claim.deleting)

    def node_gone(self, name: str, provider_id: str) -> None:
        """The instance ended: whoever ran on it was cut off."""
        if name in self.history.excused_nodes:
            return
        claims = (each.value for each in self.history.claims.values() if each.value.provider_id == provider_id)
        claim = next(claims, None)
        for record in self.history.world.store.pods_on(name):
            pod = record.value(kinds.POD)
            if isinstance(pod, Pod) and self._cut_off(pod) and not self.forced(claim, 0.0):
                self.broken(f"{pod.key} still ran on {name} when its instance was terminated")

    def _cut_off(self, pod: Pod) -> bool:
        if pod.terminal or pod.mirror or pod.daemon:
            return False
        if any(tolerates(pod.spec.tolerations, taint) for taint in DISRUPTION_TAINTS):
            return False
        ends_at = pod.metadata.deletion_timestamp
        return ends_at is None or all((now - ends_at).total_seconds() <= STUCK for now in self.history.instants())
