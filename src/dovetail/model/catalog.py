"""Instance types with their offerings, and instances of the cloud provider.

An offering is an instance type in one zone with one capacity type and its price per hour. Labels of types and offerings
are requirements, so that they can be intersected with those of NodePools and pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dovetail.model.cached import lazy
from dovetail.model.labels import CAPACITY_TYPE, ZONE
from dovetail.model.requirements import Requirements
from dovetail.model.resources import MEMORY, Quantity, Resources, add, subtract


@dataclass(frozen=True)
class Offering:
    """An instance type in one zone with one capacity type, at one price per hour."""

    requirements: Requirements
    price: float
    available: bool = True

    @lazy
    def zone(self) -> str:
        """The zone label."""
        return self.requirements.labels().get(ZONE, "")

    @lazy
    def capacity_type(self) -> str:
        """The capacity type label: spot, on-demand or reserved."""
        return self.requirements.labels().get(CAPACITY_TYPE, "")


@dataclass(frozen=True)
class InstanceType:
    """An instance type. `overhead` is what kubelet and system reserve."""

    name: str
    requirements: Requirements
    offerings: tuple[Offering, ...]
    capacity: Resources
    overhead: Resources

    @lazy
    def allocatable(self) -> Resources:
        """Capacity less overhead; huge pages are subtracted from memory, as the kubelet does."""
        kept = {name: amount for name, amount in self.overhead.items() if name in self.capacity}
        free = dict(subtract(self.capacity, kept))
        pages = [amount for name, amount in self.capacity.items() if name.startswith("hugepages-")]
        if pages and MEMORY in free:
            total = add(*({MEMORY: amount} for amount in pages))[MEMORY]
            free[MEMORY] = max(free[MEMORY] - total, Quantity.of(0))
        return free

    def offering_for_labels(self, labels: Mapping[str, str]) -> Offering | None:
        """The offering that a node with these labels was launched from, whether or not it is available now."""
        return self.offering_by_place.get((labels.get(ZONE), labels.get(CAPACITY_TYPE)))

    @lazy
    def offering_by_place(self) -> Mapping[tuple[str | None, str | None], Offering]:
        """The first offering of each zone and capacity type."""
        return {(each.zone, each.capacity_type): each for each in reversed(self.offerings)}

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
    """An instance that exists at the cloud provider."""

    provider_id: str
    labels: dict[str, str]
    capacity: Resources
    allocatable: Resources
    annotations: dict[str, str]
    image_id: str = ""
    terminating: bool = False
    launched_at: datetime | None = None
