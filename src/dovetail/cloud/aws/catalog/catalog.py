"""The catalogue of a region, asked for at the start and every twelve hours, and made up for each node class.

What does not depend on the moment (labels, capacity, overhead) is worked out once for each shape of class; offerings
are worked out again whenever prices, subnets or images change; a shortage, or a node that turns out to have another
memory, changes only the type it is about.
"""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dovetail.cloud.aws.catalog.machine import Machine, read_machine
from dovetail.cloud.aws.catalog.memory import SeenMemory
from dovetail.cloud.aws.catalog.offerings import Market, Offerings, without_shortages
from dovetail.cloud.aws.catalog.prices import Prices
from dovetail.cloud.aws.catalog.requirements import requirements_of
from dovetail.cloud.aws.catalog.room import Margins, capacity_of, overhead_of
from dovetail.cloud.aws.catalog.shape import Shape, shape_of
from dovetail.cloud.aws.catalog.tables import facts_by_type
from dovetail.cloud.aws.catalog.unavailable import Unavailable
from dovetail.cloud.aws.labels import OFFERING_LABELS
from dovetail.cloud.aws.resolving.images import image_for
from dovetail.cloud.aws.session import Aws
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.ec2nodeclass import EC2NodeClass, ResolvedAMI
from dovetail.model.labels import CAPACITY_TYPE, ZONE
from dovetail.model.requirement import DOES_NOT_EXIST, IN, Requirement
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources

log = logging.getLogger(__name__)
_KEPT = 32  # node classes at a time
_FILTERS = [
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
]
_SETTLED = (ZONE, CAPACITY_TYPE, *sorted(OFFERING_LABELS))


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A machine as nodes of one shape of class see it."""

    machine: Machine
    requirements: tuple[Requirement, ...]
    capacity: Resources
    overhead: Resources


class Catalog:
    """Instance types by node class."""

    def __init__(self, aws: Aws, prices: Prices, unavailable: Unavailable, margins: Margins, seen: SeenMemory) -> None:
        self._aws = aws
        self._prices = prices
        self._unavailable = unavailable
        self._margins = margins
        self._seen = seen
        self._offerings = Offerings(prices)
        self._machines: tuple[Machine, ...] = ()
        self._zones: Mapping[str, frozenset[str]] = {}
        self._loading = asyncio.Lock()
        self._blueprints: OrderedDict[Shape, tuple[Blueprint, ...]] = OrderedDict()
        self._made: OrderedDict[Any, tuple[InstanceType, ...]] = OrderedDict()
        self._marked: OrderedDict[Any, tuple[InstanceType, ...]] = OrderedDict()

    async def ready(self) -> None:
        """Return once the region's types are known; `AwsError` if they cannot be had."""
        async with self._loading:
            if not self._machines:
                await self._load()

    async def refresh(self) -> None:
        """Ask for the region's types anew. A failure keeps what was known."""
        async with self._loading:
            await self._load()

    async def _load(self) -> None:
        said = await self._aws.collect("ec2", "describe_instance_types", "InstanceTypes", Filters=_FILTERS)
        offered: defaultdict[str, set[str]] = defaultdict(set)
        pages = self._aws.pages("ec2", "describe_instance_type_offerings", LocationType="availability-zone")
        async for page in pages:
            for each in page["InstanceTypeOfferings"]:
                offered[each["InstanceType"]].add(each["Location"])
        read = (read_machine(each, facts_by_type()) for each in said)
        self._machines = tuple(sorted((each for each in read if each is not None), key=lambda each: each.name))
        self._zones = {name: frozenset(zones) for name, zones in offered.items()}
        self._blueprints.clear()
        self._made.clear()
        self._marked.clear()
        log.info("catalogue loaded", extra={"instance_types": len(self._machines)})

    async def instance_types(self, node_class: EC2NodeClass, market: Market) -> tuple[InstanceType, ...]:
        """Every type of the region as nodes of this class see it."""
        await self.ready()
        shape, amis = shape_of(node_class.spec), node_class.status.amis
        key = (shape, amis, market, self._prices.version)
        if key not in self._made:
            blueprints = self._blueprints_of(shape)
            _keep(self._made, key, tuple(self._instance_type(each, shape, amis, market) for each in blueprints))
        marked = (key, self._unavailable.version, self._seen.version)
        if marked not in self._marked:
            told = (self._with_memory(each, shape, amis) for each in self._made[key])
            _keep(self._marked, marked, tuple(map(self._with_shortages, told)))
        return self._marked[marked]

    def _with_memory(self, instance_type: InstanceType, shape: Shape, amis: tuple[ResolvedAMI, ...]) -> InstanceType:
        """The type with the memory that nodes of it turned out to have, if there were any."""
        if instance_type.name not in self._seen.types:
            return instance_type
        image, machine = image_for(instance_type.requirements, amis), self.machine(instance_type.name)
        memory = self._seen.of(instance_type.name, image.id) if image is not None else None
        if memory is None or machine is None:
            return instance_type
        made = self._blueprint(replace(machine, seen_memory=memory), shape)
        return replace(instance_type, capacity=made.capacity, overhead=made.overhead)

    def _with_shortages(self, instance_type: InstanceType) -> InstanceType:
        offerings = without_shortages(instance_type.name, instance_type.offerings, self._unavailable)
        return instance_type if offerings is instance_type.offerings else replace(instance_type, offerings=offerings)

    def machine(self, name: str) -> Machine | None:
        """The machine of that name, if the region has it."""
        return next((each for each in self._machines if each.name == name), None)

    def _blueprints_of(self, shape: Shape) -> tuple[Blueprint, ...]:
        if shape not in self._blueprints:
            made = tuple(self._blueprint(machine, shape) for machine in self._machines)
            _keep(self._blueprints, shape, made)
        return self._blueprints[shape]

    def _blueprint(self, machine: Machine, shape: Shape) -> Blueprint:
        return Blueprint(
            machine,
            requirements_of(machine, shape, self._aws.region),
            capacity_of(machine, shape, self._margins),
            overhead_of(machine, shape, self._margins),
        )

    def _instance_type(
        self, blueprint: Blueprint, shape: Shape, amis: tuple[ResolvedAMI, ...], market: Market
    ) -> InstanceType:
        machine = blueprint.machine
        own = Requirements.of(blueprint.requirements)
        usable = image_for(own, amis) is not None and _can_be_started(machine, shape)
        zones = self._zones.get(machine.name, frozenset())
        offerings = self._offerings.of(machine, zones, market, usable=usable)
        requirements = Requirements.of([*blueprint.requirements, *_settled_by(offerings)])
        return InstanceType(machine.name, requirements, offerings, blueprint.capacity, blueprint.overhead)


def _can_be_started(machine: Machine, shape: Shape) -> bool:
    """Whether a class can have such a machine, images apart. Bare metal is Nitro without a hypervisor."""
    too_old = machine.family == "a1" and shape.family == "AL2023"
    nitro = machine.bare_metal or machine.hypervisor == "nitro"
    return not too_old and (nitro or not shape.nitro_only)


def _settled_by(offerings: tuple[Offering, ...]) -> list[Requirement]:
    """What the offerings say together: every value any of them has, or that none has the label."""
    values = {
        key: frozenset[str]().union(*(each.requirements.get(key).values for each in offerings)) for key in _SETTLED
    }
    return [
        Requirement.of(key, IN, found) if found else Requirement.of(key, DOES_NOT_EXIST)
        for key, found in values.items()
    ]


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    while len(kept) > _KEPT:
        kept.popitem(last=False)
