"""The instance type table of a NodePool: the offerings it can launch, as arrays sorted by price.

`type_of[i]`, `price[i]` and `offerings[i]` describe offering i; `net` has, for each type, its allocatable less daemon
overhead as a resource vector (-1 everywhere if the daemon pods alone do not fit). Since offerings are sorted by price,
the first offering of a type in any subset is its cheapest. For each label, a `Column` has the distinct requirements and
an id for each offering or type, so a requirement is evaluated once for each distinct value.

`NodePoolTemplate` is what a table is built from: the requirements of the NodePool with the labels that all its nodes
get, and its candidate types. A type is a candidate if its requirements intersect these and an available offering is
compatible. The DaemonSets that would run on a type determine its overhead and its used host ports.

Tables are cached while NodePool, instance types, DaemonSets and resource columns are equal.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.daemon_overhead import Daemons
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


class Column:
    """The requirements of all rows on one label: the distinct ones, and the id of each row's (-1: none)."""

    def __init__(self, rows: Iterable[Requirements], key: str) -> None:
        numbers: dict[Requirement, int] = {}
        ids = [numbers.setdefault(row.get(key), len(numbers)) if key in row else -1 for row in rows]
        self.distinct = tuple(numbers)
        self.ids = np.array(ids, dtype=np.int32)

    @property
    def empty(self) -> bool:
        """Whether no row has a requirement on the label."""
        return not self.distinct

    def admitted(self, wanted: Requirement) -> Mask:
        """The rows that are compatible with `wanted`; a row without a requirement on the label is."""
        table = [
            each.intersects(wanted) or (each.tolerates_absence and wanted.tolerates_absence) for each in self.distinct
        ]
        return np.array([*table, True], dtype=np.bool_)[self.ids]


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

    def __init__(self, template: "NodePoolTemplate", units: ResourceUnits) -> None:
        self.template = template
        self.units = units
        self.choices = template.choices
        entries = [
            (offering.price, choice.type.name, index, offering)
            for index, choice in enumerate(self.choices)
            for offering in choice.type.compatible_offerings(template.requirements, template.well_known)
        ]
        entries.sort(key=lambda entry: (entry[0], entry[1]))
        self.offerings: tuple[Offering, ...] = tuple(offering for _, _, _, offering in entries)
        self.type_of: npt.NDArray[np.intp] = np.array([index for _, _, index, _ in entries], dtype=np.intp)
        self.price: npt.NDArray[np.float64] = np.array([price for price, _, _, _ in entries], dtype=np.float64)
        self.net = self._net()
        self._columns: dict[tuple[str, str], Column] = {}
        self._sizes: dict[str, Sizes] = {}

    def _net(self) -> npt.NDArray[np.int64]:
        """Allocatable of each type less daemon overhead; -1 everywhere if that is negative in any resource."""
        rows = []
        for choice in self.choices:
            allocatable = self.units.amounts(choice.type.allocatable)
            overhead = self.units.amounts(choice.overhead)
            overdrawn = any_negative(subtract(choice.type.allocatable, choice.overhead))
            rows.append([-1 if overdrawn else a - b for a, b in zip(allocatable, overhead, strict=True)])
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.units.names))

    def sizes(self, resource: str) -> Sizes:
        """The capacities of the types in a resource."""
        if resource not in self._sizes:
            self._sizes[resource] = Sizes([choice.type.capacity.get(resource, ZERO) for choice in self.choices])
        return self._sizes[resource]

    def offering_column(self, key: str) -> Column:
        """The requirements of the offerings on a label."""
        return self._column("offering", key, (offering.requirements for offering in self.offerings))

    def type_column(self, key: str) -> Column:
        """The requirements of the types on a label."""
        return self._column("type", key, (choice.type.requirements for choice in self.choices))

    def _column(self, level: str, key: str, rows: Iterable[Requirements]) -> Column:
        if (level, key) not in self._columns:
            self._columns[level, key] = Column(rows, key)
        return self._columns[level, key]

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


def build_table(pool: NodePool, snapshot: Snapshot, daemons: Daemons, units: ResourceUnits) -> InstanceTypeTable:
    """The table of a NodePool; it has no types if none is compatible."""
    for known in tuple(_RECENT_TABLES):
        if known.made_from(pool, snapshot, daemons, units):
            return known.type_table
    type_table = InstanceTypeTable(read_template(pool, snapshot, daemons), units)
    types, relaxed = snapshot.catalogs.get(pool.name, ()), snapshot.relax_min_values
    _RECENT_TABLES.append(_CachedTable(pool, types, snapshot.well_known, daemons, relaxed, type_table))
    return type_table


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


def read_template(pool: NodePool, snapshot: Snapshot, daemons: Daemons) -> NodePoolTemplate:
    """The template of a NodePool; `choices` is empty when no type is compatible."""
    ref = pool.node_class_ref
    fixed = {NODEPOOL: pool.name, ref.label: ref.name, **dict.fromkeys(LIFECYCLE_LABELS, "true")}
    relaxed = snapshot.relax_min_values
    own = pool.requirements.without_min_values() if relaxed else pool.requirements
    requirements = own.add(Requirements.from_labels(fixed))
    types = fitting_types(snapshot.catalogs.get(pool.name, ()), requirements, snapshot.well_known)
    taints = pool.spec.template.spec.taints
    choices = []
    for each in types:
        narrowed = requirements.add(each.requirements)
        running = daemons.running_on(narrowed, taints, snapshot.well_known | frozenset(narrowed))
        choices.append(CandidateType(each, running.overhead, running.ports))
    return NodePoolTemplate(pool, requirements, tuple(choices), snapshot.well_known, relaxed)


def fitting_types(
    types: Iterable[InstanceType], requirements: Requirements, well_known: frozenset[str]
) -> Iterable[InstanceType]:
    """The types that meet the requirements and have an available offering that does.

    A required label of a provider must be one that the type or an offering sets: no other instance ever gets it.
    """
    required = {
        key
        for key, wanted in requirements.items()
        if not wanted.tolerates_absence and provider_domain(key) and not is_node_class_label(key)
    }
    return (
        each
        for each in types
        if each.requirements.intersects(requirements) is None
        and all(key in each.requirements or _offered(each, key) for key in required)
        and any(True for _ in each.compatible_offerings(requirements, well_known))
    )


def _offered(instance_type: InstanceType, key: str) -> bool:
    return any(key in offering.requirements for offering in instance_type.offerings)
