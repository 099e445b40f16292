"""The instance type table of a NodePool: the offerings it can launch, as arrays sorted by price.

`type_of[i]`, `price[i]` and `offerings[i]` describe offering i; `net` has, for each type, its allocatable less daemon
overhead as a resource vector (-1 everywhere if the daemon pods alone do not fit). Since offerings are sorted by price,
the first offering of a type in any subset is its cheapest. For each label, a `Column` has the distinct requirements and
an id for each offering or type, so a requirement is evaluated once for each distinct value.

`NodePoolTemplate` is what a table is built from: the requirements of the NodePool with the labels that all its nodes
get, and its candidate types. A type is a candidate if its requirements intersect these and an available offering is
compatible. The DaemonSets that would run on a type determine its overhead and its used host ports.

What does not depend on the NodePool is in `CatalogTable`, which NodePools with equal instance types share: the sorted
offerings, the columns, and the net resources for each set of daemon pods. A table takes its rows from there.

Tables are cached while NodePool, instance types, DaemonSets and resource columns are equal, catalogs while the instance
types are.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.daemon_overhead import Daemons, RunningDaemons
from dovetail.core.scheduling.host_ports import HostPort
from dovetail.core.scheduling.resource_vector import ResourceUnits, any_negative
from dovetail.model.cached import lazy
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import INITIALIZED, NODEPOOL, REGISTERED, is_node_class_label, provider_domain
from dovetail.model.nodepool import NodePool
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import ZERO, Quantity, Resources, subtract
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import Taint

Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.intp]


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
    """Instance types and their available offerings, sorted by price; shared by all NodePools that may launch them."""

    def __init__(self, types: tuple[InstanceType, ...]) -> None:
        self.types = types
        entries = [
            (offering.price, each.name, index, offering)
            for index, each in enumerate(types)
            for offering in each.offerings
            if offering.available
        ]
        entries.sort(key=lambda entry: (entry[0], entry[1]))
        self.offerings = [offering for _, _, _, offering in entries]
        self.type_of = np.array([index for _, _, index, _ in entries], dtype=np.intp)
        self.price = np.array([price for price, _, _, _ in entries], dtype=np.float64)
        self.type_keys = sorted({key for each in types for key in each.requirements})
        self.offering_keys = sorted({key for each in self.offerings for key in each.requirements})
        self._columns: dict[tuple[str, str], Column] = {}
        self._candidates: dict[tuple[int, object], CandidateType] = {}
        self._nets: dict[tuple[tuple[str, ...], CandidateType], list[int]] = {}

    def type_column(self, key: str) -> Column:
        """The requirements of the types on a label."""
        if ("type", key) not in self._columns:
            self._columns["type", key] = Column.read((each.requirements for each in self.types), key)
        return self._columns["type", key]

    def offering_column(self, key: str) -> Column:
        """The requirements of the offerings on a label."""
        if ("offering", key) not in self._columns:
            self._columns["offering", key] = Column.read((each.requirements for each in self.offerings), key)
        return self._columns["offering", key]

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
        return np.array([key in each.requirements or _offered(each, key) for each in self.types], dtype=np.bool_)

    def candidate(self, index: int, running: "RunningDaemons") -> "CandidateType":
        """A type with the daemon pods that would run on it; equal ones are one object."""
        found = self._candidates.get((index, running.value))
        if found is None:
            if len(self._candidates) > MAX_CANDIDATES * len(self.types):
                self._candidates.clear()
                self._nets.clear()
            found = CandidateType(self.types[index], running.overhead, running.ports)
            self._candidates[index, running.value] = found
        return found

    def net(self, candidate: "CandidateType", units: ResourceUnits) -> list[int]:
        """Allocatable less daemon overhead; -1 everywhere if that is negative in any resource."""
        known = self._nets.get((units.names, candidate))
        if known is None:
            allocatable, overhead = units.amounts(candidate.type.allocatable), units.amounts(candidate.overhead)
            overdrawn = any_negative(subtract(candidate.type.allocatable, candidate.overhead))
            known = [-1 if overdrawn else a - b for a, b in zip(allocatable, overhead, strict=True)]
            self._nets[units.names, candidate] = known
        return known


class Sizes:
    """The capacities of types in one resource, as ranks, because exact amounts may not fit into 64 bits."""

    def __init__(self, amounts: Sequence[Quantity]) -> None:
        self._steps = sorted({*amounts})
        rank = {amount: index for index, amount in enumerate(self._steps)}
        self._ranks = np.array([rank[amount] for amount in amounts], dtype=np.intp)

    def within(self, most: Quantity) -> Mask:
        """The types that have at most that capacity."""
        within: Mask = self._ranks < bisect_right(self._steps, most)
        return within

    def largest(self, types: npt.NDArray[np.intp]) -> Quantity:
        """The largest capacity of some types."""
        return self._steps[int(self._ranks[types].max())] if len(types) else ZERO


class InstanceTypeTable:
    """The types and offerings of one template."""

    def __init__(self, template: "NodePoolTemplate", units: ResourceUnits, catalog: CatalogTable, offered: Ids) -> None:
        self.template = template
        self.units = units
        self.choices = template.choices
        self._catalog = catalog
        self._offered = offered  # positions in the catalog
        self._types = np.unique(catalog.type_of[offered])  # of `choices`
        self.offerings: tuple[Offering, ...] = tuple([catalog.offerings[each] for each in offered.tolist()])
        self.type_of: Ids = np.searchsorted(self._types, catalog.type_of[offered])
        self.price: npt.NDArray[np.float64] = catalog.price[offered]
        net = [catalog.net(choice, units) for choice in self.choices]
        self.net = np.array(net, dtype=np.int64).reshape(len(net), len(units.names))
        self._columns: dict[tuple[str, str], Column] = {}
        self._sizes: dict[str, Sizes] = {}

    @lazy
    def offer(self) -> object:
        """What it offers to pods that do not name their NodePool, as a value that can be a key."""
        own = self.template.requirements
        requirements = Requirements({key: each for key, each in own.items() if key != NODEPOOL})
        return self.template.taints, requirements, self.template.well_known, self.choices, self._offered.tobytes()

    def sizes(self, resource: str) -> Sizes:
        """The capacities of the types in a resource."""
        if resource not in self._sizes:
            self._sizes[resource] = Sizes([choice.type.capacity.get(resource, ZERO) for choice in self.choices])
        return self._sizes[resource]

    def offering_column(self, key: str) -> Column:
        """The requirements of the offerings on a label."""
        if ("offering", key) not in self._columns:
            self._columns["offering", key] = self._catalog.offering_column(key).rows(self._offered)
        return self._columns["offering", key]

    def type_column(self, key: str) -> Column:
        """The requirements of the types on a label."""
        if ("type", key) not in self._columns:
            self._columns["type", key] = self._catalog.type_column(key).rows(self._types)
        return self._columns["type", key]

    def left_by(self, before: Mask, requirements: Requirements, keys: Iterable[str]) -> Mask:
        """The offerings of `before` that are compatible with the requirements on `keys`."""
        left = before
        for key in keys:
            wanted = requirements.get(key)
            column = self.offering_column(key)
            if not column.empty:
                left = left & column.admitted(wanted)
            column = self.type_column(key)
            if not column.empty:
                left = left & column.admitted(wanted)[self.type_of]
        return left


@dataclass(frozen=True, slots=True)
class _CachedTable:
    """A table and its inputs."""

    pool: NodePool
    types: tuple[InstanceType, ...]
    well_known: frozenset[str]
    daemons: Daemons
    relax_min_values: bool
    type_table: InstanceTypeTable

    def made_from(self, pool: NodePool, snapshot: Snapshot, daemons: Daemons, units: ResourceUnits) -> bool:
        """Whether these inputs would give an equal table."""
        return (
            self.types == snapshot.catalogs.get(pool.name, ())
            and self.type_table.units.names == units.names
            and self.pool.name == pool.name
            and self.pool.equal_ignoring_counts(pool)
            and self.well_known == snapshot.well_known
            and self.daemons == daemons
            and self.relax_min_values == snapshot.relax_min_values
        )


_RECENT_TABLES: deque[_CachedTable] = deque(maxlen=64)
"""The most recent tables. A table depends only on the inputs stored with it, so equal inputs can share one."""


_RECENT_CATALOGS: deque[CatalogTable] = deque(maxlen=8)
"""The most recent catalogs. A catalog depends only on its types."""


def build_table(pool: NodePool, snapshot: Snapshot, daemons: Daemons, units: ResourceUnits) -> InstanceTypeTable:
    """The table of a NodePool; it has no types if none is compatible."""
    for known in tuple(_RECENT_TABLES):
        if known.made_from(pool, snapshot, daemons, units):
            return known.type_table
    catalog = _catalog_of(snapshot.catalogs.get(pool.name, ()))
    template, offered = read_template(pool, snapshot, daemons, catalog)
    type_table = InstanceTypeTable(template, units, catalog, offered)
    relaxed = snapshot.relax_min_values
    _RECENT_TABLES.append(_CachedTable(pool, catalog.types, snapshot.well_known, daemons, relaxed, type_table))
    return type_table


def _catalog_of(types: tuple[InstanceType, ...]) -> CatalogTable:
    """The catalog of these types; a recent one if its types are equal."""
    for known in tuple(_RECENT_CATALOGS):
        if known.types is types or known.types == types:
            return known
    catalog = CatalogTable(types)
    _RECENT_CATALOGS.append(catalog)
    return catalog


MAX_CANDIDATES = 16
"""For so many different sets of daemon pods, a catalog keeps its types with their overhead."""

LIFECYCLE_LABELS = (REGISTERED, INITIALIZED)
"""Labels that every node gets while it starts: DaemonSets may select them, NodeClaims must not have them."""


@dataclass(frozen=True, eq=False)
class CandidateType:
    """An instance type that a draft may become, with its daemon overhead and used host ports."""

    type: InstanceType
    overhead: Resources
    ports: tuple[HostPort, ...] = ()


@dataclass(frozen=True, eq=False)
class NodePoolTemplate:
    """The requirements of new nodes of a NodePool, and the instance types they may have.

    With `relaxed`, the requirements are without `minValues`: a NodeClaim gets as many as its types have.
    """

    pool: NodePool
    requirements: Requirements
    choices: tuple[CandidateType, ...]
    well_known: frozenset[str]
    relaxed: bool = False

    @lazy
    def defined(self) -> frozenset[str]:
        """The labels its nodes will have: well-known ones, those its requirements demand, and those of its types."""
        required = (key for key, requirement in self.requirements.items() if not requirement.tolerates_absence)
        of_types = (key for choice in self.choices for key in choice.type.requirements)
        return self.well_known | frozenset(required) | frozenset(of_types)

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The taints of its nodes, without startup taints."""
        return self.pool.spec.template.spec.taints


