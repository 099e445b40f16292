"""Protected pods are never evicted, and nodes that carry them, or are protected themselves, never chosen.

Outside the forced paths: a drain with a deadline takes every pod in the end, and a Node that somebody deleted by hand
is drained of its protected pods too, unless its claim has a terminationGracePeriod.
"""

from dovetail.model import kinds
from dovetail.model.conditions import find
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.protection import protection
from dovetail.sim.faults.history import voluntarily
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.world import Call

_NOT_KNOWN_BEFORE = "torture/protected-at"
"""Where a story notes the second at which somebody protected a pod or node that was there already."""


class ProtectedPodsStay(Law):
    """What is protected stays where it is."""

    name = "protected pods are never evicted"

    def about_to(self, call: Call) -> None:
        """An eviction, or the deletion of a pod."""
        if call.kind != "Pod" or call.operation not in {"evict", "delete"}:
            return
        pod = self.running_pod(call.key)
        if pod is None or not self._protected(pod):
            return
        grace, claim = pod.spec.termination_grace_period_seconds, self.claim_on(pod.node_name)
        bounded = claim is not None and claim.spec.termination_grace_period is not None
        if pod.node_name in self.history.deleted_by_hand and not bounded:
            return
        if not self.forced(claim, 30.0 if grace is None else grace):
            self.broken(f"{call.operation} of {pod.key} on {pod.node_name}, protected {_written(pod)!r}")

    def claim_changed(self, before: NodeClaim | None, after: NodeClaim) -> None:
        """A node may have been chosen."""
        reason = voluntarily(after)
        if reason is None or after.deleting or (before is not None and voluntarily(before) is not None):
            return
        story = self.history.node_of(after)
        if story is None:
            return
        if story.value.metadata.annotations.get(DO_NOT_DISRUPT) == "true" and self._old_news(story.value.metadata):
            self.broken(f"{after.name} is marked {reason}, and its node is protected")
        for record in self.history.world.store.pods_on(story.value.name):
            pod = record.value(kinds.POD)
            if isinstance(pod, Pod) and self._protected(pod) and self._bound_long_ago(pod):
                self.broken(f"{after.name} is marked {reason}, and {pod.key} on it is protected {_written(pod)!r}")

    def _protected(self, pod: Pod) -> bool:
        held = all(protection(pod, now).active for now in self.history.instants())
        return held and self._old_news(pod.metadata)

    def _old_news(self, metadata: object) -> bool:
        at = getattr(metadata, "annotations", {}).get(_NOT_KNOWN_BEFORE)
        return at is None or self.history.now - float(at) > self.history.stale

    def _bound_long_ago(self, pod: Pod) -> bool:
        scheduled = find(pod.status.conditions, "PodScheduled")
        since = scheduled.last_transition_time if scheduled is not None else None
        return since is not None and (self.history.world.clock.now() - since).total_seconds() > self.history.stale


def _written(pod: Pod) -> str:
    return pod.metadata.annotations.get(DO_NOT_DISRUPT, "")
