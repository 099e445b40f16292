"""Catalogues as they stand in a snapshot file: written once, with the names of the NodePools that buy from each.

What a type or an offering settles is written as labels, everything else as requirements; together they mean what
they meant before. Order is kept: it is the order in which equal types are considered.
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
    """An offering, as written."""

    price: float
    labels: Mapping[str, str] = {}
    requirements: tuple[NodeSelectorRequirement, ...] = ()
    available: bool = True


class InstanceTypeFields(ApiStruct, frozen=True, kw_only=True):
    """An instance type, as written."""

    name: str
    labels: Mapping[str, str] = {}
    requirements: tuple[NodeSelectorRequirement, ...] = ()
    capacity: Mapping[str, Quantity]
    overhead: Mapping[str, Quantity] = {}
    offerings: tuple[OfferingFields, ...]


def dump_catalogs(catalogs: Catalogs) -> list[dict[str, Any]]:
    """Each different catalogue once, by its first pool."""
    pools_by_catalog: dict[int, list[str]] = {}
    for pool in sorted(catalogs):
        pools_by_catalog.setdefault(_identity(catalogs, pool), []).append(pool)
    return [
        {"nodePools": pools, "instanceTypes": [_dump_type(each) for each in catalogs[pools[0]]]}
        for pools in pools_by_catalog.values()
    ]


def _identity(catalogs: Catalogs, pool: str) -> int:
    """The first of the pools, counted by name, that sells the same."""
    mine = catalogs[pool]
    names = sorted(catalogs)
    return next(at for at, name in enumerate(names) if catalogs[name] is mine or catalogs[name] == mine)


def _dump_type(value: InstanceType) -> dict[str, Any]:
    labels, requirements = _split(value.requirements)
    wire = InstanceTypeFields(
        name=value.name,
        labels=labels,
        requirements=requirements,
        capacity=value.capacity,
        overhead=value.overhead,
        offerings=tuple(_dump_offering(each) for each in value.offerings),
    )
    plain: dict[str, Any] = ordered(wire)
    return plain


def _dump_offering(value: Offering) -> OfferingFields:
    labels, requirements = _split(value.requirements)
    return OfferingFields(price=value.price, labels=labels, requirements=requirements, available=value.available)


def _split(requirements: Requirements) -> tuple[dict[str, str], tuple[NodeSelectorRequirement, ...]]:
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
    """The catalogue of each pool; pools of one entry share it. What is wrong goes to `faults`."""
    if not isinstance(document, list):
        faults.append(Fault("catalogs", "is not a list", None, f"for each catalogue {_SHAPE}"))
        return {}
    catalogs: dict[str, tuple[InstanceType, ...]] = {}
    for at, entry in enumerate(document):
        path = f"catalogs[{at}]"
        if not isinstance(entry, dict):
            faults.append(Fault(path, "is not a mapping", entry, _SHAPE))
            continue
        types = tuple(_load_types(entry.get("instanceTypes"), f"{path}.instanceTypes", faults))
        for pool in _load_pools(entry.get("nodePools"), f"{path}.nodePools", faults):
            if pool in catalogs:
                faults.append(Fault(f"{path}.nodePools", "has a pool that buys elsewhere too", pool, "keep one"))
            catalogs[pool] = types
    return catalogs


def _load_pools(names: Any, path: str, faults: list[Fault]) -> Iterable[str]:
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    faults.append(Fault(path, "is missing or not a list of names", names, "list the NodePools that buy here"))
    return ()


def _load_types(entries: Any, path: str, faults: list[Fault]) -> Iterator[InstanceType]:
    if not isinstance(entries, list):
        faults.append(Fault(path, "is missing or not a list", None, "list the instance types"))
        return
    names: set[str] = set()
    for at, entry in enumerate(entries):
        here = f"{path}[{at}]"
        try:
            found = _load_type(msgspec.convert(entry, InstanceTypeFields, dec_hook=decode_hook))
        except (msgspec.ValidationError, ValueError) as error:
            place, problem = place_of(error)
            faults.append(Fault(f"{here}.{place}" if place else here, problem, None, "take the snapshot again"))
            continue
        if found.name in names:
            faults.append(Fault(f"{here}.name", "is the name of an earlier type", found.name, "give each its own"))
        names.add(found.name)
        yield found


def _load_type(wire: InstanceTypeFields) -> InstanceType:
    return InstanceType(
        name=wire.name,
        requirements=_joined(wire),
        offerings=tuple(_load_offering(each) for each in wire.offerings),
        capacity=wire.capacity,
        overhead=wire.overhead,
    )


def _load_offering(wire: OfferingFields) -> Offering:
    if not math.isfinite(wire.price) or wire.price < 0:
        raise ValueError(f"an offering has the price {wire.price}; it must be zero or more")
    return Offering(_joined(wire), wire.price, wire.available)


def _joined(wire: InstanceTypeFields | OfferingFields) -> Requirements:
    return Requirements.from_labels(wire.labels).add(read_requirements(wire.requirements))
