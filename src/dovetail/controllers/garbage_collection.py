"""Garbage collection: deletes NodeClaims without an instance, instances without a NodeClaim, and Nodes without either.

NodeClaims, Nodes and the provider's list of instances are compared every ten seconds after startup, when a crash may
have left something behind, and after 20 rounds every `--garbage-collection-interval`. Nothing is deleted if the
provider cannot be listed, a cache is stale, or an unreadable NodeClaim or Node hides its provider id. A failure for one
object does not affect the others; a round with a failure is repeated with backoff. With several providers, each has its
own rounds, so that one that cannot be reached does not affect the others.

If the first round finds instances but no NodeClaim of the provider, instances are not garbage collected until the
process restarts, except those whose NodeClaim appeared since. The cluster name may be that of another cluster, or the
claims may have been lost with the CRD or a restored backup; a termination could not be undone.

`core.lifecycle.garbage_collection` decides; before each deletion the result is checked with the provider or the API
server, because lists and caches lag.
"""

import asyncio
import logging
from dataclasses import replace
from functools import partial

from dovetail.controllers.context import ControllerContext, ProviderPorts
from dovetail.controllers.metrics.disruption import count_removal
from dovetail.core.lifecycle.garbage_collection import (
    Holdings,
    claims_are_missing,
    has_no_leftovers,
    leaked_instances,
    lost_claims,
    nodeless_claims,
    nodes_of,
    orphaned_nodes,
)
from dovetail.model.catalog import Instance
from dovetail.model.kinds import NODE
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim, NodeClaimStatus
from dovetail.ports.errors import InstanceNotFound, NotFound
from dovetail.runtime.concurrency import for_each, guarded
from dovetail.runtime.reconciler import RetryBackoff

log = logging.getLogger(__name__)
STARTUP_INTERVAL_SECONDS = 10.0
STARTUP_ROUNDS = 20


