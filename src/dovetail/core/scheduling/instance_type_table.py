"""The instance type table of a NodePool: its offerings as arrays, sorted by price.

`type_of[i]`, `price[i]` and `offerings[i]` describe offering i; `net` has, for each type, its allocatable less daemon
overhead as a resource vector (-1 everywhere if the daemons alone do not fit). Since offerings are sorted by price,
the first offering of a type in any subset is its cheapest.

For each label, a `Column` has the distinct requirements and an id for each offering or type, so a requirement is
evaluated once for each distinct value. Tables are kept while NodePool, instance types, DaemonSets and columns are
equal.

NodePool template: what a new node of a NodePool would be, and the instance types it could have.

The requirements of the NodePool are joined with the labels that every node of it gets. A type fits if its
requirements intersect these and it has an available offering that is compatible. For each type, the DaemonSets that
would run there determine its overhead and its used host ports.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.daemon_overhead import Daemons
from dovetail.core.scheduling.host_ports import HostPort
from dovetail.core.scheduling.resource_vector import ResourceUnits, exceeds
from dovetail.model.cached import lazy
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import INITIALIZED, NODEPOOL, REGISTERED
from dovetail.model.nodepool import NodePool
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import ZERO, Quantity, Resources, subtract
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import Taint

Mask = npt.NDArray[np.bool_]


class Column:
    """What each row says of one label: distinct requirements, and the number of each row's (-1: nothing)."""

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
        """The rows that `wanted` leaves; a row that says nothing is left."""
        table = [
            each.intersects(wanted) or (each.tolerates_absence and wanted.tolerates_absence) for each in self.distinct
        ]
        return np.array([*table, True], dtype=np.bool_)[self.ids]


class Sizes:
    """The capacities of types in one resource, as ranks: exact amounts do not fit into an array, their order does."""

    def __init__(self, amounts: Sequence[Quantity]) -> None:
        self._steps = sorted({*amounts})
        rank = {amount: index for index, amount in enumerate(self._steps)}
        self._ranks = np.array([rank[amount] for amount in amounts], dtype=np.intp)

    def within(self, most: Quantity) -> Mask:
        """The types that have no more than that."""
        within: Mask = self._ranks < bisect_right(self._steps, most)
        return within

    def largest(self, types: npt.NDArray[np.intp]) -> Quantity:
        """The largest of some types."""
        return self._steps[int(self._ranks[types].max())] if len(types) else ZERO


class InstanceTypeTable:
    """The types and offerings of one template."""

    def __init__(self, template: "NodePoolTemplate", units: ResourceUnits) -> None:
        self.template = template
        self.units = units
        self.choices = template.choices
        sold = [
            (offering.price, choice.type.name, index, offering)
            for index, choice in enumerate(self.choices)
            for offering in choice.type.compatible_offerings(template.requirements, template.well_known)
        ]
        sold.sort(key=lambda entry: (entry[0], entry[1]))
        self.offerings: tuple[Offering, ...] = tuple(offering for _, _, _, offering in sold)
        self.type_of: npt.NDArray[np.intp] = np.array([index for _, _, index, _ in sold], dtype=np.intp)
        self.price: npt.NDArray[np.float64] = np.array([price for price, _, _, _ in sold], dtype=np.float64)
        self.net = self._net()
        self._columns: dict[tuple[str, str], Column] = {}
        self._sizes: dict[str, Sizes] = {}

    def _net(self) -> npt.NDArray[np.int64]:
        """What each type has for pods after its daemons; a type its daemons overdraw has nothing."""
        rows = []
        for choice in self.choices:
            have = self.units.amounts(choice.type.allocatable)
            taken = self.units.amounts(choice.overhead)
            broken = exceeds(subtract(choice.type.allocatable, choice.overhead))
            rows.append([-1 if broken else a - b for a, b in zip(have, taken, strict=True)])
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.units.names))

    def sizes(self, resource: str) -> Sizes:
        """What the types have of a resource."""
        if resource not in self._sizes:
            self._sizes[resource] = Sizes([choice.type.capacity.get(resource, ZERO) for choice in self.choices])
        return self._sizes[resource]

    def offering_column(self, key: str) -> Column:
        """What offerings say of a label."""
        return self._column("offering", key, (offering.requirements for offering in self.offerings))

    def type_column(self, key: str) -> Column:
        """What types say of a label."""
        return self._column("type", key, (choice.type.requirements for choice in self.choices))

    def _column(self, level: str, key: str, rows: Iterable[Requirements]) -> Column:
        if (level, key) not in self._columns:
            self._columns[level, key] = Column(rows, key)
        return self._columns[level, key]

    def left_by(self, before: Mask, requirements: Requirements, keys: Iterable[str]) -> Mask:
        """The offerings of `before` that the requirements on `keys` leave."""
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
class _Opened:
    """A table, and the inputs it was made from."""

    pool: NodePool
    types: tuple[InstanceType, ...]
    well_known: frozenset[str]
    daemons: Daemons
    type_table: InstanceTypeTable

    def suits(self, pool: NodePool, snapshot: Snapshot, daemons: Daemons, units: ResourceUnits) -> bool:
        """Whether it would be made the same again."""
        return (
            self.types == snapshot.catalogs.get(pool.name, ())
            and self.type_table.units.names == units.names
            and self.pool.name == pool.name
            and self.pool.equal_ignoring_counts(pool)
            and self.well_known == snapshot.well_known
            and self.daemons == daemons
        )


