"""Describes the cluster to nodes: its Kubernetes version, API server endpoint and service CIDR; and its zonal shifts.

`EksCluster` caches the answer of DescribeCluster for 15 minutes. `SelfManagedCluster` never calls EKS: settings and API
server describe the cluster (EKS_CONTROL_PLANE=false). `ZonalShifts` returns the zones that an ARC zonal
shift moves traffic away from; no instance is launched in them until the shift ends. It sends requests only if zonal
shift support is enabled, at most every 30 seconds, and keeps the last answer if a request fails. Existing nodes in a
shifted zone stay: EKS moves traffic away from them, and they serve again when the shift ends.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta

from dovetail.cloud.aws.clients import AwsClients, AwsError, TtlCache
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster

LIFETIME = timedelta(minutes=15)
VERSION_LIFETIME = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What DescribeCluster returns about the cluster."""

    kubernetes: str  # minor version, for example 1.31
    endpoint: str
    certificate_authority: str  # base64-encoded
    service_cidr: str
    arn: str = ""


class EksCluster:
    """Describes the cluster, cached. A configured `endpoint` or `ca_bundle` replaces the one that EKS reports."""

    knows_service_cidr = True

    def __init__(self, aws: AwsClients, clock: Clock, name: str, endpoint: str = "", ca_bundle: str = "") -> None:
        self._aws = aws
        self._endpoint = endpoint
        self.ca_bundle = ca_bundle
        self._cache: TtlCache[str, ClusterFacts] = TtlCache(clock, LIFETIME)
        self.name = name

    async def facts(self) -> ClusterFacts:
        """The facts, at most 15 minutes old."""
        return await self._cache.get(self.name, self._describe)

    async def _describe(self) -> ClusterFacts:
        cluster = (await self._aws.call("eks", "describe_cluster", name=self.name))["cluster"]
        network = cluster.get("kubernetesNetworkConfig", {})
        return ClusterFacts(
            kubernetes=cluster["version"],
            endpoint=self._endpoint or cluster.get("endpoint", ""),
            certificate_authority=self.ca_bundle or cluster.get("certificateAuthority", {}).get("data", ""),
            arn=cluster.get("arn", ""),
            service_cidr=network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr", ""),
        )


class SelfManagedCluster:
    """A cluster without an EKS control plane. Its service CIDR is not known: no API of Kubernetes reports it."""

    knows_service_cidr = False

    def __init__(self, api: Cluster, clock: Clock, name: str, endpoint: str, ca_bundle: str) -> None:
        self._api = api
        self._endpoint = endpoint
        self.ca_bundle = ca_bundle
        self._cache: TtlCache[str, ClusterFacts] = TtlCache(clock, VERSION_LIFETIME)
        self.name = name

    async def facts(self) -> ClusterFacts:
        """The facts; the version is at most five minutes old."""
        return await self._cache.get(self.name, self._describe)

    async def _describe(self) -> ClusterFacts:
        version = await self._api.server_version()
        return ClusterFacts(version, self._endpoint, self.ca_bundle, service_cidr="")


log = logging.getLogger(__name__)
SHIFT_LIFETIME = timedelta(seconds=30)
NO_ZONES: frozenset[str] = frozenset()


class ZonalShifts:
    """The zones, by name or id as AWS reports them, that a zonal shift moves traffic away from."""

    def __init__(
        self, aws: AwsClients, clock: Clock, cluster: EksCluster | SelfManagedCluster, *, enabled: bool
    ) -> None:
        self._aws = aws
        self._cluster = cluster
        self._enabled = enabled
        self._cache: TtlCache[str, frozenset[str]] = TtlCache(clock, SHIFT_LIFETIME)
        self._shifted = NO_ZONES

    async def away_from(self) -> frozenset[str]:
        """The shifted zones; always empty, without a request, if zonal shift support is disabled."""
        return await self._cache.get("", self._describe) if self._enabled else NO_ZONES

    async def _describe(self) -> frozenset[str]:
        try:
            arn = (await self._cluster.facts()).arn
            resource = await self._aws.call("arc-zonal-shift", "get_managed_resource", resourceIdentifier=arn)
        except AwsError as error:
            log.warning("could not read zonal shifts, keeping the last known ones", extra={"error": str(error)})
            return self._shifted
        shifted = frozenset(zone for zone, weight in resource["appliedWeights"].items() if weight == 0)
        for zone in sorted(shifted - self._shifted):
            log.warning("zonal shift active: no instances are launched in the zone", extra={"zone": zone})
        for zone in sorted(self._shifted - shifted):
            log.warning("zonal shift ended", extra={"zone": zone})
        self._shifted = shifted
        return shifted
