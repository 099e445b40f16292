"""The subnets of a node class, and how many addresses each has left."""

from dataclasses import dataclass
from datetime import timedelta

from dovetail.cloud.aws.clients import AwsClients, TtlCache
from dovetail.cloud.aws.resolve.selector_terms import find, key_of, requests
from dovetail.model.ec2nodeclass import ResolvedSubnet, SubnetSelectorTerm
from dovetail.ports.clock import Clock

LIFETIME = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet as EC2 told of it last."""

    id: str
    zone: str
    zone_id: str
    free_addresses: int

    @property
    def resolved(self) -> ResolvedSubnet:
        """As the status of a node class has it."""
        return ResolvedSubnet(id=self.id, zone=self.zone, zone_id=self.zone_id)


class Subnets:
    """Finds subnets, and asks again after a minute."""

    def __init__(self, aws: AwsClients, clock: Clock) -> None:
        self._aws = aws
        self._kept: TtlCache[bytes, tuple[Subnet, ...]] = TtlCache(clock, LIFETIME)

    async def find(self, terms: tuple[SubnetSelectorTerm, ...]) -> tuple[Subnet, ...]:
        """Those the terms select, most free addresses first."""
        return await self._kept.get(key_of(terms), lambda: self._ask(terms))

    def forget(self, terms: tuple[SubnetSelectorTerm, ...]) -> None:
        """Ask anew next time."""
        self._kept.forget(key_of(terms))

    async def _ask(self, terms: tuple[SubnetSelectorTerm, ...]) -> tuple[Subnet, ...]:
        found = await find(self._aws, "describe_subnets", "Subnets", requests(terms, {"id": "subnet-id"}))
        by_id = {
            each["SubnetId"]: Subnet(
                each["SubnetId"],
                each["AvailabilityZone"],
                each.get("AvailabilityZoneId", ""),
                each["AvailableIpAddressCount"],
            )
            for each in found
        }
        return tuple(sorted(by_id.values(), key=lambda subnet: (-subnet.free_addresses, subnet.id)))
