"""Constructs the cloud providers that may act, each with its interruption sources and NodeClass reconciler.

With `--provider auto` every provider is constructed; which of them acts follows from the nodeClassRefs in the cluster.
A provider that lacks a setting or a package is then `unusable`: the objects that refer to it are left alone, and the
others work. A provider that `--provider` names must be usable.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dovetail.cloud.kwok.catalog import select_catalog
from dovetail.cloud.kwok.interruptions import StagedInterruptions
from dovetail.cloud.kwok.node import build_node
from dovetail.cloud.kwok.provider import KwokProvider, NodeClassWatch
from dovetail.cloud.router import CloudRouter
from dovetail.controllers.context import ProviderPorts
from dovetail.kube.kubeconfig import NO_EKS, EksContext
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.labels import HOSTNAME
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider, NodeClassReconciler, UnusableProvider
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import CloudError
from dovetail.ports.interruption import InterruptionSource
from dovetail.ports.metrics import Metrics, NoMetrics
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.sim.cloud.provider import CloudClient, SimulatedProvider


class ProviderUnusable(CloudError):
    """A provider lacks a setting or a package; the message names the fix."""


class Supplier(CloudProvider, Protocol):
    """A provider with the lifecycle methods that the process calls."""

    async def recover(self) -> None:
        """Resume the unfinished work of an earlier process."""
        ...

    async def run(self) -> None:
        """Run the background work of the provider; returns at once if there is none."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


@dataclass(frozen=True, kw_only=True)
class ProviderParts:
    """One provider as it is constructed: without the wrappers that gate and measure its calls."""

    supplier: Supplier
    ports: ProviderPorts


@dataclass(frozen=True)
class Providers:
    """The providers that may act, and those that cannot."""

    parts: tuple[ProviderParts, ...]
    unusable: tuple[UnusableProvider, ...] = ()

    @property
    def cloud(self) -> CloudProvider:
        """One provider that routes each call to the right one."""
        return route([each.ports for each in self.parts])

    async def recover(self) -> None:
        """Resume the unfinished work of an earlier process."""
        for each in self.parts:
            await each.supplier.recover()

    async def aclose(self) -> None:
        """Release the resources of all providers."""
        for each in self.parts:
            await each.supplier.aclose()


def route(ports: Sequence[ProviderPorts]) -> CloudProvider:
    """Return one provider for all; the only one is returned as it is."""
    return ports[0].cloud if len(ports) == 1 else CloudRouter([each.cloud for each in ports])


def require_usable(providers: Providers, pools: Sequence[NodePool]) -> None:
    """Raise `ProviderUnusable` if no provider can serve any of the NodePools, and one could with other settings."""
    refs = [pool.node_class_ref for pool in pools]
    if any(each.supplier.supports(ref) for each in providers.parts for ref in refs):
        return
    for unusable in providers.unusable:
        if any(map(unusable.supports, refs)):
            raise ProviderUnusable(unusable.why)


@runtime_checkable
class SimulatedCluster(Protocol):
    """A cluster in a simulated cloud."""

    def cloud_client(self) -> "CloudClient":
        """Return a client of the cloud."""
        ...


def build_providers(
    cluster: Cluster,
    clock: Clock,
    settings: Settings,
    metrics: Metrics | None = None,
    cloud: "CloudClient | None" = None,
) -> Providers:
    """Build the providers for controllers; `ProviderUnusable` if the one that `--provider` names cannot run.

    With a simulated cloud there is only the kwok provider, which launches its instances in it, unless `--provider`
    names AWS.
    """
    if cloud is not None and settings.provider != "aws":
        kwok = build_kwok(cluster, clock, settings)
        return _selected(_parts(simulated(cloud, kwok), NodeClassWatch(), StagedInterruptions(cluster, clock)))

    def aws() -> ProviderParts:
        if not settings.cluster_name:
            raise ProviderUnusable(f"{_FOR_AWS} the name of the EKS cluster; set --cluster-name (CLUSTER_NAME)")
        if not settings.eks_control_plane:
            _require_description(settings)
        return _build_aws(cluster, clock, settings, metrics or NoMetrics())

    def kwok_parts() -> ProviderParts:
        staged = StagedInterruptions(cluster, clock)
        return _parts(build_kwok(cluster, clock, settings), NodeClassWatch(), staged)

    return _build(settings, kwok_parts, aws)


