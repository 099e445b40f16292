"""Resolves subnet and security group selector terms, and builds the EC2 filters for selector terms of every kind.

The terms of a list are alternatives; the fields of one term must all match. Terms by id are merged into one request,
and so are terms by name; every term by tags is a separate request. Results are cached: subnets for a minute, because
their free addresses change, and security groups for five.
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


def ec2_filter(name: str, *values: str) -> Filter:
    """One EC2 filter."""
    return {"Name": name, "Values": list(values)}


def tag_filters(tags: Mapping[str, str]) -> list[Filter]:
    """Filters that match all of these tags; the value `*` matches any value."""
    return [
        ec2_filter("tag-key", key) if value == "*" else ec2_filter(f"tag:{key}", value)
        for key, value in sorted(tags.items())
    ]


def selector_requests(terms: Iterable[Any], by_field: Mapping[str, str]) -> list[Request]:
    """The requests that match the terms. `by_field`: the EC2 filter of each field that identifies a resource."""
    values_by_field: dict[str, list[str]] = {}
    by_tags: list[Request] = []
    for term in terms:
        field = next((each for each in by_field if getattr(term, each)), None)
        if field is not None:
            values_by_field.setdefault(field, []).append(getattr(term, field))
        else:
            by_tags.append({"Filters": tag_filters(term.tags)})
    merged = [
        {"Filters": [ec2_filter(by_field[field], *sorted(set(values)))]} for field, values in values_by_field.items()
    ]
    return [*merged, *by_tags]


def cache_key(terms: object) -> bytes:
    """The terms as a cache key."""
    return msgspec.json.encode(terms, order="deterministic")


async def describe(aws: AwsClients, operation: str, field: str, queries: Iterable[Request]) -> list[Mapping[str, Any]]:
    """The results of all selector_requests; a resource that matches several selector_requests occurs several times."""
    found: list[Mapping[str, Any]] = []
    for request in queries:
        found.extend(await aws.collect("ec2", operation, field, **request))
    return found


SUBNET_LIFETIME = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet as EC2 described it last."""

    id: str
    zone: str
    zone_id: str
    free_addresses: int

    @property
    def resolved(self) -> ResolvedSubnet:
        """The form in the status of the class."""
        return ResolvedSubnet(id=self.id, zone=self.zone, zone_id=self.zone_id)


class Subnets:
    """Finds subnets, cached for `lifetime`."""

    def __init__(self, aws: AwsClients, clock: Clock, lifetime: timedelta = SUBNET_LIFETIME) -> None:
        self._aws = aws
        self._cache: TtlCache[bytes, tuple[Subnet, ...]] = TtlCache(clock, lifetime)

    async def find(self, terms: tuple[SubnetSelectorTerm, ...]) -> tuple[Subnet, ...]:
        """The matching subnets, most free addresses first."""
        return await self._cache.get(cache_key(terms), lambda: self._describe(terms))

    def forget(self, terms: tuple[SubnetSelectorTerm, ...]) -> None:
        """Drop the cached result."""
        self._cache.forget(cache_key(terms))

    async def _describe(self, terms: tuple[SubnetSelectorTerm, ...]) -> tuple[Subnet, ...]:
        found = await describe(self._aws, "describe_subnets", "Subnets", selector_requests(terms, {"id": "subnet-id"}))
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
    """Finds security groups, cached for five minutes."""

    def __init__(self, aws: AwsClients, clock: Clock) -> None:
        self._aws = aws
        self._cache: TtlCache[bytes, tuple[ResolvedSecurityGroup, ...]] = TtlCache(clock, SECURITY_GROUP_LIFETIME)

    async def find(self, terms: tuple[SecurityGroupSelectorTerm, ...]) -> tuple[ResolvedSecurityGroup, ...]:
        """The matching security groups, ordered by id."""
        return await self._cache.get(cache_key(terms), lambda: self._describe(terms))

    async def _describe(self, terms: tuple[SecurityGroupSelectorTerm, ...]) -> tuple[ResolvedSecurityGroup, ...]:
        found = await describe(
            self._aws, "describe_security_groups", "SecurityGroups", selector_requests(terms, _FILTERS)
        )
        by_id = {each["GroupId"]: each["GroupName"] for each in found}
        return tuple(ResolvedSecurityGroup(id=id_, name=name) for id_, name in sorted(by_id.items()))
