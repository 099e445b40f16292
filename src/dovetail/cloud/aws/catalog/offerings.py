"""The offerings of EC2 instance types: prices, and offerings that are temporarily unavailable.

`Prices` reads on-demand prices from the pricing API and spot prices from the spot price history, at startup and every
twelve hours. A failed refresh keeps the last prices. A shipped table serves until the first refresh. Before the first
spot prices arrive, spot is assumed to cost as much as on-demand; afterwards spot without a price is not offered.

`UnavailableOfferings` remembers for three minutes what EC2 had no capacity for: one offering, all spot, or a subnet
without addresses. It is not persisted: a restart costs one failed request. `mark_unavailable` applies it to finished
offerings, so that a shortage recomputes only the instance types it is about.

An unavailable offering is listed as unavailable, never left out, because drift detection compares with the full list.
An offering with an unknown price is unavailable with price 0, so that consolidation never seems to save by leaving it.
"""

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.catalog.ec2_instance_type import Ec2InstanceType, shipped_prices
from dovetail.cloud.aws.clients import AwsClients
from dovetail.model.catalog import Offering
from dovetail.model.ec2nodeclass import ResolvedCapacityReservation
from dovetail.model.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE
from dovetail.model.requirements import DOES_NOT_EXIST, IN, Requirement, Requirements
from dovetail.ports.clock import Clock

_PRICING_REGIONS = (("cn-", "cn-northwest-1"), ("ap-", "ap-south-1"), ("eu-", "eu-central-1"))
_DEFAULT_PRICING_REGION = "us-east-1"
_LINUX = "Linux/UNIX"
_PLAIN_LINUX = {
    "serviceCode": "AmazonEC2",
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
_TENANCIES = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))


class Prices:
    """Prices per hour, in the currency of the region. `version` grows with every change."""

    def __init__(self, aws: AwsClients, clock: Clock, *, isolated: bool = False) -> None:
        self._aws = aws
        self._clock = clock
        self._isolated = isolated
        self._on_demand: Mapping[str, float] = {}
        self._spot: Mapping[tuple[str, str], float] | None = None
        self.version = 0

    def on_demand(self, instance_type: str) -> float | None:
        """The on-demand price, or None if it is unknown."""
        return self._on_demand_prices().get(instance_type)

    def spot(self, instance_type: str, zone: str) -> float | None:
        """The spot price in a zone, or None if the type is not offered as spot there."""
        if self._spot is None:
            return self.on_demand(instance_type)
        return self._spot.get((instance_type, zone))

    def _on_demand_prices(self) -> Mapping[str, float]:
        if not self._on_demand:
            self._on_demand = shipped_prices(self._aws.region)
        return self._on_demand

    async def refresh_on_demand(self) -> None:
        """Read the pricing API. A type that it does not list keeps its price."""
        region = self._aws.region
        if self._isolated or region.startswith("us-gov-"):
            return  # the pricing API is not reachable from an isolated VPC or GovCloud
        found = await self.read_on_demand(region)
        if found:
            self._on_demand = {**self._on_demand_prices(), **found}
            self.version += 1

    async def read_on_demand(self, region: str) -> Mapping[str, float]:
        """The prices that the pricing API has for a region, by instance type."""
        found: dict[str, float] = {}
        currency = "CNY" if region.startswith("cn-") else "USD"
        for tenancy, product_family in _TENANCIES:
            fields = {**_PLAIN_LINUX, "regionCode": region, "tenancy": tenancy, "productFamily": product_family}
            filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in fields.items()]
            pricing_region = _pricing_region(region)
            pages = self._aws.pages(
                "pricing", "get_products", region=pricing_region, ServiceCode="AmazonEC2", Filters=filters
            )
            async for page in pages:
                found.update(pair for each in page["PriceList"] for pair in _read_product(each, currency))
        return found

    async def refresh_spot(self) -> None:
        """Read the current spot prices of all types and zones."""
        newest: dict[tuple[str, str], tuple[datetime, float]] = {}
        pages = self._aws.pages(
            "ec2", "describe_spot_price_history", StartTime=self._clock.now(), ProductDescriptions=[_LINUX]
        )
        async for page in pages:
            for each in page["SpotPriceHistory"]:
                key, priced_at = (each["InstanceType"], each["AvailabilityZone"]), each["Timestamp"]
                if key not in newest or newest[key][0] < priced_at:
                    newest[key] = (priced_at, float(each["SpotPrice"]))
        if newest:
            self._spot = {key: price for key, (_, price) in newest.items()}
            self.version += 1


def _pricing_region(region: str) -> str:
    return next(
        (pricing_region for prefix, pricing_region in _PRICING_REGIONS if region.startswith(prefix)),
        _DEFAULT_PRICING_REGION,
    )


def _read_product(text: str, currency: str) -> Iterator[tuple[str, float]]:
    product = json.loads(text)
    name = product["product"]["attributes"].get("instanceType", "")
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = float(dimension["pricePerUnit"].get(currency, 0))
            if name and price > 0:
                yield name, price


LIFETIME = timedelta(minutes=3)
_ALL_SPOT = ("all", SPOT)


class OfferingKey(NamedTuple):
    """Identifies an offering. A reserved one has its reservation id in place of the instance type."""

    capacity_type: str
    instance_type: str
    zone: str


