"""Reads an instance types file of Karpenter's kwok provider, and builds instance types from specifications.

All faults of a file are collected before they are reported. Field names are case-insensitive, as in Karpenter, and the
older form of offerings with `capacityType` and `zone` fields is accepted. Unlike in Karpenter, an offering with
`Available: false` stays unavailable. A snapshot is accepted, too: its catalogs become the instance types.

`build` follows the rules of Karpenter's kwok: derived labels, 110 pods by default, 100m CPU and 10Mi memory of
overhead. Every well-known label has a requirement; one that the type lacks is `DoesNotExist`, so that a claim that
requires it does not match. The NodePool label is the exception: it comes from the claim.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dovetail.cloud.kwok.node import INSTANCE_CPU, INSTANCE_FAMILY, INSTANCE_MEMORY, INSTANCE_SIZE
from dovetail.manifest.codec import UNDECODABLE
from dovetail.manifest.input_file import InputUnreadable, read_bytes
from dovetail.manifest.snapshot_file import SnapshotInvalid, read_snapshot_file
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.kube_object import Fault
from dovetail.model.labels import ARCH, CAPACITY_TYPE, CAPACITY_TYPES, INSTANCE_TYPE, NODEPOOL, OS, WELL_KNOWN, ZONE
from dovetail.model.requirements import DOES_NOT_EXIST, IN, Requirement, Requirements
from dovetail.model.resources import CPU, MEMORY, PODS, Quantity, Resources

DEFAULT_PODS = Quantity.of("110")
OVERHEAD: Resources = {CPU: Quantity.of("100m"), MEMORY: Quantity.of("10Mi")}

_EC2_SIZE = re.compile(r"\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypeSpec:
    """The specification of an instance type."""

    name: str
    architecture: str
    operating_systems: tuple[str, ...]
    resources: Resources
    offerings: tuple[Offering, ...]


def offering(zone: str, capacity_type: str, price: float) -> Offering:
    """An offering with a zone, a capacity type and a price only."""
    return Offering(Requirements.from_labels({ZONE: zone, CAPACITY_TYPE: capacity_type}), price)


def build(spec: InstanceTypeSpec) -> InstanceType:
    """Build the instance type of a specification."""
    return InstanceType(
        name=spec.name,
        requirements=_requirements(spec),
        offerings=spec.offerings,
        capacity={PODS: DEFAULT_PODS, **spec.resources},
        overhead=OVERHEAD,
    )


def _requirements(spec: InstanceTypeSpec) -> Requirements:
    cpu = spec.resources[CPU].canonical
    values_by_key: dict[str, Sequence[str]] = {
        INSTANCE_TYPE: (spec.name,),
        ARCH: (spec.architecture,),
        OS: spec.operating_systems,
        INSTANCE_SIZE: (_size(spec.name, cpu),),
        INSTANCE_FAMILY: (_family(spec.name),),
        INSTANCE_CPU: (cpu,),
        INSTANCE_MEMORY: (spec.resources[MEMORY].canonical,),
    }
    known = [Requirement.of(key, IN, values) for key, values in values_by_key.items()]
    known += _offering_requirements(spec.offerings)
    present = {requirement.key for requirement in known}
    absent = [Requirement.of(key, DOES_NOT_EXIST) for key in sorted(WELL_KNOWN - present - {NODEPOOL})]
    return Requirements.of([*known, *absent])


def _offering_requirements(offerings: Sequence[Offering]) -> list[Requirement]:
    """The union of the offerings' values, for each label that all offerings specify with `In`."""
    keys = sorted({key for each in offerings for key in each.requirements})
    requirements_by_key = {key: [each.requirements.get(key) for each in offerings] for key in keys}
    return [
        Requirement.of(key, IN, frozenset[str]().union(*(each.values for each in requirements)))
        for key, requirements in requirements_by_key.items()
        if all(each.operator == IN for each in requirements)
    ]


def _size(name: str, cpu: str) -> str:
    """`large` for `m5.large`; the number of CPUs for names without a size."""
    found = _EC2_SIZE.fullmatch(name)
    return found[1] if found else cpu


def _family(name: str) -> str:
    head, *tail = re.split(r"[.-]", name, maxsplit=1)
    return head if tail else name[:1]


ReportFault = Callable[[str, str, object, str], None]
"""Reports a fault: its path, the problem, the value, and the remedy."""
ReadLabelValue = Callable[[str, Any, str], str]

_EXAMPLES = {ZONE: "us-east-1a", CAPACITY_TYPE: "spot"}


