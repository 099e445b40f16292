"""What every controller is handed: ports, state and settings, and the few writes they share.

What each NodePool can buy, as its provider says now.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dovetail.controllers.cluster_state import ClusterState
from dovetail.model.cached import lazy
from dovetail.model.catalog import InstanceType
from dovetail.model.kinds import NODE, NODE_CLAIM, POD
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider, NodeClassReconciler
from dovetail.ports.cluster import Cluster, Deletion, Listing, ListOptions, Patch, Recorder
from dovetail.ports.errors import ApiError, NotFound, OutcomeUnknown, WorldError
from dovetail.ports.interruption import InterruptionSource
from dovetail.ports.ledger import Ledger, NoLedger
from dovetail.ports.metrics import Metrics, NoMetrics
from dovetail.runtime.concurrency import SingleFlight
from dovetail.runtime.reconciler import RetryBackoff
from dovetail.settings import DecisionOptions, Settings


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The outside as the controllers reach it."""

    cluster: Cluster
    cloud: CloudProvider
    clock: Clock
    recorder: Recorder
    metrics: Metrics = field(default_factory=NoMetrics)
    ledger: Ledger = field(default_factory=NoLedger)
    interruptions: tuple[InterruptionSource, ...] = ()
    node_classes: NodeClassReconciler | None = None
    seen: bool = True  # whether anybody reads events and metrics


@dataclass(frozen=True, kw_only=True)
class ControllerContext(Ports):
    """Ports, and what the controllers know and were told."""

    state: ClusterState
    settings: Settings
    endings: dict[str, str] = field(default_factory=dict)
    """Why claims are let go without a command, by uid; noted by whoever deletes them, for the ledger."""
    looks: SingleFlight = field(default_factory=SingleFlight)
    """At all claims, after writes without an answer."""
    buying: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from looking at limits until what was bought is seen, so that no two buyers spend the same room."""

    noting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a failed launch is written on its NodePool: launches fail by the dozen."""

    @lazy
    def options(self) -> DecisionOptions:
        """What decisions depend on beside the cluster."""
        return self.settings.options

    async def patch_claim(self, claim: NodeClaim, body: dict[str, Any], *, status: bool = False) -> NodeClaim:
        """Patch the very version that was read; the answer is what the next decision sees."""
        patch = Patch(body, claim.metadata.resource_version, "status" if status else "")
        try:
            written = await self.cluster.patch(NODE_CLAIM, claim.key, patch)
        except OutcomeUnknown:
            await self.refresh_claims()
            raise
        return self.state.observe(NODE_CLAIM, written)

    async def create_claim(self, claim: NodeClaim) -> NodeClaim:
        """Create it; the answer is what the next decision sees."""
        try:
            created = await self.cluster.create(NODE_CLAIM, claim)
        except OutcomeUnknown:
            await self.refresh_claims()
            raise
        return self.state.observe(NODE_CLAIM, created)

    async def read_pods(self, node_name: str) -> Listing[Pod]:
        """List the pods bound to a node from the API server (a quorum read): the Pod cache may be seconds behind.

        Pods the cache did not know are added to it, so that the drain evicts them like the others.
        """
        listing = await self.cluster.list(POD, ListOptions(field_selector=f"spec.nodeName={node_name}"))
        self.state.observe_all(POD, listing)
        return listing

    async def refresh_claims(self) -> None:
        """List all NodeClaims from the API server, where a write went unanswered or an absence must be certain.

        Callers that ask while a list is under way share it: unanswered writes come by the dozen.
        """
        await self.looks.ask(self._look)

    async def _look(self) -> None:
        """An API server that does not answer this either is waited for: without having looked, nothing more is done."""
        backoff = RetryBackoff(first=0.2, limit=10.0)
        while True:
            try:
                listing = await self.cluster.list(NODE_CLAIM)
            except ApiError:
                await asyncio.sleep(backoff.next())
            else:
                self.state.observe_all(NODE_CLAIM, listing)
                return

    async def patch_node(self, node: Node, body: dict[str, Any]) -> Node:
        """Patch the very version that was read."""
        patch = Patch(body, node.metadata.resource_version)
        return self.state.observe(NODE, await self.cluster.patch(NODE, node.key, patch))

    async def delete_claim(self, claim: NodeClaim) -> None:
        """Delete this very claim; one already gone is as good."""
        try:
            await self.cluster.delete(NODE_CLAIM, claim.key, Deletion(uid=claim.metadata.uid))
        except NotFound:
            return

    async def delete_node(self, node: Node) -> None:
        """Delete this very node; one already gone is as good."""
        try:
            await self.cluster.delete(NODE, node.key, Deletion(uid=node.metadata.uid))
        except NotFound:
            return

    def manages(self, claim: NodeClaim) -> bool:
        """Whether the claim is one of this provider's."""
        return self.cloud.supports(claim.spec.node_class_ref)


log = logging.getLogger(__name__)


async def find_catalogs(cloud: CloudProvider, pools: Iterable[NodePool]) -> dict[str, tuple[InstanceType, ...]]:
    """The catalogue of each pool of this provider. One that cannot be had now is left out, and so told."""
    catalogs: dict[str, tuple[InstanceType, ...]] = {}
    for pool in tuple(pools):  # they may change while the provider answers
        if not cloud.supports(pool.node_class_ref):
            continue
        try:
            catalogs[pool.name] = await cloud.instance_types(pool)
        except WorldError as error:
            log.warning("no catalogue for nodepool", extra={"nodepool": pool.name, "error": str(error)})
        except AssertionError:
            raise
        except Exception:
            log.exception("no catalogue for nodepool", extra={"nodepool": pool.name})
    return catalogs
