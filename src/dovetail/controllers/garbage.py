"""Finds NodeClaims whose instance vanished behind our back, and lets them go.

A claim counts as abandoned when the provider does not know its instance and its node is missing or not ready: a node
that still reports Ready is proof enough that the provider's list is wrong.
"""

import asyncio
import logging

from dovetail.controllers.context import Context
from dovetail.model.nodeclaim import REGISTERED, NodeClaim
from dovetail.runtime.guard import guarded

log = logging.getLogger(__name__)


class GarbageCollection:
    """Compares claims and instances from time to time."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Compare until cancelled."""
        await self._context.state.synced()
        while True:
            await asyncio.sleep(self._context.settings.garbage_collection_interval.total_seconds())
            await guarded("nodeclaim.garbagecollection", self.collect)

    async def collect(self) -> None:
        """One comparison. Claims are read before instances, so a launch in between is never taken for a loss."""
        context = self._context
        claims = [claim for claim in context.state.claims.items.values() if self._counts(claim)]
        instances = await context.cloud.list()
        alive = {instance.provider_id for instance in instances if not instance.terminating}
        for claim in sorted(claims, key=lambda claim: claim.name):
            if claim.provider_id not in alive and not self._node_is_ready(claim):
                log.warning("deleting nodeclaim", extra={"nodeclaim": claim.name, "reason": "garbage_collected"})
                await context.delete_claim(claim)

    def _counts(self, claim: NodeClaim) -> bool:
        managed = self._context.manages(claim)
        return managed and not claim.deleting and claim.has(REGISTERED) and bool(claim.provider_id)

    def _node_is_ready(self, claim: NodeClaim) -> bool:
        return any(node.ready for node in self._context.state.nodes_of(claim))
