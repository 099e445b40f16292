"""Which zones a zonal shift of the EKS cluster leads away from: nothing is launched there until it is over.

Asked where the switch is on, when somebody wants to know, and at most every half minute. What cannot be answered leaves
things as they were. Nodes that are in such a zone already are no business of this: EKS leads traffic away from them,
and they come back with their zone.
"""

import logging
from datetime import timedelta

from dovetail.cloud.aws.clients import AwsClients, AwsError
from dovetail.cloud.aws.eks_cluster import EksCluster
from dovetail.cloud.aws.ttl_cache import TtlCache
from dovetail.ports.clock import Clock

log = logging.getLogger(__name__)
LIFETIME = timedelta(seconds=30)
NOWHERE: frozenset[str] = frozenset()


class ZonalShifts:
    """Zones to stay away from, by id or by name, as AWS tells of them."""

    def __init__(self, aws: AwsClients, clock: Clock, cluster: EksCluster, *, enabled: bool) -> None:
        self._aws = aws
        self._cluster = cluster
        self._enabled = enabled
        self._kept: TtlCache[str, frozenset[str]] = TtlCache(clock, LIFETIME)
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
