"""Selector terms as EC2 filters: the terms are alternatives, what stands in one term must hold together.

Terms by id, and terms by name, are gathered into one request each; every term by tags is a request of its own.

The subnets of a node class, and how many addresses each has left.

The security groups of a node class.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from dovetail.cloud.aws.clients import AwsClients, TtlCache
from dovetail.model.ec2nodeclass import (
    ResolvedSecurityGroup,
    ResolvedSubnet,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from dovetail.ports.clock import Clock

Filter = dict[str, Any]
Request = dict[str, Any]


def named(name: str, *values: str) -> Filter:
    """One filter."""
    return {"Name": name, "Values": list(values)}


def tagged(tags: Mapping[str, str]) -> list[Filter]:
    """Filters for all of these tags; `*` stands for any value."""
    return [
        named("tag-key", key) if value == "*" else named(f"tag:{key}", value) for key, value in sorted(tags.items())
    ]


def requests(terms: Iterable[Any], by_field: Mapping[str, str]) -> list[Request]:
    """The requests that find what the terms select. `by_field`: the filter for each field that stands alone."""
    gathered: dict[str, list[str]] = {}
    alone: list[Request] = []
    for term in terms:
        field = next((each for each in by_field if getattr(term, each)), None)
        if field is not None:
            gathered.setdefault(field, []).append(getattr(term, field))
        else:
            alone.append({"Filters": tagged(term.tags)})
    merged = [{"Filters": [named(by_field[field], *sorted(set(values)))]} for field, values in gathered.items()]
    return [*merged, *alone]


def key_of(terms: object) -> bytes:
    """Terms as something to remember answers by."""
    return msgspec.json.encode(terms, order="deterministic")


async def find(aws: AwsClients, operation: str, field: str, asked: Iterable[Request]) -> list[Mapping[str, Any]]:
    """What all the requests find together; what several find is in it several times."""
    found: list[Mapping[str, Any]] = []
    for request in asked:
        found.extend(await aws.collect("ec2", operation, field, **request))
    return found


SUBNET_LIFETIME = timedelta(minutes=1)


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
        self._kept: TtlCache[bytes, tuple[Subnet, ...]] = TtlCache(clock, SUBNET_LIFETIME)

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


SECURITY_GROUP_LIFETIME = timedelta(minutes=5)
_FILTERS = {"id": "group-id", "name": "group-name"}


class SecurityGroups:
    """Finds security groups, and asks again after five minutes."""

    def __init__(self, aws: AwsClients, clock: Clock) -> None:
        self._aws = aws
        self._kept: TtlCache[bytes, tuple[ResolvedSecurityGroup, ...]] = TtlCache(clock, SECURITY_GROUP_LIFETIME)

    async def find(self, terms: tuple[SecurityGroupSelectorTerm, ...]) -> tuple[ResolvedSecurityGroup, ...]:
        """Those the terms select, by id."""
        return await self._kept.get(key_of(terms), lambda: self._ask(terms))

    async def _ask(self, terms: tuple[SecurityGroupSelectorTerm, ...]) -> tuple[ResolvedSecurityGroup, ...]:
        found = await find(self._aws, "describe_security_groups", "SecurityGroups", requests(terms, _FILTERS))
        by_id = {each["GroupId"]: each["GroupName"] for each in found}
        return tuple(ResolvedSecurityGroup(id=id_, name=name) for id_, name in sorted(by_id.items()))