_OPENED: deque[_Opened] = deque(maxlen=64)
"""The most recent tables. A table depends on nothing but the inputs beside it, so equal inputs may share one."""


def build_table(pool: NodePool, snapshot: Snapshot, daemons: Daemons, units: ResourceUnits) -> InstanceTypeTable:
    """The table of a NodePool; without types if none fits."""
    for known in tuple(_OPENED):
        if known.suits(pool, snapshot, daemons, units):
            return known.type_table
    type_table = InstanceTypeTable(read_template(pool, snapshot, daemons), units)
    _OPENED.append(_Opened(pool, snapshot.catalogs.get(pool.name, ()), snapshot.well_known, daemons, type_table))
    return type_table


LIFECYCLE_LABELS = (REGISTERED, INITIALIZED)
"""Labels every node gets while it starts: daemons may select on them, claims must not carry them."""


@dataclass(frozen=True, eq=False)
class CandidateType:
    """An instance type a draft may become, and what daemons would take of it."""

    type: InstanceType
    overhead: Resources
    ports: tuple[HostPort, ...] = ()


@dataclass(frozen=True, eq=False)
class NodePoolTemplate:
    """What a new node of a NodePool would be."""

    pool: NodePool
    requirements: Requirements
    choices: tuple[CandidateType, ...]
    well_known: frozenset[str]

    @lazy
    def defined(self) -> frozenset[str]:
        """The labels its nodes will have: well-known ones, those its requirements ask for, those its types have."""
        asked = (key for key, requirement in self.requirements.items() if not requirement.tolerates_absence)
        said = (key for choice in self.choices for key in choice.type.requirements)
        return self.well_known | frozenset(asked) | frozenset(said)

    @property
    def taints(self) -> tuple[Taint, ...]:
        """What its nodes keep pods away with, from the start."""
        return self.pool.spec.template.spec.taints


def read_template(pool: NodePool, snapshot: Snapshot, daemons: Daemons) -> NodePoolTemplate:
    """The template of a pool with the types that fit it; `choices` is empty when none does."""
    ref = pool.node_class_ref
    fixed = {NODEPOOL: pool.name, ref.label: ref.name, **dict.fromkeys(LIFECYCLE_LABELS, "true")}
    requirements = pool.requirements.add(Requirements.from_labels(fixed))
    types = fitting_types(snapshot.catalogs.get(pool.name, ()), requirements, snapshot.well_known)
    taints = pool.spec.template.spec.taints
    choices = []
    for each in types:
        reached = requirements.add(each.requirements)
        running = daemons.running_on(reached, taints, snapshot.well_known | frozenset(reached))
        choices.append(CandidateType(each, running.overhead, running.ports))
    return NodePoolTemplate(pool, requirements, tuple(choices), snapshot.well_known)


def fitting_types(
    types: Iterable[InstanceType], requirements: Requirements, well_known: frozenset[str]
) -> Iterable[InstanceType]:
    """The types that meet the requirements and have an available offering that does."""
    return (
        each
        for each in types
        if each.requirements.intersects(requirements) is None
        and any(True for _ in each.compatible_offerings(requirements, well_known))
    )