class UnavailableOfferings:
    """The offerings and subnets without capacity. `version` changes when an entry is added or expires."""

    def __init__(self, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self._expires_at: dict[Hashable, datetime] = {}
        self._version = 0

    def mark(self, key: OfferingKey) -> None:
        """Record that EC2 has no capacity for the offering."""
        self._add(key)

    def mark_all_spot(self) -> None:
        """Record that spot is not available at all: the account lacks the service-linked role."""
        self._add(_ALL_SPOT)

    def mark_subnet(self, subnet_id: str) -> None:
        """Record that the subnet has no free addresses."""
        self._add(("subnet", subnet_id))

    def is_unavailable(self, key: OfferingKey) -> bool:
        """Whether the offering is unavailable now."""
        return self._is_marked(key) or self._is_marked(("all", key.capacity_type))

    def is_subnet_full(self, subnet_id: str) -> bool:
        """Whether the subnet had no free addresses at most three minutes ago."""
        return self._is_marked(("subnet", subnet_id))

    def may_affect(self, instance_type: str) -> bool:
        """Whether an entry may apply to the type: a quick check. Reservations are recorded by id, not by type."""
        return any(
            entry.instance_type == instance_type if isinstance(entry, OfferingKey) else entry == _ALL_SPOT
            for entry in self._expires_at
        )

    @property
    def version(self) -> int:
        """A number that changes whenever the entries change."""
        now = self._clock.now()
        expired = [entry for entry, expires_at in self._expires_at.items() if expires_at <= now]
        for entry in expired:
            del self._expires_at[entry]
        self._version += bool(expired)
        return self._version

    def _add(self, entry: Hashable) -> None:
        self._expires_at[entry] = self._clock.now() + self._lifetime
        self._version += 1

    def _is_marked(self, entry: Hashable) -> bool:
        expires_at = self._expires_at.get(entry)
        return expires_at is not None and self._clock.now() < expires_at


_RESERVATION_LABELS = (labels.RESERVATION_ID, labels.RESERVATION_TYPE, labels.RESERVATION_INTERRUPTIBLE)
_UNRESERVED = tuple(Requirement.of(key, DOES_NOT_EXIST) for key in _RESERVATION_LABELS)
_RESERVED_DISCOUNT = 10_000_000
"""Reserved capacity is prepaid: its price is near zero, but keeps the order of the on-demand prices."""


@dataclass(frozen=True, slots=True)
class OfferingScope:
    """What limits the offerings of one class: zones with a usable subnet, zone ids, and capacity reservations."""

    zones: frozenset[str]
    zone_ids: Mapping[str, str] = field(hash=False)
    reservations: tuple[ResolvedCapacityReservation, ...] = ()
    reserved_counts: Mapping[str, int] = field(default_factory=dict, hash=False)


class Offerings:
    """Builds the offerings of instance types."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    def of(
        self, ec2_type: Ec2InstanceType, zones: frozenset[str], scope: OfferingScope, *, usable: bool
    ) -> tuple[Offering, ...]:
        """Every offering of a type in `zones`. `usable`: whether the class can launch the type."""
        plain = (
            self._offering(ec2_type, zone, capacity_type, scope, usable)
            for zone in sorted(zones)
            for capacity_type in (ON_DEMAND, SPOT)
            if capacity_type in ec2_type.usage_classes
        )
        return (*plain, *self._reserved(ec2_type, scope, usable=usable))

    def _offering(
        self, ec2_type: Ec2InstanceType, zone: str, capacity_type: str, scope: OfferingScope, usable: bool
    ) -> Offering:
        spot = capacity_type == SPOT
        price = self._prices.spot(ec2_type.name, zone) if spot else self._prices.on_demand(ec2_type.name)
        requirements = Requirements.of([*_zone_requirements(zone, capacity_type, scope), *_UNRESERVED])
        return Offering(requirements, price or 0.0, usable and price is not None and zone in scope.zones)

    def _reserved(self, ec2_type: Ec2InstanceType, scope: OfferingScope, *, usable: bool) -> Iterator[Offering]:
        price = (self._prices.on_demand(ec2_type.name) or 0.0) / _RESERVED_DISCOUNT
        for each in scope.reservations:
            if each.instance_type != ec2_type.name:
                continue
            reservation_labels = {
                labels.RESERVATION_ID: each.id,
                labels.RESERVATION_TYPE: each.reservation_type or "default",
                labels.RESERVATION_INTERRUPTIBLE: str(each.interruptible).lower(),
            }
            zone_requirements = _zone_requirements(each.availability_zone, RESERVED, scope)
            requirements = Requirements.of(
                [*zone_requirements, *(Requirement.of(key, IN, (value,)) for key, value in reservation_labels.items())]
            )
            left = scope.reserved_counts.get(each.id, 0)
            launchable = usable and each.availability_zone in scope.zones and each.state != "expiring"
            yield Offering(requirements, price, launchable and left > 0)


def mark_unavailable(
    name: str, offerings: tuple[Offering, ...], unavailable: UnavailableOfferings
) -> tuple[Offering, ...]:
    """The offerings with the unavailable ones marked; the same tuple if there are none."""
    reserved = any(each.capacity_type == RESERVED for each in offerings)
    if not reserved and not unavailable.may_affect(name):
        return offerings
    marked = tuple(
        replace(each, available=False) if unavailable.is_unavailable(_offering_key(name, each)) else each
        for each in offerings
    )
    return offerings if marked == offerings else marked


def _offering_key(name: str, offering: Offering) -> OfferingKey:
    """The key of an offering. A reservation has its id, because it runs out separately from its type."""
    reservation = offering.requirements.labels().get(labels.RESERVATION_ID)
    return OfferingKey(offering.capacity_type, reservation or name, offering.zone)


def _zone_requirements(zone: str, capacity_type: str, scope: OfferingScope) -> list[Requirement]:
    zone_requirements = [Requirement.of(ZONE, IN, (zone,)), Requirement.of(CAPACITY_TYPE, IN, (capacity_type,))]
    if scope.zone_ids.get(zone):
        zone_requirements.append(Requirement.of(labels.ZONE_ID, IN, (scope.zone_ids[zone],)))
    return zone_requirements
