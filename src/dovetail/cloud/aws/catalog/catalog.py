"""The catalogue of a region, asked for at the start and every twelve hours, and made up for each node class.

What does not depend on the moment (labels, capacity, overhead) is worked out once for each shape of class; offerings
are worked out again whenever prices, subnets or images change; a shortage, or a node that turns out to have another
memory, changes only the type it is about.

When something is asked for again: twelve hours after it was told, and sooner, but later each time, if it was not.
"""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dovetail.cloud.aws.catalog.capacity import Margins, ObservedMemory, capacity_of, overhead_of
from dovetail.cloud.aws.catalog.ec2_instance_type import Ec2InstanceType, facts_by_type, read_machine, requirements_of
from dovetail.cloud.aws.catalog.kubelet_overhead import NodeClassShape, shape_of
from dovetail.cloud.aws.catalog.offerings import (
    Offerings,
    OfferingScope,
    Prices,
    UnavailableOfferings,
    without_shortages,
)
from dovetail.cloud.aws.clients import AwsClients
from dovetail.cloud.aws.labels import OFFERING_LABELS
from dovetail.cloud.aws.resolve.amis import image_for
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.ec2nodeclass import EC2NodeClass, ResolvedAMI
from dovetail.model.labels import CAPACITY_TYPE, ZONE
from dovetail.model.requirements import DOES_NOT_EXIST, IN, Requirement, Requirements
from dovetail.model.resources import Resources

log = logging.getLogger(__name__)
_KEPT = 32  # node classes at a time
_FILTERS = [
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
]
_SETTLED = (ZONE, CAPACITY_TYPE, *sorted(OFFERING_LABELS))


@dataclass(frozen=True, slots=True)
class NodeClassInstanceType:
    """A machine as nodes of one shape of class see it."""

    ec2_type: Ec2InstanceType
    requirements: tuple[Requirement, ...]
    capacity: Resources
    overhead: Resources


class InstanceTypeCatalog:
    """Instance types by node class."""

    def __init__(
        self, aws: AwsClients, prices: Prices, unavailable: UnavailableOfferings, margins: Margins, seen: ObservedMemory
    ) -> None:
        self._aws = aws
        self._prices = prices
        self._unavailable = unavailable
        self._margins = margins
        self._seen = seen
        self._offerings = Offerings(prices)
        self._machines: tuple[Ec2InstanceType, ...] = ()
        self._zones: Mapping[str, frozenset[str]] = {}
        self._loading = asyncio.Lock()
        self._blueprints: OrderedDict[NodeClassShape, tuple[NodeClassInstanceType, ...]] = OrderedDict()
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

    async def instance_types(self, node_class: EC2NodeClass, market: OfferingScope) -> tuple[InstanceType, ...]:
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

    def _with_memory(
        self, instance_type: InstanceType, shape: NodeClassShape, amis: tuple[ResolvedAMI, ...]
    ) -> InstanceType:
        """The type with the memory that nodes of it turned out to have, if there were any."""
        if instance_type.name not in self._seen.types:
            return instance_type
        image, ec2_type = image_for(instance_type.requirements, amis), self.ec2_type(instance_type.name)
        memory = self._seen.of(instance_type.name, image.id) if image is not None else None
        if memory is None or ec2_type is None:
            return instance_type
        made = self._blueprint(replace(ec2_type, seen_memory=memory), shape)
        return replace(instance_type, capacity=made.capacity, overhead=made.overhead)

    def _with_shortages(self, instance_type: InstanceType) -> InstanceType:
        offerings = without_shortages(instance_type.name, instance_type.offerings, self._unavailable)
        return instance_type if offerings is instance_type.offerings else replace(instance_type, offerings=offerings)

    def ec2_type(self, name: str) -> Ec2InstanceType | None:
        """The machine of that name, if the region has it."""
        return next((each for each in self._machines if each.name == name), None)

    def _blueprints_of(self, shape: NodeClassShape) -> tuple[NodeClassInstanceType, ...]:
        if shape not in self._blueprints:
            made = tuple(self._blueprint(ec2_type, shape) for ec2_type in self._machines)
            _keep(self._blueprints, shape, made)
        return self._blueprints[shape]

    def _blueprint(self, ec2_type: Ec2InstanceType, shape: NodeClassShape) -> NodeClassInstanceType:
        return NodeClassInstanceType(
            ec2_type,
            requirements_of(ec2_type, shape, self._aws.region),
            capacity_of(ec2_type, shape, self._margins),
            overhead_of(ec2_type, shape, self._margins),
        )

    def _instance_type(
        self,
        blueprint: NodeClassInstanceType,
        shape: NodeClassShape,
        amis: tuple[ResolvedAMI, ...],
        market: OfferingScope,
    ) -> InstanceType:
        ec2_type = blueprint.ec2_type
        own = Requirements.of(blueprint.requirements)
        usable = image_for(own, amis) is not None and _can_be_started(ec2_type, shape)
        zones = self._zones.get(ec2_type.name, frozenset())
        offerings = self._offerings.of(ec2_type, zones, market, usable=usable)
        requirements = Requirements.of([*blueprint.requirements, *_settled_by(offerings)])
        return InstanceType(ec2_type.name, requirements, offerings, blueprint.capacity, blueprint.overhead)


def _can_be_started(ec2_type: Ec2InstanceType, shape: NodeClassShape) -> bool:
    """Whether a class can have such a machine, images apart. Bare metal is Nitro without a hypervisor."""
    too_old = ec2_type.family == "a1" and shape.family == "AL2023"
    nitro = ec2_type.bare_metal or ec2_type.hypervisor == "nitro"
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


REFRESH_SECONDS = 12 * 3600.0
RETRY_SECONDS = 60.0


async def keep_fresh(what: str, refresh: Callable[[], Awaitable[None]]) -> None:
    """Refresh until cancelled. A failure costs no more than a question, however long it lasts."""
    wait = RETRY_SECONDS
    while True:
        try:
            await refresh()
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - AWS may answer anything; what was known before still serves
            log.warning(
                "not refreshed",
                extra={"what": what, "error": str(error) or type(error).__name__, "retry_seconds": wait},
            )
            delay, wait = wait, min(wait * 2, REFRESH_SECONDS)
        else:
            delay, wait = REFRESH_SECONDS, RETRY_SECONDS
        await asyncio.sleep(delay)
