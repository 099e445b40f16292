"""Which offering a NodeClaim gets: the cheapest that can be had, is compatible and has room for what was asked.

The same claim and the same catalogue always give the same answer: equal prices are told apart by type, zone and
capacity type. Karpenter's kwok draws lots instead, and so cannot repeat a launch.

Which offerings cannot be had for now: how a simulation makes a cloud run short.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.requirements import Requirements
from dovetail.model.resources import fits


@dataclass(frozen=True, slots=True)
class SelectedOffering:
    """An instance type and the way it is bought."""

    instance_type: InstanceType
    offering: Offering


def find_cheapest(
    claim: NodeClaim, catalog: tuple[InstanceType, ...], well_known: frozenset[str]
) -> SelectedOffering | str:
    """The choice for a claim, or in words why there is none."""
    wanted, requests = claim.requirements, claim.spec.resources.requests
    suited: dict[str, bool] = {}
    allowed: dict[Requirements, bool] = {}  # offerings are many, and of the same few kinds
    named = wanted.get(INSTANCE_TYPE)
    types = [each for each in catalog if named.has(each.name)]
    choices = (SelectedOffering(each, offering) for each in types for offering in each.offerings if offering.available)
    for choice in sorted(choices, key=_order):
        kind = choice.offering.requirements
        if kind not in allowed:
            allowed[kind] = wanted.compatible(kind, well_known) is None
        if allowed[kind]:
            each = choice.instance_type
            if each.name not in suited:
                suited[each.name] = _meets(each, wanted) and fits(requests, each.allocatable)
            if suited[each.name]:
                return choice
    matching = sum(_meets(each, wanted) for each in catalog)
    if not matching:
        return f"no instance type meets the requirements {wanted}"
    roomy = sum(_meets(each, wanted) and fits(requests, each.allocatable) for each in catalog)
    if not roomy:
        return f"none of {matching} matching instance types has room for the resources requested"
    return f"none of {roomy} matching instance types has an offering available now"


def _meets(instance_type: InstanceType, wanted: Requirements) -> bool:
    """Claims name their types, so most of a catalogue is out at a glance."""
    return wanted.get(INSTANCE_TYPE).has(instance_type.name) and instance_type.requirements.intersects(wanted) is None


def _order(choice: SelectedOffering) -> tuple[float, str, str, str]:
    offering = choice.offering
    return offering.price, choice.instance_type.name, offering.zone, offering.capacity_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Offerings that cannot be had. An empty field stands for every value: a zone alone is an outage of that zone."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""

    def covers(self, name: str, offering: Offering) -> bool:
        """Whether it takes this offering of the named type away."""
        return (
            self.instance_type in ("", name)
            and self.zone in ("", offering.zone)
            and self.capacity_type in ("", offering.capacity_type)
        )


class Availability:
    """A catalogue under the shortages of the moment. Types without a shortage are passed on as they are."""

    def __init__(self, catalog: tuple[InstanceType, ...]) -> None:
        self._catalog = catalog
        self._shortages: frozenset[Shortage] = frozenset()
        self._avoided_until: dict[Shortage, datetime] = {}
        self.catalog = catalog

    def begin(self, shortage: Shortage) -> None:
        """Take offerings away until the same shortage ends."""
        self._apply(self._shortages | {shortage})

    def end(self, shortage: Shortage) -> None:
        """Give back what this shortage took, unless another covers it; a shortage that never began is no matter."""
        self._apply(self._shortages - {shortage})

    def avoid(self, shortage: Shortage, until: datetime) -> None:
        """Take offerings away until that instant, whatever else is short."""
        known = self._avoided_until.get(shortage)
        self._avoided_until[shortage] = until if known is None else max(known, until)
        if known is None:
            self._apply(self._shortages)

    def at(self, now: datetime) -> tuple[InstanceType, ...]:
        """The catalogue at this instant: what was avoided long enough is back."""
        over = [shortage for shortage, until in self._avoided_until.items() if until <= now]
        for shortage in over:
            del self._avoided_until[shortage]
        if over:
            self._apply(self._shortages)
        return self.catalog

    def _apply(self, shortages: frozenset[Shortage]) -> None:
        self._shortages = shortages
        short = bool(shortages or self._avoided_until)
        self.catalog = tuple(self._marked(each) for each in self._catalog) if short else self._catalog

    def _marked(self, instance_type: InstanceType) -> InstanceType:
        offerings = tuple(self._offering(instance_type.name, each) for each in instance_type.offerings)
        return instance_type if offerings == instance_type.offerings else replace(instance_type, offerings=offerings)

    def _offering(self, name: str, offering: Offering) -> Offering:
        if any(shortage.covers(name, offering) for shortage in (*self._shortages, *self._avoided_until)):
            return replace(offering, available=False)
        return offering
