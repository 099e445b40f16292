"""What an hour costs: on demand from the pricing API, spot from the price history, and a shipped table before that.

Refreshed at the start and every twelve hours. A refresh that fails keeps what was known. Until spot prices were seen
once, spot is thought to cost as much as on demand; from then on, spot without a price is not for sale.

The offerings of an instance type for one node class: each zone that has the type, each way to buy it there.

Shortages are laid over them afterwards (`without_shortages`), so that one costs no more than the type it is about.
An offering that cannot be had now is listed as unavailable, never left out: drift is judged against the whole list.
One nobody knows a price of is unavailable and costs nothing, so that no move seems to save money by leaving it.

Offerings that EC2 had none of a moment ago: remembered for three minutes, and not asked for again until then.

What runs short can be one type in one zone bought one way, all spot, or the addresses of one subnet. Nothing of it
needs to outlive the process: forgetting costs one refused request.
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
_HOME = "us-east-1"
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
        """The price on demand, or None if nobody knows it."""
        return self._known().get(instance_type)

    def spot(self, instance_type: str, zone: str) -> float | None:
        """The price on the spot market of a zone, or None if it is not for sale there."""
        if self._spot is None:
            return self.on_demand(instance_type)
        return self._spot.get((instance_type, zone))

    def _known(self) -> Mapping[str, float]:
        if not self._on_demand:
            self._on_demand = shipped_prices(self._aws.region)
        return self._on_demand

    async def refresh_on_demand(self) -> None:
        """Ask the pricing API. What it does not list keeps the price it had."""
        region = self._aws.region
        if self._isolated or region.startswith("us-gov-"):
            return  # the pricing API cannot be reached from there
        found = await self.ask_on_demand(region)
        if found:
            self._on_demand = {**self._known(), **found}
            self.version += 1

    async def ask_on_demand(self, region: str) -> Mapping[str, float]:
        """What the pricing API says of a region now, by instance type."""
        found: dict[str, float] = {}
        currency = "CNY" if region.startswith("cn-") else "USD"
        for tenancy, product_family in _TENANCIES:
            fields = {**_PLAIN_LINUX, "regionCode": region, "tenancy": tenancy, "productFamily": product_family}
            filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in fields.items()]
            home = _pricing_region(region)
            pages = self._aws.pages("pricing", "get_products", region=home, ServiceCode="AmazonEC2", Filters=filters)
            async for page in pages:
                found.update(pair for each in page["PriceList"] for pair in _read_product(each, currency))
        return found

    async def refresh_spot(self) -> None:
        """Ask for the spot prices of now, all at once."""
        newest: dict[tuple[str, str], tuple[datetime, float]] = {}
        pages = self._aws.pages(
            "ec2", "describe_spot_price_history", StartTime=self._clock.now(), ProductDescriptions=[_LINUX]
        )
        async for page in pages:
            for each in page["SpotPriceHistory"]:
                key, told_at = (each["InstanceType"], each["AvailabilityZone"]), each["Timestamp"]
                if key not in newest or newest[key][0] < told_at:
                    newest[key] = (told_at, float(each["SpotPrice"]))
        if newest:
            self._spot = {key: price for key, (_, price) in newest.items()}
            self.version += 1


def _pricing_region(region: str) -> str:
    return next((home for prefix, home in _PRICING_REGIONS if region.startswith(prefix)), _HOME)


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
    """What is bought: a type in a zone, one way."""

    capacity_type: str
    instance_type: str
    zone: str


class UnavailableOfferings:
    """The shortages of the moment. `version` changes whenever they do, time included."""

    def __init__(self, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self._until: dict[Hashable, datetime] = {}
        self._version = 0

    def mark(self, sold: OfferingKey) -> None:
        """EC2 had none of this."""
        self._note(sold)

    def mark_all_spot(self) -> None:
        """No spot at all: the account lacks the role for it."""
        self._note(_ALL_SPOT)

    def mark_subnet(self, subnet_id: str) -> None:
        """The subnet has no addresses left."""
        self._note(("subnet", subnet_id))

    def covers(self, sold: OfferingKey) -> bool:
        """Whether this was short a moment ago."""
        return self._is_short(sold) or self._is_short(("all", sold.capacity_type))

    def covers_subnet(self, subnet_id: str) -> bool:
        """Whether the subnet was full a moment ago."""
        return self._is_short(("subnet", subnet_id))

    def may_cover(self, instance_type: str) -> bool:
        """Whether any offering of the type could be short; quick to say no. Reservations count by their own id."""
        return any(
            what.instance_type == instance_type if isinstance(what, OfferingKey) else what == _ALL_SPOT
            for what in self._until
        )

    @property
    def version(self) -> int:
        """A number that is the same only while nothing changed."""
        now = self._clock.now()
        over = [what for what, until in self._until.items() if until <= now]
        for what in over:
            del self._until[what]
        self._version += bool(over)
        return self._version

    def _note(self, what: Hashable) -> None:
        self._until[what] = self._clock.now() + self._lifetime
        self._version += 1

    def _is_short(self, what: Hashable) -> bool:
        until = self._until.get(what)
        return until is not None and self._clock.now() < until


_RESERVATION_LABELS = (labels.RESERVATION_ID, labels.RESERVATION_TYPE, labels.RESERVATION_INTERRUPTIBLE)
_UNRESERVED = tuple(Requirement.of(key, DOES_NOT_EXIST) for key in _RESERVATION_LABELS)
_RESERVED_DISCOUNT = 10_000_000
"""Reserved capacity is paid for already: next to nothing, but still ordered by what the machine is worth."""


@dataclass(frozen=True, slots=True)
class OfferingScope:
    """Where and how one node class can buy. `zones` are those it has a subnet with addresses in, with their ids."""

    zones: frozenset[str]
    zone_ids: Mapping[str, str] = field(hash=False)
    reservations: tuple[ResolvedCapacityReservation, ...] = ()
    reserved_counts: Mapping[str, int] = field(default_factory=dict, hash=False)


class Offerings:
    """Makes offerings from prices."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    def of(
        self, ec2_type: Ec2InstanceType, zones: frozenset[str], market: OfferingScope, *, usable: bool
    ) -> tuple[Offering, ...]:
        """Every offering of a type that is sold in `zones`. `usable`: whether the class can start such a machine."""
        plain = (
            self._offering(ec2_type, zone, capacity_type, market, usable)
            for zone in sorted(zones)
            for capacity_type in (ON_DEMAND, SPOT)
            if capacity_type in ec2_type.usage_classes
        )
        return (*plain, *self._reserved(ec2_type, market, usable=usable))

    def _offering(
        self, ec2_type: Ec2InstanceType, zone: str, capacity_type: str, market: OfferingScope, usable: bool
    ) -> Offering:
        spot = capacity_type == SPOT
        price = self._prices.spot(ec2_type.name, zone) if spot else self._prices.on_demand(ec2_type.name)
        requirements = Requirements.of([*_place(zone, capacity_type, market), *_UNRESERVED])
        return Offering(requirements, price or 0.0, usable and price is not None and zone in market.zones)

    def _reserved(self, ec2_type: Ec2InstanceType, market: OfferingScope, *, usable: bool) -> Iterator[Offering]:
        price = (self._prices.on_demand(ec2_type.name) or 0.0) / _RESERVED_DISCOUNT
        for each in market.reservations:
            if each.instance_type != ec2_type.name:
                continue
            said = {
                labels.RESERVATION_ID: each.id,
                labels.RESERVATION_TYPE: each.reservation_type or "default",
                labels.RESERVATION_INTERRUPTIBLE: str(each.interruptible).lower(),
            }
            place = _place(each.availability_zone, RESERVED, market)
            requirements = Requirements.of(
                [*place, *(Requirement.of(key, IN, (value,)) for key, value in said.items())]
            )
            left = market.reserved_counts.get(each.id, 0)
            there = usable and each.availability_zone in market.zones and each.state != "expiring"
            yield Offering(requirements, price, there and left > 0)


def without_shortages(name: str, offerings: tuple[Offering, ...], short: UnavailableOfferings) -> tuple[Offering, ...]:
    """The offerings of the named type, those that are short for the moment marked so; the same tuple if none is."""
    reserved = any(each.capacity_type == RESERVED for each in offerings)
    if not reserved and not short.may_cover(name):
        return offerings
    marked = tuple(replace(each, available=False) if short.covers(_sold(name, each)) else each for each in offerings)
    return offerings if marked == offerings else marked


def _sold(name: str, offering: Offering) -> OfferingKey:
    """A reservation runs short by itself, whatever else there is of its type."""
    reservation = offering.requirements.labels().get(labels.RESERVATION_ID)
    return OfferingKey(offering.capacity_type, reservation or name, offering.zone)


def _place(zone: str, capacity_type: str, market: OfferingScope) -> list[Requirement]:
    place = [Requirement.of(ZONE, IN, (zone,)), Requirement.of(CAPACITY_TYPE, IN, (capacity_type,))]
    if market.zone_ids.get(zone):
        place.append(Requirement.of(labels.ZONE_ID, IN, (market.zone_ids[zone],)))
    return place
