"""The instance types of a region for each EC2NodeClass, with a cache layer for each rate of change.

Instance types are loaded from EC2 at startup and every twelve hours (`keep_fresh`; failures are retried with
exponential backoff, and the last known data stays in use). For a class they are computed in three cached layers:

1. `_types_by_shape`: labels, capacity and overhead. They depend only on the shape of the class.
2. `_offered_types`: plus offerings. They change with prices, subnets, reservations and AMIs.
3. `_current_types`: plus observed memory and unavailable offerings. A change affects only the types it is about.

Each layer is keyed by the values and versions it is computed from.
"""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dovetail.cloud.aws.catalog.capacity import Margins, ObservedMemory, capacity_of, overhead_of
from dovetail.cloud.aws.catalog.ec2_instance_type import (
    Ec2InstanceType,
    facts_by_type,
    parse_instance_type,
    requirements_of,
)
from dovetail.cloud.aws.catalog.kubelet_overhead import NodeClassShape, shape_of
from dovetail.cloud.aws.catalog.offerings import (
    Offerings,
    OfferingScope,
    Prices,
    UnavailableOfferings,
    mark_unavailable,
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
_CACHE_SIZE = 32  # entries per cache layer
_FILTERS = [
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
]
_OFFERING_KEYS = (ZONE, CAPACITY_TYPE, *sorted(OFFERING_LABELS))


@dataclass(frozen=True, slots=True)
class NodeClassInstanceType:
    """An instance type with the labels, capacity and overhead that it has with one shape of class."""

    ec2_type: Ec2InstanceType
    requirements: tuple[Requirement, ...]
    capacity: Resources
    overhead: Resources


class InstanceTypeCatalog:
    """Computes the instance types for node classes."""

    def __init__(
        self,
        aws: AwsClients,
        prices: Prices,
        unavailable: UnavailableOfferings,
        margins: Margins,
        observed_memory: ObservedMemory,
    ) -> None:
        self._aws = aws
        self._prices = prices
        self._unavailable = unavailable
        self._margins = margins
        self._observed_memory = observed_memory
        self._offerings = Offerings(prices)
        self._ec2_types: tuple[Ec2InstanceType, ...] = ()
        self._zones: Mapping[str, frozenset[str]] = {}
        self._loading = asyncio.Lock()
        self._types_by_shape: OrderedDict[NodeClassShape, tuple[NodeClassInstanceType, ...]] = OrderedDict()
        self._offered_types: OrderedDict[Any, tuple[InstanceType, ...]] = OrderedDict()
        self._current_types: OrderedDict[Any, tuple[InstanceType, ...]] = OrderedDict()

    async def ready(self) -> None:
        """Load the instance types if that has not happened yet. Raises `AwsError`."""
        async with self._loading:
            if not self._ec2_types:
                await self._load()

    async def refresh(self) -> None:
        """Load the instance types again. After a failure the previous ones stay in use."""
        async with self._loading:
            await self._load()

    async def _load(self) -> None:
        described = await self._aws.collect("ec2", "describe_instance_types", "InstanceTypes", Filters=_FILTERS)
        offered: defaultdict[str, set[str]] = defaultdict(set)
        pages = self._aws.pages("ec2", "describe_instance_type_offerings", LocationType="availability-zone")
        async for page in pages:
            for each in page["InstanceTypeOfferings"]:
                offered[each["InstanceType"]].add(each["Location"])
        parsed = (parse_instance_type(each, facts_by_type()) for each in described)
        self._ec2_types = tuple(sorted((each for each in parsed if each is not None), key=lambda each: each.name))
        self._zones = {name: frozenset(zones) for name, zones in offered.items()}
        self._types_by_shape.clear()
        self._offered_types.clear()
        self._current_types.clear()
        log.info("instance types loaded", extra={"instance_types": len(self._ec2_types)})

    async def instance_types(self, node_class: EC2NodeClass, scope: OfferingScope) -> tuple[InstanceType, ...]:
        """Every instance type of the region, with the capacity and offerings it has for this class."""
        await self.ready()
        shape, amis = shape_of(node_class.spec), node_class.status.amis
        key = (shape, amis, scope, self._prices.version)
        if key not in self._offered_types:
            types = self._types_of_shape(shape)
            _store(self._offered_types, key, tuple(self._instance_type(each, shape, amis, scope) for each in types))
        current_key = (key, self._unavailable.version, self._observed_memory.version)
        if current_key not in self._current_types:
            with_memory = (self._with_memory(each, shape, amis) for each in self._offered_types[key])
            _store(self._current_types, current_key, tuple(map(self._with_unavailable, with_memory)))
        return self._current_types[current_key]

    def _with_memory(
        self, instance_type: InstanceType, shape: NodeClassShape, amis: tuple[ResolvedAMI, ...]
    ) -> InstanceType:
        """The type with its observed memory, if there is an observation."""
        if instance_type.name not in self._observed_memory.types:
            return instance_type
        image, ec2_type = image_for(instance_type.requirements, amis), self.ec2_type(instance_type.name)
        memory = self._observed_memory.of(instance_type.name, image.id) if image is not None else None
        if memory is None or ec2_type is None:
            return instance_type
        made = self._type_of_shape(replace(ec2_type, observed_memory=memory), shape)
        return replace(instance_type, capacity=made.capacity, overhead=made.overhead)

    def _with_unavailable(self, instance_type: InstanceType) -> InstanceType:
        offerings = mark_unavailable(instance_type.name, instance_type.offerings, self._unavailable)
        return instance_type if offerings is instance_type.offerings else replace(instance_type, offerings=offerings)

    def ec2_type(self, name: str) -> Ec2InstanceType | None:
        """The instance type of that name, if the region has it."""
        return next((each for each in self._ec2_types if each.name == name), None)

    def _types_of_shape(self, shape: NodeClassShape) -> tuple[NodeClassInstanceType, ...]:
        if shape not in self._types_by_shape:
            made = tuple(self._type_of_shape(ec2_type, shape) for ec2_type in self._ec2_types)
            _store(self._types_by_shape, shape, made)
        return self._types_by_shape[shape]

    def _type_of_shape(self, ec2_type: Ec2InstanceType, shape: NodeClassShape) -> NodeClassInstanceType:
        return NodeClassInstanceType(
            ec2_type,
            requirements_of(ec2_type, shape, self._aws.region),
            capacity_of(ec2_type, shape, self._margins),
            overhead_of(ec2_type, shape, self._margins),
        )

    def _instance_type(
        self,
        shaped: NodeClassInstanceType,
        shape: NodeClassShape,
        amis: tuple[ResolvedAMI, ...],
        scope: OfferingScope,
    ) -> InstanceType:
        ec2_type = shaped.ec2_type
        own = Requirements.of(shaped.requirements)
        usable = image_for(own, amis) is not None and _is_launchable(ec2_type, shape)
        zones = self._zones.get(ec2_type.name, frozenset())
        offerings = self._offerings.of(ec2_type, zones, scope, usable=usable)
        requirements = Requirements.of([*shaped.requirements, *_offering_requirements(offerings)])
        return InstanceType(ec2_type.name, requirements, offerings, shaped.capacity, shaped.overhead)


def _is_launchable(ec2_type: Ec2InstanceType, shape: NodeClassShape) -> bool:
    """Whether the class can launch the type, AMIs apart. Bare metal is Nitro without a hypervisor."""
    too_old = ec2_type.family == "a1" and shape.family == "AL2023"
    nitro = ec2_type.bare_metal or ec2_type.hypervisor == "nitro"
    return not too_old and (nitro or not shape.nitro_only)


def _offering_requirements(offerings: tuple[Offering, ...]) -> list[Requirement]:
    """The union of the labels of all offerings; `DoesNotExist` for a label that none of them has."""
    values = {
        key: frozenset[str]().union(*(each.requirements.get(key).values for each in offerings))
        for key in _OFFERING_KEYS
    }
    return [
        Requirement.of(key, IN, found) if found else Requirement.of(key, DOES_NOT_EXIST)
        for key, found in values.items()
    ]


def _store(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    while len(kept) > _CACHE_SIZE:
        kept.popitem(last=False)


REFRESH_SECONDS = 12 * 3600.0
RETRY_SECONDS = 60.0


async def keep_fresh(what: str, refresh: Callable[[], Awaitable[None]]) -> None:
    """Refresh every twelve hours until cancelled; retry a failure with exponential backoff."""
    wait = RETRY_SECONDS
    while True:
        try:
            await refresh()
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - a malformed response must not end the loop; the last data stays
            log.warning(
                "refresh failed, keeping the last known data",
                extra={"what": what, "error": str(error) or type(error).__name__, "retry_seconds": wait},
            )
            delay, wait = wait, min(wait * 2, REFRESH_SECONDS)
        else:
            delay, wait = REFRESH_SECONDS, RETRY_SECONDS
        await asyncio.sleep(delay)
