"""What EKS knows of the cluster itself: its version of Kubernetes, where its API server is, and its address ranges."""

from dataclasses import dataclass
from datetime import timedelta

from dovetail.cloud.aws.clients import AwsClients
from dovetail.cloud.aws.ttl_cache import TtlCache
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
