"""The instance type table of a NodePool: the offerings it can launch, as arrays sorted by price.

`type_of[i]`, `price[i]` and `offerings[i]` describe offering i; `net` has, for each type, its allocatable less daemon
overhead as a resource vector (-1 everywhere if the daemon pods alone do not fit). Since offerings are sorted by price,
the first offering of a type in any subset is its cheapest.

`NodePoolTemplate` is what a table is built from: the requirements of the NodePool with the labels that all its nodes
get, and its candidate types. A type is a candidate if its requirements intersect these and an available offering is
compatible. The DaemonSets that would run on a type determine its overhead and its used host ports.

What does not depend on the NodePool is in `CatalogTable`, which NodePools with equal instance types share. A table
takes its rows from there. Tables are cached while NodePool, instance types, DaemonSets and resource columns are equal.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.catalog_table import (
    CandidateType,
    CatalogTable,
    Column,
    Ids,
    Mask,
    catalog_of,
    offered,
    required_labels,
)
from dovetail.core.scheduling.daemon_overhead import Daemons, RunningDaemons
from dovetail.core.scheduling.resource_vector import ResourceUnits
from dovetail.model.cached import lazy
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.labels import INITIALIZED, NODEPOOL, REGISTERED
from dovetail.model.nodepool import NodePool
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import ZERO, Quantity
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import Taint


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
        self.numbers: Ids = catalog.numbers[offered]
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


def build_table(pool: NodePool, snapshot: Snapshot, daemons: Daemons, units: ResourceUnits) -> InstanceTypeTable:
    """The table of a NodePool; it has no types if none is compatible."""
    for known in tuple(_RECENT_TABLES):
        if known.made_from(pool, snapshot, daemons, units):
            return known.type_table
    catalog = catalog_of(snapshot.catalogs.get(pool.name, ()))
    template, offered = read_template(pool, snapshot, daemons, catalog)
    type_table = InstanceTypeTable(template, units, catalog, offered)
    relaxed = snapshot.relax_min_values
    _RECENT_TABLES.append(_CachedTable(pool, catalog.types, snapshot.well_known, daemons, relaxed, type_table))
    return type_table


LIFECYCLE_LABELS = (REGISTERED, INITIALIZED)
"""Labels that every node gets while it starts: DaemonSets may select them, NodeClaims must not have them."""


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
        and all(key in each.requirements or offered(each, key) for key in required)
        and any(True for _ in each.compatible_offerings(requirements, well_known))
    )
