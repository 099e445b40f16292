"""Selects the launch options for a NodeClaim: one capacity type, and the cheapest instance types available with it.

Reserved capacity precedes spot, and spot precedes on-demand. As in Karpenter, exotic types (bare metal, GPUs,
accelerators) are dropped while other types remain, and so is spot that costs more than the cheapest on-demand option; a
claim with `minValues` keeps both. EC2 chooses among the remaining options.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dovetail.cloud.aws import labels
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import CAPACITY_TYPE, CAPACITY_TYPES, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.resources import fits

MAX_TYPES = 60
ALL_UNAVAILABLE = "all requested instance types were unavailable during launch"
CAPACITY_BLOCK = "capacity-block"


@dataclass(frozen=True, slots=True)
class LaunchOption:
    """An instance type with one of its offerings: a zone and a capacity type."""

    instance_type: InstanceType
    offering: Offering

    @property
    def reservation_id(self) -> str:
        """The id of its capacity reservation, or an empty string."""
        return self.offering.requirements.labels().get(labels.RESERVATION_ID, "")

    @property
    def rank(self) -> tuple[float, str, str]:
        """Sort key: price, then name, then zone."""
        return self.offering.price, self.instance_type.name, self.offering.zone


@dataclass(frozen=True, slots=True)
class FleetPurchase:
    """The options of one launch, cheapest first, all of one capacity type."""

    capacity_type: str
    options: tuple[LaunchOption, ...]
    capacity_block: bool = False


def plan_purchase(claim: NodeClaim, types: Iterable[InstanceType], well_known: frozenset[str]) -> FleetPurchase | str:
    """The launch options for a claim, or the reason why there are none."""
    requirements = claim.requirements
    names = requirements.get(INSTANCE_TYPE)
    matching = [each for each in types if names.has(each.name) and each.requirements.intersects(requirements) is None]
    fitting = [each for each in matching if fits(claim.spec.resources.requests, each.allocatable)]
    options = [
        LaunchOption(each, offer) for each in fitting for offer in each.compatible_offerings(requirements, well_known)
    ]
    if all(each.min_values is None for each in requirements.values()):
        options = _without_expensive_spot(_without_exotic(options))
    for capacity_type in CAPACITY_TYPES:
        chosen = [each for each in options if each.offering.capacity_type == capacity_type]
        if chosen and requirements.get(CAPACITY_TYPE).has(capacity_type):
            return _purchase(capacity_type, sorted(chosen, key=lambda option: option.rank))
    if fitting:
        return ALL_UNAVAILABLE
    if matching:
        return f"none of {len(matching)} matching instance types has enough allocatable resources for the requests"
    return "no instance type meets the requirements"


def _purchase(capacity_type: str, options: Sequence[LaunchOption]) -> FleetPurchase:
    if capacity_type == RESERVED:
        return _reserved(options)
    return FleetPurchase(capacity_type, _cheapest_types(options))


def _cheapest_types(options: Sequence[LaunchOption]) -> tuple[LaunchOption, ...]:
    """The options of the cheapest types, at most `MAX_TYPES` types."""
    names = list(dict.fromkeys(option.instance_type.name for option in options))[:MAX_TYPES]
    kept = frozenset(names)
    return tuple(option for option in options if option.instance_type.name in kept)


def _reserved(options: Sequence[LaunchOption]) -> FleetPurchase:
    """Reservations of the cheapest option's type only. A capacity block is requested alone."""
    reservation_type = _reservation_type(options[0])
    if reservation_type == CAPACITY_BLOCK:
        return FleetPurchase(RESERVED, (options[0],), capacity_block=True)
    by_type_and_zone: dict[tuple[str, str], LaunchOption] = {}
    for option in options:
        if _reservation_type(option) == reservation_type:
            by_type_and_zone.setdefault((option.instance_type.name, option.offering.zone), option)
    return FleetPurchase(RESERVED, _cheapest_types(tuple(by_type_and_zone.values())))


def _reservation_type(option: LaunchOption) -> str:
    return option.offering.requirements.labels().get(labels.RESERVATION_TYPE, "default")


def _without_exotic(options: list[LaunchOption]) -> list[LaunchOption]:
    plain = [option for option in options if not is_exotic(option.instance_type)]
    return plain or options


def _without_expensive_spot(options: list[LaunchOption]) -> list[LaunchOption]:
    prices = [each.offering.price for each in options if each.offering.capacity_type == ON_DEMAND]
    if not prices:
        return options
    limit = min(prices)
    return [each for each in options if each.offering.capacity_type != SPOT or each.offering.price <= limit]


def is_exotic(instance_type: InstanceType) -> bool:
    """Whether the type is bare metal or has GPUs or accelerators."""
    requirements = instance_type.requirements
    if any(requirements.get(key).values for key in (labels.INSTANCE_GPU_COUNT, labels.INSTANCE_ACCELERATOR_COUNT)):
        return True
    return any(size.startswith("metal") for size in requirements.get(labels.INSTANCE_SIZE).values)
