"""The catalog table: the instance types and available offerings of a catalog, as arrays sorted by price.

NodePools with equal instance types share one. For each label, a `Column` has the distinct requirements and an id for
each offering or type, so a requirement is evaluated once for each distinct value. A table also keeps the net resources
of each type under each set of daemon pods.

Tables are cached while the instance types are equal. When only prices differ from those of a recent table
(`price_changes`), the offerings are sorted again and the columns are taken from there.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.daemon_overhead import RunningDaemons
from dovetail.core.scheduling.host_ports import HostPort
from dovetail.core.scheduling.resource_vector import ResourceUnits, any_negative
from dovetail.model.catalog import InstanceType
from dovetail.model.labels import is_node_class_label, provider_domain
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Resources, subtract

Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.intp]

PriceChange = tuple[float, float]
"""The price of an offering before and after."""

MAX_CANDIDATES = 16
"""For so many different sets of daemon pods, a catalog keeps its types with their overhead."""


@dataclass(frozen=True, eq=False)
class CandidateType:
    """An instance type that a draft may become, with its daemon overhead and used host ports."""

    type: InstanceType
    overhead: Resources
    ports: tuple[HostPort, ...] = ()


class Column:
    """The requirements of all rows on one label: the distinct ones, and the id of each row's (-1: none)."""

    def __init__(self, distinct: Sequence[Requirement], ids: npt.NDArray[np.int32]) -> None:
        self.distinct = distinct
        self.ids = ids
        self.empty = not (ids >= 0).any()  # no row has a requirement on the label

    @staticmethod
    def read(rows: Iterable[Requirements], key: str) -> "Column":
        """The column of a label over these rows."""
        numbers: dict[Requirement, int] = {}
        ids = [numbers.setdefault(row.get(key), len(numbers)) if key in row else -1 for row in rows]
        return Column(tuple(numbers), np.array(ids, dtype=np.int32))

    def rows(self, chosen: Ids) -> "Column":
        """The column of some of the rows."""
        return Column(self.distinct, self.ids[chosen])

    def admitted(self, wanted: Requirement) -> Mask:
        """The rows that are compatible with `wanted`; a row without a requirement on the label is."""
        return self._where(
            each.intersects(wanted) or (each.tolerates_absence and wanted.tolerates_absence) for each in self.distinct
        )

    def optional(self) -> Mask:
        """The rows that accept the absence of the label."""
        return self._where(each.tolerates_absence for each in self.distinct)

    def _where(self, answers: Iterable[bool]) -> Mask:
        return np.array([*answers, True], dtype=np.bool_)[self.ids]