def read_template(
    pool: NodePool, snapshot: Snapshot, daemons: Daemons, catalog: CatalogTable
) -> tuple[NodePoolTemplate, Ids]:
    """The template of a NodePool, and its offerings by position; `choices` is empty when no type is compatible."""
    ref = pool.node_class_ref
    fixed = {NODEPOOL: pool.name, ref.label: ref.name, **dict.fromkeys(LIFECYCLE_LABELS, "true")}
    relaxed = snapshot.relax_min_values
    own = pool.requirements.without_min_values() if relaxed else pool.requirements
    requirements = own.add(Requirements.from_labels(fixed))
    offered = catalog.offered(requirements, snapshot.well_known)
    running_on = _RunningByLabels(daemons, pool.spec.template.spec.taints, requirements, snapshot.well_known)
    choices = tuple(
        [
            catalog.candidate(index, running_on.type(catalog.types[index]))
            for index in np.unique(catalog.type_of[offered]).tolist()
        ]
    )
    return NodePoolTemplate(pool, requirements, choices, snapshot.well_known, relaxed), offered


class _RunningByLabels:
    """The daemon pods of the types of a NodePool: the same for types that are equal in the labels that daemons read."""

    def __init__(
        self, daemons: Daemons, taints: tuple[Taint, ...], requirements: Requirements, well_known: frozenset[str]
    ) -> None:
        self._daemons = daemons
        self._taints = taints
        self._keys = daemons.labels_read
        self._requirements = Requirements({key: requirements.get(key) for key in self._keys if key in requirements})
        self._well_known = well_known
        self._known: dict[tuple[Requirement | None, ...], RunningDaemons] = {}

    def type(self, instance_type: InstanceType) -> RunningDaemons:
        """The daemon pods of a new node of this type."""
        of_type = instance_type.requirements
        labels = tuple([of_type.get(key) if key in of_type else None for key in self._keys])
        running = self._known.get(labels)
        if running is None:
            narrowed = self._requirements.add(Requirements.of(each for each in labels if each is not None))
            defined = self._well_known | frozenset(narrowed)
            running = self._known[labels] = self._daemons.running_on(narrowed, self._taints, defined)
        return running


def fitting_types(
    types: Iterable[InstanceType], requirements: Requirements, well_known: frozenset[str]
) -> Iterable[InstanceType]:
    """The types that meet the requirements and have an available offering that does.

    A required label of a provider must be one that the type or an offering sets: no other instance ever gets it.
    """
    required = required_labels(requirements)
    return (
        each
        for each in types
        if each.requirements.intersects(requirements) is None
        and all(key in each.requirements or _offered(each, key) for key in required)
        and any(True for _ in each.compatible_offerings(requirements, well_known))
    )


def required_labels(requirements: Requirements) -> set[str]:
    """The labels of a provider that a type or an offering has to set."""
    return {
        key
        for key, wanted in requirements.items()
        if not wanted.tolerates_absence and provider_domain(key) and not is_node_class_label(key)
    }


def _offered(instance_type: InstanceType, key: str) -> bool:
    return any(key in offering.requirements for offering in instance_type.offerings)
