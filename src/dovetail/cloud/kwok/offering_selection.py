"""Which offering a NodeClaim gets: the cheapest that can be had, is compatible and has room for what was asked.

The same claim and the same catalogue always give the same answer: equal prices are told apart by type, zone and
capacity type. Karpenter's kwok draws lots instead, and so cannot repeat a launch.
"""

from dataclasses import dataclass

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