class OfferingReader:
    """Reads the offerings of one instance type, and reports duplicates."""

    def __init__(self, fault: ReportFault, label_value: ReadLabelValue) -> None:
        self._fault = fault
        self._label_value = label_value
        self._seen: set[Requirements] = set()

    def offering(self, path: str, entry: Any) -> Offering | None:
        """One offering, or None if the entry is not an object."""
        if not isinstance(entry, dict):
            self._fault(path, "is not an object", entry, 'write {"Price": 0.1, "Requirements": [...]}')
            return None
        fields = {key.lower(): value for key, value in entry.items()}
        requirements = self._requirements(path, fields)
        if requirements in self._seen:
            self._fault(path, "repeats an earlier offering of this type", str(requirements), "remove one of them")
        self._seen.add(requirements)
        return Offering(requirements, self._price(f"{path}.Price", fields), self._available(path, fields))

    def _price(self, path: str, fields: Mapping[str, Any]) -> float:
        price = fields.get("price")
        if isinstance(price, bool) or not isinstance(price, int | float) or price < 0:
            self._fault(path, "is missing or not a price", price, "write the cost of one hour, such as 0.096")
            return 0.0
        return float(price)

    def _available(self, path: str, fields: Mapping[str, Any]) -> bool:
        available = fields.get("available", True)
        if not isinstance(available, bool):
            self._fault(f"{path}.Available", "is neither true nor false", available, "write true, or leave it out")
        return bool(available)

    def _requirements(self, path: str, fields: Mapping[str, Any]) -> Requirements:
        if "requirements" not in fields and ("zone" in fields or "capacitytype" in fields):
            requirements = Requirements.from_labels(
                {
                    ZONE: self._label_value(f"{path}.zone", fields.get("zone"), _EXAMPLES[ZONE]),
                    CAPACITY_TYPE: self._label_value(f"{path}.capacityType", fields.get("capacitytype"), "spot"),
                }
            )
            self._check_capacity_type(f"{path}.capacityType", requirements)
            return requirements
        return self._listed(f"{path}.Requirements", fields.get("requirements"))

    def _listed(self, path: str, value: Any) -> Requirements:
        if not isinstance(value, list):
            self._fault(path, "is missing or not a list", value, f"list a requirement for {ZONE} and {CAPACITY_TYPE}")
            return Requirements({})
        read = (self._requirement(f"{path}[{index}]", each) for index, each in enumerate(value))
        requirements = Requirements.of(each for each in read if each is not None)
        for key, example in _EXAMPLES.items():
            if key not in requirements.labels():
                remedy = f'add {{"key": "{key}", "operator": "In", "values": ["{example}"]}}'
                self._fault(path, f"does not specify exactly one {key}", None, remedy)
        self._check_capacity_type(path, requirements)
        return requirements

    def _requirement(self, path: str, entry: Any) -> Requirement | None:
        fields = {key.lower(): value for key, value in entry.items()} if isinstance(entry, dict) else {}
        key, operator, values = fields.get("key"), fields.get("operator"), fields.get("values") or []
        if not isinstance(key, str) or not isinstance(operator, str) or not isinstance(values, list):
            self._fault(path, "is not a requirement", entry, 'write {"key": ..., "operator": "In", "values": [...]}')
            return None
        texts = [self._label_value(f"{path}.values[{index}]", each, "a") for index, each in enumerate(values)]
        try:
            return Requirement.of(key, operator, texts)
        except ValueError as error:
            self._fault(path, str(error), None, "")
            return None

    def _check_capacity_type(self, path: str, requirements: Requirements) -> None:
        found = requirements.labels().get(CAPACITY_TYPE)
        if found and found not in CAPACITY_TYPES:
            self._fault(path, "names an unknown capacity type", found, f"use one of {', '.join(CAPACITY_TYPES)}")


_SNAPSHOT = re.compile(rb"""["']?kind["']?\s*:\s*["']?Snapshot\b""")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_REMEDY = "use at most 63 letters, digits, '.', '_' and '-', since it becomes a node label"


class InstanceTypesInvalid(ValueError):
    """The file is invalid; `faults` lists everything that is wrong with it."""

    def __init__(self, faults: tuple[Fault, ...], source: str = "") -> None:
        super().__init__("\n".join(f"{source}: {fault}" if source else str(fault) for fault in faults))
        self.faults = faults


def load_instance_types(source: Path | bytes) -> tuple[InstanceType, ...]:
    """Read a file or its content; raises `InstanceTypesInvalid` with every fault."""
    if isinstance(source, bytes):
        return _load(source)
    name = f"instance types file {source}"
    try:
        content = read_bytes(source)
        return _load_snapshot(content) if _SNAPSHOT.search(content[:4096]) else _load(content)
    except InputUnreadable as error:
        remedy = "check --instance-types-file-path" if error.remedy == "check the path" else error.remedy
        raise InstanceTypesInvalid((Fault("$", error.problem, remedy=remedy),), name) from None
    except InstanceTypesInvalid as error:
        raise InstanceTypesInvalid(error.faults, name) from None