class CatalogTable:
    """Instance types and their available offerings, sorted by price; shared by all NodePools that may launch them.

    `alike` is a table of types that differ only in prices. `numbers` has the number of each offering in the order of
    the types: it is the same in both.
    """

    def __init__(self, types: tuple[InstanceType, ...], alike: "CatalogTable | None" = None) -> None:
        self.types = types
        entries = [
            (offering.price, each.name, index, offering)
            for index, each in enumerate(types)
            for offering in each.offerings
            if offering.available
        ]
        order = sorted(range(len(entries)), key=lambda number: entries[number][:2])
        entries = [entries[number] for number in order]
        self.numbers: Ids = np.array(order, dtype=np.intp)
        self.offerings = [offering for _, _, _, offering in entries]
        self.type_of = np.array([index for _, _, index, _ in entries], dtype=np.intp)
        self.price = np.array([price for price, _, _, _ in entries], dtype=np.float64)
        self.type_keys = sorted({key for each in types for key in each.requirements})
        self.offering_keys = sorted({key for each in self.offerings for key in each.requirements})
        self.columns: dict[tuple[str, str], Column] = {}
        self.candidates: dict[tuple[int, object], CandidateType] = {}
        self.nets: dict[tuple[tuple[str, ...], CandidateType], list[int]] = {}
        if alike is not None:
            self._take_over(alike)

    def type_column(self, key: str) -> Column:
        """The requirements of the types on a label."""
        if ("type", key) not in self.columns:
            self.columns["type", key] = Column.read((each.requirements for each in self.types), key)
        return self.columns["type", key]

    def offering_column(self, key: str) -> Column:
        """The requirements of the offerings on a label."""
        if ("offering", key) not in self.columns:
            self.columns["offering", key] = Column.read((each.requirements for each in self.offerings), key)
        return self.columns["offering", key]

    def _take_over(self, alike: "CatalogTable") -> None:
        """Take over the columns, in the new order of the offerings, and what is known of types that are the same."""
        places = np.argsort(alike.numbers)[self.numbers]
        for (of, key), column in alike.columns.items():
            self.columns[of, key] = column.rows(places) if of == "offering" else column
        known = alike.candidates.items()
        self.candidates = {key: each for key, each in known if each.type is self.types[key[0]]}
        same = {*self.candidates.values()}
        self.nets = {key: net for key, net in alike.nets.items() if key[1] in same}

    def offered(self, requirements: Requirements, well_known: frozenset[str]) -> Ids:
        """The positions of the offerings that requirements allow, of types that they allow (`fitting_types`)."""
        types = np.ones(len(self.types), dtype=np.bool_)
        offerings = np.ones(len(self.offerings), dtype=np.bool_)
        for key, wanted in requirements.items():
            types &= self.type_column(key).admitted(wanted)
            offerings &= self.offering_column(key).admitted(wanted)
        for key in self.offering_keys:
            if key not in requirements and key not in well_known:
                offerings &= self.offering_column(key).optional()
        for key in required_labels(requirements):
            types &= self._sets(key)
        return np.flatnonzero(offerings & types[self.type_of])

    def _sets(self, key: str) -> Mask:
        """The types that set a label, themselves or by some offering, available or not."""
        return np.array([key in each.requirements or offered(each, key) for each in self.types], dtype=np.bool_)

    def candidate(self, index: int, running: "RunningDaemons") -> "CandidateType":
        """A type with the daemon pods that would run on it; equal ones are one object."""
        found = self.candidates.get((index, running.value))
        if found is None:
            if len(self.candidates) > MAX_CANDIDATES * len(self.types):
                self.candidates.clear()
                self.nets.clear()
            found = CandidateType(self.types[index], running.overhead, running.ports)
            self.candidates[index, running.value] = found
        return found

    def net(self, candidate: "CandidateType", units: ResourceUnits) -> list[int]:
        """Allocatable less daemon overhead; -1 everywhere if that is negative in any resource."""
        known = self.nets.get((units.names, candidate))
        if known is None:
            allocatable, overhead = units.amounts(candidate.type.allocatable), units.amounts(candidate.overhead)
            overdrawn = any_negative(subtract(candidate.type.allocatable, candidate.overhead))
            known = [-1 if overdrawn else a - b for a, b in zip(allocatable, overhead, strict=True)]
            self.nets[units.names, candidate] = known
        return known


_RECENT_CATALOGS: deque[CatalogTable] = deque(maxlen=8)
"""The most recent catalogs. A catalog depends only on its types."""


def catalog_of(types: tuple[InstanceType, ...]) -> CatalogTable:
    """The catalog of these types; a recent one if its types are equal."""
    recent = tuple(reversed(_RECENT_CATALOGS))
    for known in recent:
        if known.types is types or known.types == types:
            return known
    alike = next((known for known in recent if price_changes(known.types, types) is not None), None)
    catalog = CatalogTable(types, alike)
    _RECENT_CATALOGS.append(catalog)
    return catalog


def required_labels(requirements: Requirements) -> set[str]:
    """The labels of a provider that a type or an offering has to set."""
    return {
        key
        for key, wanted in requirements.items()
        if not wanted.tolerates_absence and provider_domain(key) and not is_node_class_label(key)
    }


def offered(instance_type: InstanceType, key: str) -> bool:
    """Whether some offering of a type, available or not, sets a label."""
    return any(key in offering.requirements for offering in instance_type.offerings)


def price_changes(before: tuple[InstanceType, ...], after: tuple[InstanceType, ...]) -> list[PriceChange] | None:
    """The prices in which instance types differ; None if they differ in anything else."""
    if before is after:
        return []
    if len(before) != len(after):
        return None
    changes: list[PriceChange] = []
    for old, new in zip(before, after, strict=True):
        found = _changes_of(old, new)
        if found is None:
            return None
        changes += found
    return changes


def _changes_of(old: InstanceType, new: InstanceType) -> list[PriceChange] | None:
    if old is new or old == new:
        return []
    if len(old.offerings) != len(new.offerings) or replace(old, offerings=()) != replace(new, offerings=()):
        return None
    changes = []
    for one, other in zip(old.offerings, new.offerings, strict=True):
        if one is not other and replace(one, price=other.price) != other:
            return None
        changes += [(one.price, other.price)] * (one.price != other.price)
    return changes
