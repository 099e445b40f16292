"""Finds what is left over when an instance, a NodeClaim or a Node went behind our back, and cleans it up.

Claims are compared every two minutes, instances every ten seconds at first, when a crash may have left some, and then
as often as claims. A provider that cannot be listed stops the comparison: nothing is deleted on half an answer.
"""

import asyncio
import logging

from dovetail.controllers.accounting import count_removal
from dovetail.controllers.context import Context
from dovetail.core.lifecycle.leaks import Holdings, leaked_instances, lost_claims, nodes_of, orphaned_nodes
from dovetail.model.catalog import Instance
from dovetail.model.nodeclaim import NodeClaim, NodeClaimStatus
from dovetail.model.wire import ObjectMeta
from dovetail.ports.errors import InstanceNotFound
from dovetail.runtime.guard import guarded

log = logging.getLogger(__name__)
EAGER_SECONDS = 10.0
EAGER_ROUNDS = 20


class GarbageCollection:
    """Compares claims, nodes and instances from time to time."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Compare until cancelled."""
        await self._context.state.synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._collect_claims())
            tasks.create_task(self._collect_instances())

    async def _collect_claims(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await guarded("nodeclaim.garbagecollection", self.collect)

    async def _collect_instances(self) -> None:
        rounds = 0
        while True:
            await asyncio.sleep(min(EAGER_SECONDS, self._interval) if rounds < EAGER_ROUNDS else self._interval)
            if await guarded("instance.garbagecollection", self.collect_instances):
                rounds += 1

    @property
    def _interval(self) -> float:
        return self._context.settings.garbage_collection_interval.total_seconds()

    async def collect(self) -> None:
        """Let go of claims that lost their instance. Claims are read before instances: a launch is never a loss."""
        held = self._held()
        instances = await self._context.cloud.list()
        lost = lost_claims(Holdings(held.claims, held.nodes, instances))
        for claim in sorted(lost, key=lambda claim: claim.name):
            if self._context.manages(claim) and await self._is_gone(claim):
                log.warning("deleting nodeclaim", extra={"nodeclaim": claim.name, "reason": "garbage_collected"})
                await self._context.delete_claim(claim)
                count_removal(self._context, claim, "garbage_collected")

    async def collect_instances(self) -> bool:
        """Terminate instances nobody claims, and delete nodes that have nothing. Instances are read before claims."""
        context = self._context
        if context.state.claims.unreadable:
            return False  # what they claim cannot be told, so nothing counts as unclaimed
        instances = await context.cloud.list()
        held, now = self._held(), context.clock.now()
        holdings = Holdings(held.claims, held.nodes, instances)
        for instance in leaked_instances(holdings, now):
            if not self._is_strange(instance):
                await self._terminate(instance)
        for node in sorted(orphaned_nodes(holdings, now), key=lambda node: node.name):
            log.warning("deleting node", extra={"node": node.name, "reason": "neither nodeclaim nor instance"})
            await context.delete_node(node)
        return True

    def _held(self) -> Holdings:
        context = self._context
        label, nodes = context.cloud.node_class_label, context.state.nodes.items.values()
        ours = tuple(node for node in nodes if label in node.metadata.labels)
        return Holdings(tuple(context.state.claims.items.values()), ours, ())

    async def _is_gone(self, claim: NodeClaim) -> bool:
        """Lists lag behind; the instance itself is asked for once more."""
        try:
            instance = await self._context.cloud.get(claim.provider_id)
        except InstanceNotFound:
            return True
        return instance.terminating

    def _is_strange(self, instance: Instance) -> bool:
        """Whether it became a node that nobody marked as ours."""
        nodes = nodes_of(instance, self._context.state.nodes.items.values())
        return any(self._context.cloud.node_class_label not in node.metadata.labels for node in nodes)

    async def _terminate(self, instance: Instance) -> None:
        context = self._context
        log.warning("terminating instance", extra={"provider_id": instance.provider_id, "reason": "no nodeclaim"})
        unclaimed = NodeClaim(
            metadata=ObjectMeta(labels=instance.labels), status=NodeClaimStatus(provider_id=instance.provider_id)
        )
        try:
            await context.cloud.terminate(unclaimed)
        except InstanceNotFound:
            return
        for node in nodes_of(instance, list(context.state.nodes.items.values())):
            if not node.deleting:
                await context.delete_node(node)