class GarbageCollection:
    """Compares the claims, nodes and instances of one provider periodically, once the provider is in use."""

    def __init__(self, context: ControllerContext, provider: ProviderPorts) -> None:
        self._context = context
        self._cloud = provider.cloud
        self._in_use = provider.in_use
        self._last_clean: Holdings | None = None  # the last comparison, if it found nothing to delete
        self._claims_missing: bool | None = None  # in the first round; None before it
        self._seen: set[str] = set()  # provider ids of claims, while claims are missing

    async def run(self) -> None:
        """Collect garbage until cancelled."""
        await self._context.state.synced()
        await self._in_use.wait()
        interval = self._context.settings.garbage_collection_interval.total_seconds()
        backoff = RetryBackoff(first=STARTUP_INTERVAL_SECONDS, limit=interval)
        rounds, pause = 0, min(STARTUP_INTERVAL_SECONDS, interval)
        while True:
            await asyncio.sleep(pause)
            if not await self.collect():
                pause = backoff.next()
                continue
            backoff.reset()
            rounds += 1
            pause = min(STARTUP_INTERVAL_SECONDS, interval) if rounds < STARTUP_ROUNDS else interval

    async def collect(self) -> bool:
        """Collect once; return whether nothing failed.

        Lost claims are judged by the claims read before the list of instances, so an instance launched during the list
        is not missed. Leaked instances are judged by the claims read after it. An unchanged state that had nothing to
        delete is not compared again.
        """
        if self._context.state.stale():
            return False
        before = self._holdings()
        instances = await guarded("nodeclaim.garbagecollection", self._cloud.list)
        if instances is None:
            return False
        if not self._context.state.unreadable.instances_known:
            return True  # an unreadable claim may own any of the instances
        holdings = replace(before, instances=instances)
        if self._claims_missing is None:
            self._claims_missing = await self._check_first_round(instances)
        if before == self._holdings() and (holdings == self._last_clean or self._is_clean(holdings)):
            self._last_clean = holdings
            return True
        claims = await guarded(
            "nodeclaim.garbagecollection", partial(self._collect_claims, self._with_managed_nodes(holdings))
        )
        rest = await guarded("instance.garbagecollection", partial(self._collect_instances, instances))
        return bool(claims and rest)

    async def _check_first_round(self, instances: tuple[Instance, ...]) -> bool:
        """Whether there are instances, but no NodeClaim of this provider."""
        if not claims_are_missing(self._own_holdings(instances)):
            return False
        await self._context.refresh_claims()
        if not claims_are_missing(self._own_holdings(instances)):
            return False
        log.error(
            "instances are not garbage collected: they have the tags of this cluster, but there is no NodeClaim;"
            " check the cluster name and the NodeClaims, then restart",
            extra={"instances": len(instances), "provider": self._cloud.name},
        )
        return True

    def _own_holdings(self, instances: tuple[Instance, ...]) -> Holdings:
        """Return the holdings without the claims of other providers."""
        holdings = replace(self._holdings(), instances=instances)
        own = [claim for claim in holdings.claims if self._cloud.supports(claim.spec.node_class_ref)]
        return replace(holdings, claims=tuple(own))

    def _is_clean(self, holdings: Holdings) -> bool:
        """Whether nothing is left over, now or later, as long as nothing changes."""
        state = self._context.state
        unread = state.claims.unreadable or state.nodes.unreadable
        return not unread and has_no_leftovers(self._with_managed_nodes(holdings), self._context.clock.now())

    async def _collect_claims(self, holdings: Holdings) -> bool:
        """Delete claims that lost their instance or node; termination ends an instance that still runs."""
        found = {claim.name: claim for claim in (*lost_claims(holdings), *nodeless_claims(holdings))}
        await for_each(self._delete_lost_claim, [claim for _, claim in sorted(found.items())])
        return True

    async def _delete_lost_claim(self, claim: NodeClaim) -> None:
        if not self._cloud.supports(claim.spec.node_class_ref):
            return
        if await self._instance_is_gone(claim) or await self._has_no_node(claim):
            log.warning("deleting nodeclaim", extra={"nodeclaim": claim.name, "reason": "garbage_collected"})
            await self._context.delete_claim(claim)
            count_removal(self._context, claim, "garbage_collected")

    async def _collect_instances(self, instances: tuple[Instance, ...]) -> bool:
        """Terminate instances without a claim, and delete nodes with neither claim nor instance."""
        leaked = self._leaked(instances)
        if leaked:  # the NodeClaim cache may lag, and a termination cannot be undone
            await self._context.refresh_claims()
            leaked = self._leaked(instances)
        holdings, now = (
            self._with_managed_nodes(replace(self._holdings(), instances=instances)),
            self._context.clock.now(),
        )
        orphaned = sorted(orphaned_nodes(holdings, now) if not self._claims_missing else (), key=lambda node: node.name)
        tasks = [
            *(partial(self._terminate_instance, each) for each in leaked),
            *(partial(self._delete_node, each) for each in orphaned),
        ]
        await for_each(lambda task: task(), tasks)
        return True

    def _leaked(self, instances: tuple[Instance, ...]) -> list[Instance]:
        holdings = self._with_managed_nodes(replace(self._holdings(), instances=instances))
        found = leaked_instances(holdings, self._context.clock.now())
        if self._claims_missing:
            self._seen.update(claim.provider_id for claim in holdings.claims)
            found = tuple(instance for instance in found if instance.provider_id in self._seen)
        return [instance for instance in found if not self._has_unmanaged_node(instance)]

    async def _delete_node(self, node: Node) -> None:
        log.warning("deleting node", extra={"node": node.name, "reason": "neither nodeclaim nor instance"})
        await self._context.delete_node(node)

    def _holdings(self) -> Holdings:
        state = self._context.state
        return Holdings(
            claims=tuple(state.claims.items.values()),
            nodes=tuple(state.nodes.items.values()),
            instances=(),
            hidden_claims=state.unreadable.claims,
            hidden_nodes=state.unreadable.nodes,
        )

    def _with_managed_nodes(self, holdings: Holdings) -> Holdings:
        """Return the holdings without the nodes of other providers."""
        own = self._cloud.node_class_labels
        nodes = [node for node in holdings.nodes if not own.isdisjoint(node.metadata.labels)]
        return replace(holdings, nodes=tuple(nodes))

    async def _instance_is_gone(self, claim: NodeClaim) -> bool:
        """Whether the provider confirms that the instance is gone or terminating: its list may lag."""
        try:
            instance = await self._cloud.get(claim.provider_id)
        except InstanceNotFound:
            return True
        return instance.terminating

    async def _has_no_node(self, claim: NodeClaim) -> bool:
        """Whether the API server also has no node for the claim: its finalizer was removed by a user."""
        if self._context.state.nodes_of(claim) or not claim.status.node_name:
            return False
        try:
            await self._context.cluster.get(NODE, Key("", claim.status.node_name))
        except NotFound:
            return True
        return False

    def _has_unmanaged_node(self, instance: Instance) -> bool:
        """Whether the instance has a node without this provider's label."""
        nodes = nodes_of(instance, self._context.state.nodes.items.values())
        return any(self._cloud.node_class_labels.isdisjoint(node.metadata.labels) for node in nodes)

    async def _terminate_instance(self, instance: Instance) -> None:
        context = self._context
        log.warning("terminating instance", extra={"provider_id": instance.provider_id, "reason": "no nodeclaim"})
        unclaimed = NodeClaim(
            metadata=ObjectMeta(labels=instance.labels), status=NodeClaimStatus(provider_id=instance.provider_id)
        )
        try:
            await self._cloud.terminate(unclaimed)
        except InstanceNotFound:
            return
        for node in nodes_of(instance, list(context.state.nodes.items.values())):
            if not node.deleting:
                await context.delete_node(node)
