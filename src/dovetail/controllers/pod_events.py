"""Notes on each NodeClaim when something last happened to the pods of its node."""

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
    """Writes `status.lastPodEventTime`. The newest event of a node wins.

    A claim that is not quiet any more stops saying so with the same write, if nobody else has written meanwhile;
    otherwise nothing else of it is touched.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._events: dict[str, datetime] = {}
        self.reconciler: Reconciler[str] = Reconciler("nodeclaim.podevents", self.reconcile)
        context.state.pods.listen(self._pod_changed)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and after is not None and _stays(before, after):
            return
        event_at = pod_event_at(before, after, self._context.clock.now())
        pod = after or before
        if event_at is None or pod is None:
            return
        known = self._events.get(pod.node_name)
        self._events[pod.node_name] = event_at if known is None else max(known, event_at)
        self.reconciler.add(pod.node_name)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._context.state.synced()
        await self.reconciler.run()

    async def reconcile(self, node_name: str) -> float | None:
        """Write the newest event of one node."""
        event_at = self._events.get(node_name)
        node = self._context.state.nodes.items.get(Key("", node_name))
        claim = self._context.state.claim_of(node) if node is not None else None
        if event_at is None or claim is None or not self._context.manages(claim):
            self._events.pop(node_name, None)
            return None
        due_at, now = write_at(claim, event_at), self._context.clock.now()
        if due_at is None:
            self._events.pop(node_name, None)
            return None
        if due_at > now:
            return (due_at - now).total_seconds()
        try:
            await self._write(claim, event_at)
        except NotFound:
            return None
        if self._events.get(node_name) == event_at:
            del self._events[node_name]
        return None

    async def _write(self, claim: NodeClaim, event_at: datetime) -> None:
        """The time of the event is what matters: it is written whatever else has changed."""
        stamp = event_at.replace(microsecond=0).isoformat().replace("+00:00", "Z")
        pool = self._context.state.pool(claim.nodepool_name)
        if pool is not None and disturbed(claim, pool, event_at, self._context.clock.now()):
            left = without(claim.status.conditions, CONSOLIDATABLE)
            with suppress(Conflict):
                await self._context.patch_claim(claim, conditions_patch(left, lastPodEventTime=stamp), status=True)
                return
        patch = Patch({"status": {"lastPodEventTime": stamp}}, subresource="status")
        self._context.state.observe(NODE_CLAIM, await self._context.cluster.patch(NODE_CLAIM, claim.key, patch))


def _stays(before: Pod, after: Pod) -> bool:
    """Whether it came to no node and did not end, as with most changes of a pod."""
    return before.node_name == after.node_name and before.active == after.active
