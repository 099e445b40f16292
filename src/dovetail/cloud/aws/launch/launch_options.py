"""What a fleet is asked for on behalf of a NodeClaim: one way to buy, and the cheapest types that can be bought so.

Reserved capacity goes before spot, and spot before on demand. Machines nobody wants by accident (bare metal, GPUs,
accelerators) are left out while others will do, and so is spot that costs more than on demand; a claim that asks for a
minimum of variety keeps both. EC2 chooses among what is left.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dovetail.cloud.aws import labels
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import CAPACITY_TYPE, CAPACITY_TYPES, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.resources import fits

MOST_TYPES = 60
NOTHING_LEFT = "all requested instance types were unavailable during launch"
CAPACITY_BLOCK = "capacity-block"


@dataclass(frozen=True, slots=True)
class Option:
    """A type in a zone, bought one way."""

    instance_type: InstanceType
    offering: Offering

    @property
    def reservation_id(self) -> str:
        """The reservation it draws on, or empty."""
        return self.offering.requirements.labels().get(labels.RESERVATION_ID, "")

    @property
    def rank(self) -> tuple[float, str, str]:
        """The cheapest first, then by name and zone."""
        return self.offering.price, self.instance_type.name, self.offering.zone


@dataclass(frozen=True, slots=True)
class FleetPurchase:
    """What to ask for; the cheapest first."""

    capacity_type: str
    options: tuple[Option, ...]
    capacity_block: bool = False


def plan_purchase(claim: NodeClaim, types: Iterable[InstanceType], well_known: frozenset[str]) -> FleetPurchase | str:
    """The purchase for a claim, or in words why there is none."""
    wanted = claim.requirements
    named = wanted.get(INSTANCE_TYPE)
    suited = [each for each in types if named.has(each.name) and each.requirements.intersects(wanted) is None]
    roomy = [each for each in suited if fits(claim.spec.resources.requests, each.allocatable)]
    options = [Option(each, offer) for each in roomy for offer in each.compatible_offerings(wanted, well_known)]
    varied = any(each.min_values is not None for each in wanted.values())
    if not varied:
        options = _without_dear_spot(_without_exotic(options))
    for capacity_type in CAPACITY_TYPES:
        chosen = [each for each in options if each.offering.capacity_type == capacity_type]
        if chosen and wanted.get(CAPACITY_TYPE).has(capacity_type):
            return _purchase(capacity_type, sorted(chosen, key=lambda option: option.rank))
    return NOTHING_LEFT if roomy else _why_none(len(suited))


def _why_none(suited: int) -> str:
    if not suited:
        return "no instance type meets the requirements"
    return f"none of {suited} matching instance types has room for the resources requested"


def _purchase(capacity_type: str, options: Sequence[Option]) -> FleetPurchase:
    if capacity_type == RESERVED:
        return _reserved(options)
    return FleetPurchase(capacity_type, _cheapest_types(options))


def _cheapest_types(options: Sequence[Option]) -> tuple[Option, ...]:
    """The options of the cheapest types, as many types as a fleet is asked for."""
    names = list(dict.fromkeys(option.instance_type.name for option in options))[:MOST_TYPES]
    kept = frozenset(names)
    return tuple(option for option in options if option.instance_type.name in kept)


def _reserved(options: Sequence[Option]) -> FleetPurchase:
    """Reservations of one kind: the cheapest option's. A capacity block is asked for alone."""
    kind = _kind(options[0])
    if kind == CAPACITY_BLOCK:
        return FleetPurchase(RESERVED, (options[0],), capacity_block=True)
    by_place: dict[tuple[str, str], Option] = {}
    for option in options:
        if _kind(option) == kind:
            by_place.setdefault((option.instance_type.name, option.offering.zone), option)
    return FleetPurchase(RESERVED, _cheapest_types(tuple(by_place.values())))


def _kind(option: Option) -> str:
    return option.offering.requirements.labels().get(labels.RESERVATION_TYPE, "default")


def _without_exotic(options: list[Option]) -> list[Option]:
    plain = [option for option in options if not is_exotic(option.instance_type)]
    return plain or options


def _without_dear_spot(options: list[Option]) -> list[Option]:
    prices = [each.offering.price for each in options if each.offering.capacity_type == ON_DEMAND]
    if not prices:
        return options
    limit = min(prices)
    return [each for each in options if each.offering.capacity_type != SPOT or each.offering.price <= limit]


def is_exotic(instance_type: InstanceType) -> bool:
    """Whether it is bare metal or carries GPUs or accelerators."""
    said = instance_type.requirements
    if any(said.get(key).values for key in (labels.INSTANCE_GPU_COUNT, labels.INSTANCE_ACCELERATOR_COUNT)):
        return True
    return any(size.startswith("metal") for size in said.get(labels.INSTANCE_SIZE).values)
