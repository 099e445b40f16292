"""Shared dependencies of all controllers: ports, cluster state, settings, and the writes that several of them need.

`ControllerContext` writes NodeClaims and Nodes under the resource version that was read, and stores the answer in the
informer caches at once, so the next decision sees it before the watch delivers it. A write whose outcome is unknown
(`OutcomeUnknown`) is followed by a list of all NodeClaims, so no decision is made on a cache that may lack it.

`read_catalogs` reads the instance types of each NodePool from the provider.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dovetail.controllers.cluster_state import ClusterState
from dovetail.controllers.metrics.pod_clocks import PodClocks
from dovetail.model.cached import lazy
from dovetail.model.catalog import InstanceType
from dovetail.model.kinds import NODE, NODE_CLAIM, POD
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import Snapshot
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider, NodeClassReconciler, UnusableProvider
from dovetail.ports.cluster import Cluster, Deletion, Listing, ListOptions, Patch, Recorder
from dovetail.ports.compute import Compute, InlineCompute
from dovetail.ports.errors import ApiError, NotFound, OutcomeUnknown, WorldError
from dovetail.ports.interruption import InterruptionSource
from dovetail.ports.ledger import Ledger, NoLedger
from dovetail.ports.metrics import Metrics, NoMetrics
from dovetail.ports.tracing import NoTracer, Tracer
from dovetail.runtime.concurrency import SingleFlight
from dovetail.runtime.reconciler import RetryBackoff
from dovetail.settings import DecisionOptions, Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ProviderPorts:
    """One provider, with the reconciler of its node classes and its sources of interruption warnings.

    `in_use` is set once a NodePool or NodeClaim refers to the provider. Until then the provider is not called, so that
    a cluster without EC2 instances needs no AWS credentials.
    """

    cloud: CloudProvider
    node_classes: NodeClassReconciler | None = None
    interruptions: tuple[InterruptionSource, ...] = ()
    in_use: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The adapters through which controllers reach the cluster, the clouds, telemetry and the planning thread.

    `cloud` routes each call to one of `providers`. The objects of `unusable` providers are left alone.
    """

    cluster: Cluster
    cloud: CloudProvider
    providers: tuple[ProviderPorts, ...] = ()
    unusable: tuple[UnusableProvider, ...] = ()
    clock: Clock
    recorder: Recorder
    metrics: Metrics = field(default_factory=NoMetrics)
    ledger: Ledger = field(default_factory=NoLedger)
    tracer: Tracer = field(default_factory=NoTracer)
    compute: Compute = field(default_factory=InlineCompute)
    seen: bool = True  # False skips work that only produces events and metrics, as in benchmarks


@dataclass(frozen=True, kw_only=True)
class ControllerContext(Ports):
    """Ports, cluster state, settings, and state that several controllers share."""

    state: ClusterState
    settings: Settings
    removal_reasons: dict[str, str] = field(default_factory=dict)
    """Why claims were deleted without a command, by uid; set by the deleting controller, read by the ledger."""
    pod_clocks: PodClocks = field(default_factory=PodClocks)
    """When pending pods were seen and simulated; for metrics only."""
    claim_refresh: SingleFlight = field(default_factory=SingleFlight)
    """Coalesces concurrent lists of all NodeClaims."""
    launch_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the snapshot of a decision that launches or removes nodes until its claims are written and cached.

    So NodePool limits hold, and no command removes a node while pods are being placed on it."""
    backoff_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while failed launches are written on their NodePool, so concurrent failures do not conflict."""

    @lazy
    def options(self) -> DecisionOptions:
        """The settings that decisions depend on."""
        return self.settings.options

    async def snapshot(self) -> Snapshot:
        """Return the cluster at this instant, with the current catalog of each NodePool."""
        catalogs, missing = await read_catalogs(self.cloud, self.state.nodepools.items.values())
        return self.state.snapshot(self.clock.now(), catalogs, missing)

    async def patch_claim(self, claim: NodeClaim, body: dict[str, Any], *, status: bool = False) -> NodeClaim:
        """Patch the version of the claim that was read, and store the result in the cache."""
        patch = Patch(body, claim.metadata.resource_version, "status" if status else "")
        try:
            written = await self.cluster.patch(NODE_CLAIM, claim.key, patch)
        except OutcomeUnknown:
            await self.refresh_claims()
            raise
        return self.state.observe(NODE_CLAIM, written)

    async def create_claim(self, claim: NodeClaim) -> NodeClaim:
        """Create the claim and store the result in the cache."""
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

        Concurrent callers share one list: during an outage many writes go unanswered at once.
        """
        await self.claim_refresh.run(self._list_claims)

    async def _list_claims(self) -> None:
        """Retry until the API server answers: callers must not act before the list succeeded."""
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
        """Patch the version of the node that was read, and store the result in the cache."""
        patch = Patch(body, node.metadata.resource_version)
        return self.state.observe(NODE, await self.cluster.patch(NODE, node.key, patch))

    async def delete_claim(self, claim: NodeClaim) -> None:
        """Delete the claim with this uid; a missing claim is no error."""
        try:
            await self.cluster.delete(NODE_CLAIM, claim.key, Deletion(uid=claim.metadata.uid))
        except NotFound:
            return

    async def delete_node(self, node: Node) -> None:
        """Delete the node with this uid; a missing node is no error."""
        try:
            await self.cluster.delete(NODE, node.key, Deletion(uid=node.metadata.uid))
        except NotFound:
            return

    def manages(self, claim: NodeClaim) -> bool:
        """Whether the claim's node class belongs to a provider that can act."""
        return self.cloud.supports(claim.spec.node_class_ref)


async def find_catalogs(cloud: CloudProvider, pools: Iterable[NodePool]) -> dict[str, tuple[InstanceType, ...]]:
    """Return the catalog of each supported NodePool; a pool whose catalog fails is logged and left out."""
    catalogs, missing = await read_catalogs(cloud, pools)
    for pool, error in missing.items():
        log.warning("no catalog for nodepool", extra={"nodepool": pool, "error": error})
    return catalogs


async def read_catalogs(
    cloud: CloudProvider, pools: Iterable[NodePool], unusable: Sequence[UnusableProvider] = ()
) -> tuple[dict[str, tuple[InstanceType, ...]], dict[str, str]]:
    """Return the catalog of each supported NodePool, and why others have none; neither has pools of no provider."""
    catalogs: dict[str, tuple[InstanceType, ...]] = {}
    missing: dict[str, str] = {}
    for pool in tuple(pools):  # a copy: the cache may change while the provider answers
        if not cloud.supports(pool.node_class_ref):
            for each in unusable:
                if each.supports(pool.node_class_ref):
                    missing[pool.name] = each.why
            continue
        try:
            catalogs[pool.name] = await cloud.instance_types(pool)
        except WorldError as error:
            missing[pool.name] = str(error)
        except AssertionError:
            raise
        except Exception as error:
            missing[pool.name] = f"internal error: {error!r}"
            log.exception("no catalog for nodepool", extra={"nodepool": pool.name})
    return catalogs, missing