def _load_snapshot(content: bytes) -> tuple[InstanceType, ...]:
    """Every instance type in the catalogs of a snapshot, once."""
    try:
        catalogs = read_snapshot_file(content).catalogs
    except SnapshotInvalid as error:
        raise InstanceTypesInvalid(error.faults) from None
    types = {each.name: each for pool in sorted(catalogs) for each in catalogs[pool]}
    if not types:
        raise _invalid("$", "is a snapshot without a catalog", "take it again where the provider is reachable")
    return tuple(types[name] for name in sorted(types))


def _load(content: bytes) -> tuple[InstanceType, ...]:
    entries = _entries(content)
    reader = _FileReader()
    specs = [reader.instance_type(f"[{index}]", entry) for index, entry in enumerate(entries)]
    if reader.faults:
        raise InstanceTypesInvalid(tuple(reader.faults))
    return tuple(build(spec) for spec in specs if spec is not None)


def _entries(content: bytes) -> list[Any]:
    try:
        data = msgspec.json.decode(content)
    except UNDECODABLE as error:
        raise _invalid("$", f"is not JSON: {error}", "write a JSON array of instance types") from None
    if not isinstance(data, list):
        raise _invalid("$", "is not a list", "write a JSON array of instance types")
    if not data:
        raise _invalid("$", "lists no instance types", "add at least one, or leave the file out")
    return data


def _invalid(path: str, problem: str, remedy: str) -> InstanceTypesInvalid:
    return InstanceTypesInvalid((Fault(path, problem, remedy=remedy),))


class _FileReader:
    """Reads the entries and collects their faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._names: set[str] = set()

    def instance_type(self, path: str, entry: Any) -> InstanceTypeSpec | None:
        if not isinstance(entry, dict):
            self._fault(path, "is not an object", entry, 'write {"name": ..., "offerings": [...], ...}')
            return None
        fields = {key.lower(): value for key, value in entry.items()}
        before = len(self.faults)
        spec = InstanceTypeSpec(
            name=self._name(f"{path}.name", fields.get("name")),
            architecture=self._label_value(f"{path}.architecture", fields.get("architecture"), "amd64"),
            operating_systems=self._systems(f"{path}.operatingSystems", fields.get("operatingsystems")),
            resources=self._resources(f"{path}.resources", fields.get("resources")),
            offerings=self._offerings(f"{path}.offerings", fields.get("offerings")),
        )
        return spec if len(self.faults) == before else None

    def _name(self, path: str, value: Any) -> str:
        name = self._label_value(path, value, "m5.large")
        if name in self._names:
            self._fault(path, "is the name of an earlier instance type", name, "give every type its own name")
        self._names.add(name)
        return name

    def _label_value(self, path: str, value: Any, example: str) -> str:
        if not isinstance(value, str) or not value:
            self._fault(path, "is missing or not text", value, f'write text such as "{example}"')
            return ""
        if not _LABEL_VALUE.fullmatch(value):
            self._fault(path, "is not a label value", value, _LABEL_REMEDY)
        return value

    def _systems(self, path: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            self._fault(path, "is missing or not a list of systems", value, 'write a list such as ["linux"]')
            return ()
        return tuple(self._label_value(f"{path}[{index}]", each, "linux") for index, each in enumerate(value))

    def _resources(self, path: str, value: Any) -> Resources:
        if not isinstance(value, Mapping):
            self._fault(path, "is missing or not an object", value, 'write {"cpu": "4", "memory": "16Gi"}')
            return {}
        amounts = {name: self._quantity(f"{path}.{name}", amount) for name, amount in value.items()}
        for name in (CPU, MEMORY):
            if name not in amounts:
                self._fault(f"{path}.{name}", "is missing", None, "specify the capacity of the type")
        return amounts

    def _quantity(self, path: str, value: Any) -> Quantity:
        try:
            amount = Quantity.of(value)
        except ValueError as error:
            problem, _, remedy = str(error).rpartition("; ")
            self._fault(path, problem, None, remedy)
            return Quantity.of(0)
        if amount.nano < 0:
            self._fault(path, "is negative", value, "write zero or more")
        return amount

    def _offerings(self, path: str, value: Any) -> tuple[Offering, ...]:
        if not isinstance(value, list) or not value:
            self._fault(path, "is missing or empty, so the type can never be launched", value, "add an offering")
            return ()
        reader = OfferingReader(self._fault, self._label_value)
        read = (reader.offering(f"{path}[{index}]", each) for index, each in enumerate(value))
        return tuple(each for each in read if each is not None)

    def _fault(self, path: str, problem: str, value: object, remedy: str) -> None:
        self.faults.append(Fault(path, problem, value, remedy))
