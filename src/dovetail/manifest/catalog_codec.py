"""Encodes and decodes the instance type catalogs in a snapshot.

Equal catalogs are written once, with the names of the NodePools that use them. A requirement that allows exactly one
value is written as a label, any other as a requirement. The order of instance types is kept, because the scheduler
considers equal types in that order.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dovetail.manifest.codec import decode_hook, ordered, place_of
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.kube_object import ApiStruct, Fault
from dovetail.model.nodepool import read_requirements
from dovetail.model.pod import NodeSelectorRequirement
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Quantity

Catalogs = Mapping[str, tuple[InstanceType, ...]]
_SHAPE = "write {nodePools: [...], instanceTypes: [...]}"


class OfferingFields(ApiStruct, frozen=True, kw_only=True):
    """An offering in a snapshot."""

    price: float
    labels: Mapping[str, str] = {}
    requirements: tuple[NodeSelectorRequirement, ...] = ()
    available: bool = True


class InstanceTypeFields(ApiStruct, frozen=True, kw_only=True):
    """An instance type in a snapshot."""

    name: str
    labels: Mapping[str, str] = {}
    requirements: tuple[NodeSelectorRequirement, ...] = ()
    capacity: Mapping[str, Quantity]
    overhead: Mapping[str, Quantity] = {}
    offerings: tuple[OfferingFields, ...]


def dump_catalogs(catalogs: Catalogs) -> list[dict[str, Any]]:
    """Each distinct catalog once, ordered by the name of its first pool."""
    pools_by_catalog: dict[int, list[str]] = {}
    for pool in sorted(catalogs):
        pools_by_catalog.setdefault(_first_equal(catalogs, pool), []).append(pool)
    return [
        {"nodePools": pools, "instanceTypes": [_dump_type(each) for each in catalogs[pools[0]]]}
        for pools in pools_by_catalog.values()
    ]


def _first_equal(catalogs: Catalogs, pool: str) -> int:
    """The index of the first pool, by name, with an equal catalog."""
    catalog = catalogs[pool]
    names = sorted(catalogs)
    return next(index for index, name in enumerate(names) if catalogs[name] is catalog or catalogs[name] == catalog)


def _dump_type(value: InstanceType) -> dict[str, Any]:
    labels, requirements = _labels_and_requirements(value.requirements)
    fields = InstanceTypeFields(
        name=value.name,
        labels=labels,
        requirements=requirements,
        capacity=value.capacity,
        overhead=value.overhead,
        offerings=tuple(_dump_offering(each) for each in value.offerings),
    )
    document: dict[str, Any] = ordered(fields)
    return document


def _dump_offering(value: Offering) -> OfferingFields:
    labels, requirements = _labels_and_requirements(value.requirements)
    return OfferingFields(price=value.price, labels=labels, requirements=requirements, available=value.available)


def _labels_and_requirements(requirements: Requirements) -> tuple[dict[str, str], tuple[NodeSelectorRequirement, ...]]:
    labels: dict[str, str] = {}
    others: list[NodeSelectorRequirement] = []
    for key, requirement in sorted(requirements.items()):
        value = requirement.any()
        if requirement == Requirement.of(key, "In", [value]):
            labels[key] = value
        else:
            others += [msgspec.convert(entry, NodeSelectorRequirement) for entry in requirement.to_wire()]
    return labels, tuple(others)


def load_catalogs(document: Any, faults: list[Fault]) -> dict[str, tuple[InstanceType, ...]]:
    """The catalog of each pool; pools of one entry share it. Errors are added to `faults`."""
    if not isinstance(document, list):
        faults.append(Fault("catalogs", "is not a list", None, f"for each catalog {_SHAPE}"))
        return {}
    catalogs: dict[str, tuple[InstanceType, ...]] = {}
    for index, entry in enumerate(document):
        path = f"catalogs[{index}]"
        if not isinstance(entry, dict):
            faults.append(Fault(path, "is not a mapping", entry, _SHAPE))
            continue
        types = tuple(_load_types(entry.get("instanceTypes"), f"{path}.instanceTypes", faults))
        for pool in _load_pools(entry.get("nodePools"), f"{path}.nodePools", faults):
            if pool in catalogs:
                faults.append(Fault(f"{path}.nodePools", "has a pool that another catalog lists too", pool, "keep one"))
            catalogs[pool] = types
    return catalogs


def _load_pools(names: Any, path: str, faults: list[Fault]) -> Iterable[str]:
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    faults.append(Fault(path, "is missing or not a list of names", names, "list the NodePools that use this catalog"))
    return ()


def _load_types(entries: Any, path: str, faults: list[Fault]) -> Iterator[InstanceType]:
    if not isinstance(entries, list):
        faults.append(Fault(path, "is missing or not a list", None, "list the instance types"))
        return
    names: set[str] = set()
    for index, entry in enumerate(entries):
        here = f"{path}[{index}]"
        try:
            found = _load_type(msgspec.convert(entry, InstanceTypeFields, dec_hook=decode_hook))
        except (msgspec.ValidationError, ValueError) as error:
            place, problem = place_of(error)
            faults.append(Fault(f"{here}.{place}" if place else here, problem, None, "take the snapshot again"))
            continue
        if found.name in names:
            faults.append(
                Fault(f"{here}.name", "is the name of an earlier type", found.name, "give each type a unique name")
            )
        names.add(found.name)
        yield found


def _load_type(fields: InstanceTypeFields) -> InstanceType:
    return InstanceType(
        name=fields.name,
        requirements=_all_requirements(fields),
        offerings=tuple(_load_offering(each) for each in fields.offerings),
        capacity=fields.capacity,
        overhead=fields.overhead,
    )


def _load_offering(fields: OfferingFields) -> Offering:
    if not math.isfinite(fields.price) or fields.price < 0:
        raise ValueError(f"an offering has the price {fields.price}; it must be zero or more")
    return Offering(_all_requirements(fields), fields.price, fields.available)


def _all_requirements(fields: InstanceTypeFields | OfferingFields) -> Requirements:
    return Requirements.from_labels(fields.labels).add(read_requirements(fields.requirements))
