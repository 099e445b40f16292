"""An instance type from what its maker says of it: name, architecture, systems, resources and offerings.

Keeps Karpenter's kwok rules: the derived labels, 110 pods unless told otherwise, 100m cpu and 10Mi memory kept by the
system. Every well-known label gets a requirement, so that a wish for one this type cannot have is refused and not
guessed. The NodePool label is the exception: it comes from the claim.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.cloud.kwok.node import INSTANCE_CPU, INSTANCE_FAMILY, INSTANCE_MEMORY, INSTANCE_SIZE
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, OS, WELL_KNOWN, ZONE
from dovetail.model.quantity import Quantity
from dovetail.model.requirement import DOES_NOT_EXIST, IN, Requirement
from dovetail.model.requirements import Requirements
from dovetail.model.resources import CPU, MEMORY, PODS, Resources

DEFAULT_PODS = Quantity.of("110")
OVERHEAD: Resources = {CPU: Quantity.of("100m"), MEMORY: Quantity.of("10Mi")}

_EC2_SIZE = re.compile(r"\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypeSpec:
    """What the maker of an instance type says of it."""

    name: str
    architecture: str
    operating_systems: tuple[str, ...]
    resources: Resources
    offerings: tuple[Offering, ...]


def offering(zone: str, capacity_type: str, price: float) -> Offering:
    """The plain kind of offering: a zone, a capacity type and a price."""
    return Offering(Requirements.from_labels({ZONE: zone, CAPACITY_TYPE: capacity_type}), price)


def build(blueprint: InstanceTypeSpec) -> InstanceType:
    """The instance type a blueprint describes."""
    return InstanceType(
        name=blueprint.name,
        requirements=_requirements(blueprint),
        offerings=blueprint.offerings,
        capacity={PODS: DEFAULT_PODS, **blueprint.resources},
        overhead=OVERHEAD,
    )


def _requirements(blueprint: InstanceTypeSpec) -> Requirements:
    cpu = blueprint.resources[CPU].canonical
    values_by_key: dict[str, Sequence[str]] = {
        INSTANCE_TYPE: (blueprint.name,),
        ARCH: (blueprint.architecture,),
        OS: blueprint.operating_systems,
        INSTANCE_SIZE: (_size(blueprint.name, cpu),),
        INSTANCE_FAMILY: (_family(blueprint.name),),
        INSTANCE_CPU: (cpu,),
        INSTANCE_MEMORY: (blueprint.resources[MEMORY].canonical,),
    }
    known = [Requirement.of(key, IN, values) for key, values in values_by_key.items()]
    known += _offered(blueprint.offerings)
    spoken_of = {requirement.key for requirement in known}
    absent = [Requirement.of(key, DOES_NOT_EXIST) for key in sorted(WELL_KNOWN - spoken_of - {NODEPOOL})]
    return Requirements.of([*known, *absent])


def _offered(offerings: Sequence[Offering]) -> list[Requirement]:
    """What the offerings say together, for each label that all of them settle by naming values."""
    keys = sorted({key for each in offerings for key in each.requirements})
    said = {key: [each.requirements.get(key) for each in offerings] for key in keys}
    return [
        Requirement.of(key, IN, frozenset[str]().union(*(each.values for each in requirements)))
        for key, requirements in said.items()
        if all(each.operator == IN for each in requirements)
    ]


def _size(name: str, cpu: str) -> str:
    """`large` of `m5.large`; other makers' names do not tell, and the number of cpus stands in."""
    found = _EC2_SIZE.fullmatch(name)
    return found[1] if found else cpu


def _family(name: str) -> str:
    head, *tail = re.split(r"[.-]", name, maxsplit=1)
    return head if tail else name[:1]
