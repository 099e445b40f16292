"""Selects the offering for a NodeClaim, and simulates shortages of capacity.

A claim gets the cheapest available offering that is compatible and has enough allocatable resources. The result is
deterministic: equal prices are ordered by instance type, zone and capacity type. Karpenter's kwok chooses at random, so
its launches cannot be repeated.

`Availability` is the catalog with the offerings of current shortages marked as unavailable.
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
    """An instance type and one of its offerings."""

    instance_type: InstanceType
    offering: Offering


def find_cheapest(
    claim: NodeClaim, catalog: tuple[InstanceType, ...], well_known: frozenset[str]
) -> SelectedOffering | str:
    """The cheapest offering for a claim, or the reason why there is none."""
    requirements, requests = claim.requirements, claim.spec.resources.requests
    fits_by_type: dict[str, bool] = {}
    allowed: dict[Requirements, bool] = {}  # cache: many offerings have equal requirements
    named = requirements.get(INSTANCE_TYPE)
    types = [each for each in catalog if named.has(each.name)]
    choices = (SelectedOffering(each, offering) for each in types for offering in each.offerings if offering.available)
    for choice in sorted(choices, key=_sort_key):
        offered = choice.offering.requirements
        if offered not in allowed:
            allowed[offered] = requirements.compatible(offered, well_known) is None
        if allowed[offered]:
            each = choice.instance_type
            if each.name not in fits_by_type:
                fits_by_type[each.name] = _meets(each, requirements) and fits(requests, each.allocatable)
            if fits_by_type[each.name]:
                return choice
    matching = sum(_meets(each, requirements) for each in catalog)
    if not matching:
        return f"no instance type meets the requirements {requirements}"
    fitting = sum(_meets(each, requirements) and fits(requests, each.allocatable) for each in catalog)
    if not fitting:
        return f"none of {matching} matching instance types has enough allocatable resources for the requests"
    return f"none of {fitting} matching instance types has an available offering"


def _meets(instance_type: InstanceType, requirements: Requirements) -> bool:
    """Checks the name first: claims list their instance types, so most types fail at that."""
    return (
        requirements.get(INSTANCE_TYPE).has(instance_type.name)
        and instance_type.requirements.intersects(requirements) is None
    )


def _sort_key(choice: SelectedOffering) -> tuple[float, str, str, str]:
    offering = choice.offering
    return offering.price, choice.instance_type.name, offering.zone, offering.capacity_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Offerings without capacity. An empty field matches every value: a zone alone is an outage of that zone."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""

    def covers(self, name: str, offering: Offering) -> bool:
        """Whether the shortage affects this offering of the named type."""
        return (
            self.instance_type in ("", name)
            and self.zone in ("", offering.zone)
            and self.capacity_type in ("", offering.capacity_type)
        )


class Availability:
    """The catalog with current shortages applied. Types without a shortage are the same objects as before."""

    def __init__(self, catalog: tuple[InstanceType, ...]) -> None:
        self._catalog = catalog
        self._shortages: frozenset[Shortage] = frozenset()
        self._expires_at: dict[Shortage, datetime] = {}
        self.catalog = catalog

    def begin(self, shortage: Shortage) -> None:
        """Start a shortage."""
        self._apply(self._shortages | {shortage})

    def end(self, shortage: Shortage) -> None:
        """End a shortage. Offerings that another shortage affects stay unavailable; an unknown one is ignored."""
        self._apply(self._shortages - {shortage})

    def avoid(self, shortage: Shortage, expires_at: datetime) -> None:
        """Make offerings unavailable until that instant, independent of other shortages."""
        previous = self._expires_at.get(shortage)
        self._expires_at[shortage] = expires_at if previous is None else max(previous, expires_at)
        if previous is None:
            self._apply(self._shortages)

    def at(self, now: datetime) -> tuple[InstanceType, ...]:
        """The catalog at this instant, without shortages that have expired."""
        expired = [shortage for shortage, expires_at in self._expires_at.items() if expires_at <= now]
        for shortage in expired:
            del self._expires_at[shortage]
        if expired:
            self._apply(self._shortages)
        return self.catalog

    def _apply(self, shortages: frozenset[Shortage]) -> None:
        self._shortages = shortages
        short = bool(shortages or self._expires_at)
        self.catalog = tuple(self._with_shortages(each) for each in self._catalog) if short else self._catalog

    def _with_shortages(self, instance_type: InstanceType) -> InstanceType:
        offerings = tuple(self._offering(instance_type.name, each) for each in instance_type.offerings)
        return instance_type if offerings == instance_type.offerings else replace(instance_type, offerings=offerings)

    def _offering(self, name: str, offering: Offering) -> Offering:
        if any(shortage.covers(name, offering) for shortage in (*self._shortages, *self._expires_at)):
            return replace(offering, available=False)
        return offering
