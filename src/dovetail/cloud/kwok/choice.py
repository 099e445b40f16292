"""Which offering a NodeClaim gets: the cheapest that can be had, is compatible and has room for what was asked.

The same claim and the same catalogue always give the same answer: equal prices are told apart by type, zone and
capacity type. Karpenter's kwok draws lots instead, and so cannot repeat a launch.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.resources import fits


@dataclass(frozen=True, slots=True)
class Choice:
    """An instance type and the way it is bought."""

    instance_type: InstanceType
    offering: Offering


def find_cheapest(claim: NodeClaim, catalog: Iterable[InstanceType], well_known: frozenset[str]) -> Choice | str:
    """The choice for a claim, or in words why there is none."""
    wanted = claim.requirements
    named = wanted.get(INSTANCE_TYPE)  # claims name their types, so most of a catalogue is out at a glance
    matching = [each for each in catalog if named.has(each.name) and each.requirements.intersects(wanted) is None]
    if not matching:
        return f"no instance type meets the requirements {wanted}"
    roomy = [each for each in matching if fits(claim.spec.resources.requests, each.allocatable)]
    if not roomy:
        return f"none of {len(matching)} matching instance types has room for the resources requested"
    choices = [Choice(each, cheapest) for each in roomy if (cheapest := each.cheapest(wanted, well_known)) is not None]
    if not choices:
        return f"none of {len(roomy)} matching instance types has an offering available now"
    return min(choices, key=_order)


def _order(choice: Choice) -> tuple[float, str, str, str]:
    offering = choice.offering
    return offering.price, choice.instance_type.name, offering.zone, offering.capacity_type
