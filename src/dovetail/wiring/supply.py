"""Constructs the provider that the settings ask for, and what comes with it."""

from dataclasses import dataclass
from typing import Protocol

from dovetail.cloud.kwok.catalog import select_catalog
from dovetail.cloud.kwok.classes import WatchedClasses
from dovetail.cloud.kwok.interruptions import StagedInterruptions
from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.ports.clock import Clock
from dovetail.ports.cloud import CloudProvider, NodeClassKeeper
from dovetail.ports.cluster import Cluster
from dovetail.ports.errors import CloudError
from dovetail.ports.interruption import InterruptionSource
from dovetail.ports.metrics import Metrics, NoMetrics
from dovetail.settings import Settings


class ProviderUnusable(CloudError):
    """The provider that was asked for lacks something it needs; the message says what to do."""


class Supplier(CloudProvider, Protocol):
    """A provider as the process runs it."""

    async def recover(self) -> None:
        """Take up what the process before this one had begun."""
        ...

    async def run(self) -> None:
        """What has to be done all the time; ends at once if that is nothing."""
        ...

    async def aclose(self) -> None:
        """Let go of everything it holds."""
        ...


@dataclass(frozen=True, kw_only=True)
class Supply:
    """A provider, and what comes with it."""

    supplier: Supplier
    interruptions: tuple[InterruptionSource, ...] = ()
    keeper: NodeClassKeeper | None = None


def find_supply(cluster: Cluster, clock: Clock, settings: Settings, metrics: Metrics | None = None) -> Supply:
    """The provider the settings ask for; `ProviderUnusable` if it cannot work."""
    if settings.provider == "aws":
        return _aws_supply(cluster, clock, settings, metrics or NoMetrics())
    provider = KwokProvider(cluster, select_catalog(settings.catalog, settings.instance_types_file_path), clock)
    staged = (StagedInterruptions(cluster, clock),)
    return Supply(supplier=provider, interruptions=staged, keeper=WatchedClasses())


def _aws_supply(cluster: Cluster, clock: Clock, settings: Settings, metrics: Metrics) -> Supply:
    try:
        from dovetail.cloud.aws.interruption.sources import find_sources  # noqa: PLC0415 - see below
        from dovetail.cloud.aws.provider import AwsProvider, assemble_aws  # noqa: PLC0415 - an extra, not always there
    except ModuleNotFoundError as error:
        raise ProviderUnusable(f"the aws provider needs {error.name}; pip install dovetail[aws]") from error
    if not settings.cluster_name:
        raise ProviderUnusable("the aws provider needs the name of the EKS cluster; set --cluster-name (CLUSTER_NAME)")
    parts = assemble_aws(cluster, clock, settings)
    if not parts.aws.region:
        raise ProviderUnusable("no AWS region is known; set AWS_REGION, or a region in the profile")
    return Supply(supplier=AwsProvider(parts), interruptions=find_sources(parts, metrics), keeper=parts.keeper)
