"""An instance type from what its maker says of it: name, architecture, systems, resources and offerings.

Keeps Karpenter's kwok rules: the derived labels, 110 pods unless told otherwise, 100m cpu and 10Mi memory kept by the
system. Every well-known label gets a requirement, so that a wish for one this type cannot have is refused and not
guessed. The NodePool label is the exception: it comes from the claim.

An instance-types file, in the format of Karpenter's kwok provider, to instance types.

Every fault of the file is found before any is reported. Field names are read whatever their case, as Karpenter does,
and the older offerings with `capacityType` and `zone` of their own are understood. Unlike Karpenter, an offering that
says `Available: false` stays unavailable: that is what its author wrote. A snapshot serves as well: what
could be bought there can be bought here.

The offerings of an instance-types file: today's spelling by requirements, and the older one by named fields.
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


ReportFault = Callable[[str, str, object, str], None]
"""Where, what is wrong, the value found, and what to do about it."""
ReadLabelValue = Callable[[str, Any, str], str]

_EXAMPLES = {ZONE: "us-east-1a", CAPACITY_TYPE: "spot"}


class OfferingReader:
    """Reads the offerings of one instance type, and sees that no two are the same."""

    def __init__(self, fault: ReportFault, label_value: ReadLabelValue) -> None:
        self._fault = fault
        self._label_value = label_value
        self._seen: set[Requirements] = set()

    def offering(self, path: str, entry: Any) -> Offering | None:
        """One offering, or None if it was no object at all."""
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
            written = Requirements.from_labels(
                {
                    ZONE: self._label_value(f"{path}.zone", fields.get("zone"), _EXAMPLES[ZONE]),
                    CAPACITY_TYPE: self._label_value(f"{path}.capacityType", fields.get("capacitytype"), "spot"),
                }
            )
            self._check_capacity_type(f"{path}.capacityType", written)
            return written
        return self._listed(f"{path}.Requirements", fields.get("requirements"))

    def _listed(self, path: str, value: Any) -> Requirements:
        if not isinstance(value, list):
            self._fault(path, "is missing or not a list", value, f"list a requirement for {ZONE} and {CAPACITY_TYPE}")
            return Requirements({})
        read = (self._requirement(f"{path}[{at}]", each) for at, each in enumerate(value))
        written = Requirements.of(each for each in read if each is not None)
        for key, example in _EXAMPLES.items():
            if key not in written.labels():
                remedy = f'add {{"key": "{key}", "operator": "In", "values": ["{example}"]}}'
                self._fault(path, f"does not settle {key}", None, remedy)
        self._check_capacity_type(path, written)
        return written

    def _requirement(self, path: str, entry: Any) -> Requirement | None:
        fields = {key.lower(): value for key, value in entry.items()} if isinstance(entry, dict) else {}
        key, operator, values = fields.get("key"), fields.get("operator"), fields.get("values") or []
        if not isinstance(key, str) or not isinstance(operator, str) or not isinstance(values, list):
            self._fault(path, "is not a requirement", entry, 'write {"key": ..., "operator": "In", "values": [...]}')
            return None
        texts = [self._label_value(f"{path}.values[{at}]", each, "a") for at, each in enumerate(values)]
        try:
            return Requirement.of(key, operator, texts)
        except ValueError as error:
            self._fault(path, str(error), None, "")
            return None

    def _check_capacity_type(self, path: str, written: Requirements) -> None:
        found = written.labels().get(CAPACITY_TYPE)
        if found and found not in CAPACITY_TYPES:
            self._fault(path, "names an unknown capacity type", found, f"use one of {', '.join(CAPACITY_TYPES)}")


_SNAPSHOT = re.compile(rb"""["']?kind["']?\s*:\s*["']?Snapshot\b""")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_REMEDY = "use at most 63 letters, digits, '.', '_' and '-', since it becomes a node label"


class InstanceTypesInvalid(ValueError):
    """The file cannot be used; `faults` says everything that is wrong with it."""

    def __init__(self, faults: tuple[Fault, ...], source: str = "") -> None:
        super().__init__("\n".join(f"{source}: {fault}" if source else str(fault) for fault in faults))
        self.faults = faults


def load_instance_types(source: Path | bytes) -> tuple[InstanceType, ...]:
    """Read a file, or its contents; `InstanceTypesInvalid` carries every fault."""
    if isinstance(source, bytes):
        return _load(source)
    name = f"instance types file {source}"
    try:
        content = read_bytes(source)
        return _of_snapshot(content) if _SNAPSHOT.search(content[:4096]) else _load(content)
    except InputUnreadable as error:
        remedy = "check --instance-types-file-path" if error.remedy == "check the path" else error.remedy
        raise InstanceTypesInvalid((Fault("$", error.problem, remedy=remedy),), name) from None
    except InstanceTypesInvalid as error:
        raise InstanceTypesInvalid(error.faults, name) from None


def _of_snapshot(content: bytes) -> tuple[InstanceType, ...]:
    """Every type that any pool of a snapshot could buy, once."""
    try:
        catalogs = read_snapshot_file(content).catalogs
    except SnapshotInvalid as error:
        raise InstanceTypesInvalid(error.faults) from None
    types = {each.name: each for pool in sorted(catalogs) for each in catalogs[pool]}
    if not types:
        raise _useless("$", "is a snapshot without a catalogue", "take it again where the provider can be asked")
    return tuple(types[name] for name in sorted(types))


def _load(content: bytes) -> tuple[InstanceType, ...]:
    entries = _entries(content)
    reader = _FileReader()
    blueprints = [reader.instance_type(f"[{at}]", entry) for at, entry in enumerate(entries)]
    if reader.faults:
        raise InstanceTypesInvalid(tuple(reader.faults))
    return tuple(build(blueprint) for blueprint in blueprints if blueprint is not None)


def _entries(content: bytes) -> list[Any]:
    try:
        data = msgspec.json.decode(content)
    except UNDECODABLE as error:
        raise _useless("$", f"is not JSON: {error}", "write a JSON array of instance types") from None
    if not isinstance(data, list):
        raise _useless("$", "is not a list", "write a JSON array of instance types")
    if not data:
        raise _useless("$", "lists no instance types", "add at least one, or leave the file out")
    return data


def _useless(path: str, problem: str, remedy: str) -> InstanceTypesInvalid:
    return InstanceTypesInvalid((Fault(path, problem, remedy=remedy),))


class _FileReader:
    """Reads entry by entry and collects what is wrong on the way."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._names: set[str] = set()

    def instance_type(self, path: str, entry: Any) -> InstanceTypeSpec | None:
        if not isinstance(entry, dict):
            self._fault(path, "is not an object", entry, 'write {"name": ..., "offerings": [...], ...}')
            return None
        fields = {key.lower(): value for key, value in entry.items()}
        before = len(self.faults)
        blueprint = InstanceTypeSpec(
            name=self._name(f"{path}.name", fields.get("name")),
            architecture=self._label_value(f"{path}.architecture", fields.get("architecture"), "amd64"),
            operating_systems=self._systems(f"{path}.operatingSystems", fields.get("operatingsystems")),
            resources=self._resources(f"{path}.resources", fields.get("resources")),
            offerings=self._offerings(f"{path}.offerings", fields.get("offerings")),
        )
        return blueprint if len(self.faults) == before else None

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
        return tuple(self._label_value(f"{path}[{at}]", each, "linux") for at, each in enumerate(value))

    def _resources(self, path: str, value: Any) -> Resources:
        if not isinstance(value, Mapping):
            self._fault(path, "is missing or not an object", value, 'write {"cpu": "4", "memory": "16Gi"}')
            return {}
        amounts = {name: self._quantity(f"{path}.{name}", amount) for name, amount in value.items()}
        for name in (CPU, MEMORY):
            if name not in amounts:
                self._fault(f"{path}.{name}", "is missing", None, "say how much the type has")
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
        read = (reader.offering(f"{path}[{at}]", each) for at, each in enumerate(value))
        return tuple(each for each in read if each is not None)

    def _fault(self, path: str, problem: str, value: object, remedy: str) -> None:
        self.faults.append(Fault(path, problem, value, remedy))