def _require_description(settings: Settings) -> None:
    """Raise `ProviderUnusable` if a cluster without EKS is not described, or with something that only EKS has."""
    missing = [
        name
        for name, value in (
            ("the URL of the API server for nodes (--cluster-endpoint, CLUSTER_ENDPOINT)", settings.cluster_endpoint),
            ("its CA bundle (--cluster-ca-bundle, CLUSTER_CA_BUNDLE)", settings.cluster_ca_bundle),
        )
        if not value
    ]
    if missing:
        why = f"with EKS_CONTROL_PLANE=false, EKS is not asked for {' and '.join(missing)}"
        raise ProviderUnusable(f"{why}; set it, or on EKS leave EKS_CONTROL_PLANE out")
    if settings.enable_zonal_shift:
        why = "zonal shifts are read by the ARN of the EKS cluster, and EKS_CONTROL_PLANE is false"
        raise ProviderUnusable(f"{why}; leave ENABLE_ZONAL_SHIFT or EKS_CONTROL_PLANE out")


def build_readers(cluster: Cluster, clock: Clock, settings: Settings, eks: EksContext) -> Providers:
    """Build the providers for a command that only reads instance types and prices.

    AWS needs a region and credentials for that. The region is that of the kubeconfig's EKS cluster, if it names one.
    """
    settings = replace(settings, cluster_name=settings.cluster_name or eks.cluster_name)
    return _build(
        settings,
        lambda: _parts(build_kwok(cluster, clock, settings)),
        lambda: _build_aws(cluster, clock, settings, NoMetrics(), eks),
    )


def _build(
    settings: Settings, build_kwok: Callable[[], ProviderParts], build_aws: Callable[[], ProviderParts]
) -> Providers:
    if settings.provider != "auto":
        return _selected(build_aws() if settings.provider == "aws" else build_kwok())
    try:
        return Providers((build_kwok(), build_aws()))
    except CloudError as error:
        return Providers((build_kwok(),), (UnusableProvider("aws", EC2_NODE_CLASS, str(error)),))


def _selected(parts: ProviderParts) -> Providers:
    """Return a single provider, which is in use from the start."""
    parts.ports.in_use.set()
    return Providers((parts,))


def _parts(
    supplier: Supplier, node_classes: NodeClassReconciler | None = None, *interruptions: InterruptionSource
) -> ProviderParts:
    ports = ProviderPorts(cloud=supplier, node_classes=node_classes, interruptions=interruptions)
    return ProviderParts(supplier=supplier, ports=ports)


def build_kwok(cluster: Cluster, clock: Clock, settings: Settings) -> KwokProvider:
    """Build the kwok provider with the catalog that the settings select."""
    return KwokProvider(cluster, select_catalog(settings.catalog, settings.instance_types_file_path), clock)


def simulated(cloud: "CloudClient", kwok: KwokProvider) -> "SimulatedProvider[KwokProvider]":
    """Build a provider that selects offerings as the kwok provider does and launches them in the simulated cloud."""
    from dovetail.sim.cloud.provider import SimulatedProvider  # noqa: PLC0415 - only with a simulated cloud
    from dovetail.sim.cloud.service import LaunchRequest  # noqa: PLC0415 - only with a simulated cloud

    async def choose(claim: NodeClaim) -> LaunchRequest:
        choice, node_class = await kwok.choose(claim)
        node, delay = build_node(claim, choice), node_class.spec.node_registration_delay
        return LaunchRequest(
            token=claim.metadata.uid,
            name=node.name,
            claim=claim.name,
            nodepool=claim.nodepool_name,
            instance_type=choice.instance_type.name,
            zone=choice.offering.zone,
            capacity_type=choice.offering.capacity_type,
            price=choice.offering.price,
            tags={key: value for key, value in node.metadata.labels.items() if key != HOSTNAME},
            annotations=node.metadata.annotations,
            capacity=node.status.capacity,
            allocatable=node.status.allocatable,
            registration_delay=delay.span.total_seconds() if delay is not None else 0.0,
        )

    return SimulatedProvider(cloud, kwok, choose)


def _build_aws(
    cluster: Cluster, clock: Clock, settings: Settings, metrics: Metrics, eks: EksContext = NO_EKS
) -> ProviderParts:
    try:
        from dovetail.cloud.aws.clients import AwsClients  # noqa: PLC0415 - optional dependency
        from dovetail.cloud.aws.interruption.status_checks import find_sources  # noqa: PLC0415 - optional dependency
        from dovetail.cloud.aws.provider import AwsProvider, assemble_aws  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise ProviderUnusable(f"{_FOR_AWS} {error.name}; pip install 'dovetail[aws]'") from error
    aws = AwsClients(region=eks.region, profile=eks.profile)
    aws.metrics = metrics
    if not aws.region:
        raise ProviderUnusable("no AWS region is known; set AWS_REGION, or a region in the profile")
    parts = assemble_aws(cluster, clock, settings, aws)
    return _parts(AwsProvider(parts), parts.nodeclass_reconciler, *find_sources(parts, metrics))


_FOR_AWS = "NodePools with an EC2NodeClass need"
