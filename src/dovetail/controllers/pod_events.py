"""Writes `status.lastPodEventTime` of NodeClaims: when a pod was last bound to the node, or ended on it.

`consolidateAfter` counts from this time. The newest event of each node is kept in memory until it is written; a burst
of events leads to at most one write every ten seconds per claim (`core.lifecycle.pod_events`).
"""

import logging
from contextlib import suppress
from datetime import datetime

from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption.nodeclaim_conditions import disturbed
from dovetail.core.lifecycle.pod_events import pod_event_at, write_at
from dovetail.core.merge_patches import conditions_patch
from dovetail.model.conditions import without
from dovetail.model.kinds import NODE_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.nodeclaim import CONSOLIDATABLE, NodeClaim
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import Conflict, NotFound
from dovetail.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)


class PodEventsController:
    """Writes the newest pod event of each node.

    If the event makes the `Consolidatable` condition wrong, the same patch removes it, unless the claim has changed.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._event_at_by_node: dict[str, datetime] = {}
        self.reconciler: Reconciler[str] = Reconciler("nodeclaim.podevents", self.reconcile)
        context.state.pods.listen(self._pod_changed)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and after is not None and _same_stage(before, after):
            return
        event_at = pod_event_at(before, after, self._context.clock.now())
        pod = after or before
        if event_at is None or pod is None:
            return
        known = self._event_at_by_node.get(pod.node_name)
        self._event_at_by_node[pod.node_name] = event_at if known is None else max(known, event_at)
        self.reconciler.add(pod.node_name)

    async def run(self) -> None:
        """Write pod events until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, node_name: str) -> float | None:
        """Write the newest event of one node."""
        event_at = self._event_at_by_node.get(node_name)
        node = self._context.state.nodes.items.get(Key("", node_name))
        claim = self._context.state.claim_of(node) if node is not None else None
        if event_at is None or claim is None or not self._context.manages(claim):
            self._event_at_by_node.pop(node_name, None)
            return None
        due_at, now = write_at(claim, event_at), self._context.clock.now()
        if due_at is None:
            self._event_at_by_node.pop(node_name, None)
            return None
        if due_at > now:
            return (due_at - now).total_seconds()
        try:
            await self._write(claim, event_at)
        except NotFound:
            return None
        if self._event_at_by_node.get(node_name) == event_at:
            del self._event_at_by_node[node_name]
        return None

    async def _write(self, claim: NodeClaim, event_at: datetime) -> None:
        """Write the time of the event, after a conflict without the resource version and without other fields."""
        stamp = event_at.replace(microsecond=0).isoformat().replace("+00:00", "Z")
        pool = self._context.state.pool(claim.nodepool_name)
        if pool is not None and disturbed(claim, pool, event_at, self._context.clock.now()):
            left = without(claim.status.conditions, CONSOLIDATABLE)
            with suppress(Conflict):
                await self._context.patch_claim(claim, conditions_patch(left, lastPodEventTime=stamp), status=True)
                return
        patch = Patch({"status": {"lastPodEventTime": stamp}}, subresource="status")
        self._context.state.observe(NODE_CLAIM, await self._context.cluster.patch(NODE_CLAIM, claim.key, patch))


def _same_stage(before: Pod, after: Pod) -> bool:
    """Whether the pod was neither bound nor ended between two versions, as with most changes."""
    return before.node_name == after.node_name and before.active == after.active
