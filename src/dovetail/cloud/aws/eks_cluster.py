"""What EKS knows of the cluster itself: its version of Kubernetes, where its API server is, and its address ranges.

Which zones a zonal shift of the EKS cluster leads away from: nothing is launched there until it is over.

Asked where the switch is on, when somebody wants to know, and at most every half minute. What cannot be answered leaves
things as they were. Nodes that are in such a zone already are no business of this: EKS leads traffic away from them,
and they come back with their zone.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta

from dovetail.cloud.aws.clients import AwsClients, AwsError, TtlCache
from dovetail.ports.clock import Clock

LIFETIME = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One cluster."""

    kubernetes: str  # such as 1.31
    endpoint: str
    certificate_authority: str  # base64, as EKS gives it
    service_cidr: str
    arn: str = ""


class EksCluster:
    """Asks EKS, a few times an hour. `endpoint` takes the place of what EKS says."""

    def __init__(self, aws: AwsClients, clock: Clock, name: str, endpoint: str = "") -> None:
        self._aws = aws
        self._endpoint = endpoint
        self._kept: TtlCache[str, ClusterFacts] = TtlCache(clock, LIFETIME)
        self.name = name

    async def facts(self) -> ClusterFacts:
        """What is known now."""
        return await self._kept.get(self.name, self._ask)

    async def _ask(self) -> ClusterFacts:
        said = (await self._aws.call("eks", "describe_cluster", name=self.name))["cluster"]
        network = said.get("kubernetesNetworkConfig", {})
        return ClusterFacts(
            kubernetes=said["version"],
            endpoint=self._endpoint or said.get("endpoint", ""),
            certificate_authority=said.get("certificateAuthority", {}).get("data", ""),
            arn=said.get("arn", ""),
            service_cidr=network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr", ""),
        )


log = logging.getLogger(__name__)
SHIFT_LIFETIME = timedelta(seconds=30)
NOWHERE: frozenset[str] = frozenset()


class ZonalShifts:
    """Zones to stay away from, by id or by name, as AWS tells of them."""

    def __init__(self, aws: AwsClients, clock: Clock, cluster: EksCluster, *, enabled: bool) -> None:
        self._aws = aws
        self._cluster = cluster
        self._enabled = enabled
        self._kept: TtlCache[str, frozenset[str]] = TtlCache(clock, SHIFT_LIFETIME)
        self._away = NOWHERE

    async def away_from(self) -> frozenset[str]:
        """The zones; none, and nobody is asked, unless the switch is on."""
        return await self._kept.get("", self._ask) if self._enabled else NOWHERE

    async def _ask(self) -> frozenset[str]:
        try:
            arn = (await self._cluster.facts()).arn
            said = await self._aws.call("arc-zonal-shift", "get_managed_resource", resourceIdentifier=arn)
        except AwsError as error:
            log.warning("zonal shifts are unknown", extra={"error": str(error)})
            return self._away
        away = frozenset(zone for zone, weight in said["appliedWeights"].items() if weight == 0)
        for zone in sorted(away - self._away):
            log.warning("a zonal shift is active: nothing is launched in the zone", extra={"zone": zone})
        for zone in sorted(self._away - away):
            log.warning("a zonal shift is over", extra={"zone": zone})
        self._away = away
        return away
