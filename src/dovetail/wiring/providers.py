"""Constructs the cloud provider that the settings select, with its interruption sources and NodeClass reconciler."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dovetail.cloud.kwok.catalog import select_catalog
from dovetail.cloud.kwok.interruptions import StagedInterruptions
from dovetail.cloud.kwok.node import build_node
from dovetail.cloud.kwok.provider import KwokProvider, NodeClassWatch
from dovetail.model.labels import HOSTNAME
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider, NodeClassReconciler
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import CloudError
from dovetail.ports.interruption import InterruptionSource
from dovetail.ports.metrics import Metrics, NoMetrics
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.sim.cloud.provider import CloudClient, SimulatedProvider


class ProviderUnusable(CloudError):
    """The selected provider lacks a setting or a package; the message names the fix."""


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
class Providers:
    """A provider with its interruption sources and NodeClass reconciler."""

    supplier: Supplier
    interruptions: tuple[InterruptionSource, ...] = ()
    nodeclass_reconciler: NodeClassReconciler | None = None


@runtime_checkable
class SimulatedCluster(Protocol):
    """A cluster in a simulated cloud."""

    def cloud_client(self) -> "CloudClient":
        """Return a client of the cloud."""
        ...


def build_provider(
    cluster: Cluster,
    clock: Clock,
    settings: Settings,
    metrics: Metrics | None = None,
    cloud: "CloudClient | None" = None,
) -> Providers:
    """Build the provider that the settings select; `ProviderUnusable` if a setting or package is missing.

    With a simulated cloud, the kwok provider launches instances in it; otherwise its instances are Nodes.
    """
    if settings.provider == "aws":
        return _build_aws(cluster, clock, settings, metrics or NoMetrics())
    kwok = KwokProvider(cluster, select_catalog(settings.catalog, settings.instance_types_file_path), clock)
    provider: Supplier = kwok if cloud is None else simulated(cloud, kwok)
    staged = (StagedInterruptions(cluster, clock),)
    return Providers(supplier=provider, interruptions=staged, nodeclass_reconciler=NodeClassWatch())


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


def _build_aws(cluster: Cluster, clock: Clock, settings: Settings, metrics: Metrics) -> Providers:
    try:
        from dovetail.cloud.aws.interruption.status_checks import find_sources  # noqa: PLC0415 - optional dependency
        from dovetail.cloud.aws.provider import AwsProvider, assemble_aws  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise ProviderUnusable(f"the aws provider needs {error.name}; pip install dovetail[aws]") from error
    if not settings.cluster_name:
        raise ProviderUnusable("the aws provider needs the name of the EKS cluster; set --cluster-name (CLUSTER_NAME)")
    parts = assemble_aws(cluster, clock, settings)
    if not parts.aws.region:
        raise ProviderUnusable("no AWS region is known; set AWS_REGION, or a region in the profile")
    return Providers(
        supplier=AwsProvider(parts),
        interruptions=find_sources(parts, metrics),
        nodeclass_reconciler=parts.nodeclass_reconciler,
    )
