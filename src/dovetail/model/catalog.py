"""What can be bought: instance types, and their offerings by zone and capacity type with prices."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dovetail.model.cached import lazy
from dovetail.model.labels import CAPACITY_TYPE, ZONE
from dovetail.model.requirements import Requirements
from dovetail.model.resources import MEMORY, Quantity, Resources, add, subtract


@dataclass(frozen=True)
class Offering:
    """An instance type in one zone, bought one way, at one price per hour."""

    requirements: Requirements
    price: float
    available: bool = True

    @lazy
    def zone(self) -> str:
        """Where."""
        return self.requirements.labels().get(ZONE, "")

    @lazy
    def capacity_type(self) -> str:
        """How it is paid for."""
        return self.requirements.labels().get(CAPACITY_TYPE, "")


@dataclass(frozen=True)
class InstanceType:
    """A shape of machine. `overhead` is what the system keeps for itself."""

    name: str
    requirements: Requirements
    offerings: tuple[Offering, ...]
    capacity: Resources
    overhead: Resources

    @lazy
    def allocatable(self) -> Resources:
        """What is left for pods: capacity less overhead, huge pages taken out of memory."""
        kept = {name: amount for name, amount in self.overhead.items() if name in self.capacity}
        free = dict(subtract(self.capacity, kept))
        pages = [amount for name, amount in self.capacity.items() if name.startswith("hugepages-")]
        if pages and MEMORY in free:
            total = add(*({MEMORY: amount} for amount in pages))[MEMORY]
            free[MEMORY] = max(free[MEMORY] - total, Quantity.of(0))
        return free

    def bought_with(self, labels: Mapping[str, str]) -> Offering | None:
        """The offering a node with these labels was bought as, whether it can be had now or not."""
        where = (labels.get(ZONE), labels.get(CAPACITY_TYPE))
        return next((each for each in self.offerings if (each.zone, each.capacity_type) == where), None)

    def cheapest(self, wanted: Requirements, well_known: frozenset[str]) -> Offering | None:
        """The cheapest available offering compatible with `wanted`; ties by zone and capacity type."""
        return min(self.compatible_offerings(wanted, well_known), key=_price_order, default=None)

    def compatible_offerings(self, wanted: Requirements, well_known: frozenset[str]) -> Iterable[Offering]:
        """The available offerings that `wanted` allows."""
        return (
            offering
            for offering in self.offerings
            if offering.available and wanted.compatible(offering.requirements, well_known) is None
        )


def _price_order(offering: Offering) -> tuple[float, str, str]:
    return offering.price, offering.zone, offering.capacity_type


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine that exists at the provider."""

    provider_id: str
    labels: dict[str, str]
    capacity: Resources
    allocatable: Resources
    annotations: dict[str, str]
    image_id: str = ""
    terminating: bool = False
    launched_at: datetime | None = None
