"""Keeps removal simulations from one pass to the next.

A `RemovalSimulation` is expensive to build for a large cluster and cheap to update when pods moved, nodes left or
prices changed. The cache updates it while only that has changed since the last pass, and labels of nodes that nothing
reads; otherwise it builds a new one. Pods that wait for a node take room in the simulation, so while there are any, a
simulation is built for that pass alone; the kept one is updated again afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.core.disruption.candidates import CandidateCache
from dovetail.core.provisioning.eligible_pods import usable_pools
from dovetail.core.scheduling.daemon_overhead import read_daemons
from dovetail.core.scheduling.pod_shapes import PodIndex
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.core.scheduling.repricing import catalog_changes
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot

MAX_CHANGED_SHARE = 0.05
"""The share of changed nodes above which an update is no cheaper than a new simulation."""
MIN_CHANGED_LIMIT = 30
"""The limit of changed nodes is at least this, however small the cluster is."""


@dataclass(frozen=True)
class SimulationInputs:
    """What a simulation is built from: `waiting` pods take room first, nodes in `closed` accept no pods."""

    snapshot: Snapshot
    closed: frozenset[str]
    waiting: Sequence[Pod]
    respect_preferences: bool

    @property
    def settled(self) -> bool:
        """Whether no pod waits for a node or is nominated to one."""
        return not self.waiting and not any(pod.status.nominated_node_name for pod in self.snapshot.unbound_pods)

    def equivalent_to(self, other: "SimulationInputs") -> bool:
        """Whether both are about the same snapshot, closed nodes and preference policy."""
        return (
            self.snapshot is other.snapshot
            and self.closed == other.closed
            and self.respect_preferences == other.respect_preferences
        )


class SimulationCache:
    """What one pass leaves to the next: removal simulations, the pods of each node by shape, the facts of each node.

    There is one simulation for consolidation and one for everything else; both share one if their inputs are the same.
    All keys are values: names, prices, and the fields that `_differ_only_in_nodes_and_prices` and `_node_changes`
    compare. Snapshots and nodes are immutable, so the same object is taken for the same value without comparing it. An
    updated pass over 10,000 nodes takes a fraction of a new one (docs/concepts/caches.md has the figures).
    """

    def __init__(self) -> None:
        self._kept: dict[bool, tuple[SimulationInputs, RemovalSimulation]] = {}  # may be updated; by `consolidating`
        self._latest: dict[bool, tuple[SimulationInputs, RemovalSimulation]] = {}
        self._updates = 0  # node changes since a simulation was last built
        self._pod_index = PodIndex()
        self.candidate_cache = CandidateCache()

    def removal_simulation(self, inputs: SimulationInputs, *, consolidating: bool) -> RemovalSimulation:
        """A simulation of these inputs, new or updated."""
        other = self._latest.get(not consolidating)
        if other is not None and other[0].equivalent_to(inputs):
            self._kept.pop(consolidating, None)
            self._latest.pop(consolidating, None)
            return other[1]
        removal_simulation = self._update(inputs, consolidating=consolidating) if inputs.settled else None
        if removal_simulation is None:
            removal_simulation = _build(inputs, self._pod_index)
        self._latest[consolidating] = inputs, removal_simulation
        if inputs.settled:
            self._kept[consolidating] = inputs, removal_simulation
        return removal_simulation

    def _update(self, inputs: SimulationInputs, *, consolidating: bool) -> RemovalSimulation | None:
        """The kept simulation, updated to these inputs; None if a new one has to be built."""
        if consolidating not in self._kept:
            return None
        before, removal_simulation = self._kept.pop(consolidating)
        if not _differ_only_in_nodes_and_prices(before, inputs):
            return None
        prices = catalog_changes(before.snapshot.catalogs, inputs.snapshot.catalogs)
        changes = _node_changes(before, inputs)
        if changes is None or prices is None:
            return None
        self._updates += len(changes.changed) + len(changes.removed)
        nodes = len(inputs.snapshot.nodes)
        limit = max(MIN_CHANGED_LIMIT, MAX_CHANGED_SHARE * nodes)
        if len(changes.changed) > limit or self._updates > max(nodes, 10):
            self._updates = 0  # a new simulation from time to time drops the shapes of pods that are gone
            return None
        done = all(
            removal_simulation.remove_node(removal_simulation.row(node.name)) for node in changes.removed
        ) and all(
            removal_simulation.follow(removal_simulation.row(node.name), node, closed=node.name in inputs.closed)
            for node in changes.changed
        )
        if done and prices:
            removal_simulation.reprice(inputs.snapshot, prices)
        return removal_simulation if done else None


@dataclass(frozen=True)
class NodeChanges:
    """The nodes that differ between two inputs."""

    removed: list[ClusterNode]  # as they were before; gone, or being removed
    changed: list[ClusterNode]  # as they are now


def _node_changes(before: SimulationInputs, after: SimulationInputs) -> NodeChanges | None:
    """Nodes that were removed, and nodes whose pods or labels changed; None if the simulation cannot be updated."""
    toggled = before.closed ^ after.closed
    old_nodes = {node.name: node for node in before.snapshot.nodes}
    changes = NodeChanges([], [])
    for new in after.snapshot.nodes:
        old = old_nodes.pop(new.name, None)
        if (old is new and not (toggled and new.name in toggled)) or (new.leaving and (old is None or old.leaving)):
            continue
        if old is None:
            return None
        if new.leaving:
            changes.removed.append(old)
        elif not _differ_only_in_pods_and_labels(old, new):
            return None
        elif old.pods != new.pods or old.labels != new.labels or new.name in toggled:
            changes.changed.append(new)
    changes.removed.extend(old for old in old_nodes.values() if not old.leaving)
    return changes if all(old.launched for old in changes.removed) else None


def _build(inputs: SimulationInputs, pod_index: PodIndex) -> RemovalSimulation:
    return RemovalSimulation(
        inputs.snapshot,
        usable_pools(inputs.snapshot),
        respect_preferences=inputs.respect_preferences,
        waiting=inputs.waiting,
        closed=inputs.closed,
        register=pod_index,
    )


def _differ_only_in_nodes_and_prices(before: SimulationInputs, after: SimulationInputs) -> bool:
    old, new = before.snapshot, after.snapshot
    return (
        before.respect_preferences == after.respect_preferences
        and old.nodepools.keys() == new.nodepools.keys()
        and all(pool.equal_ignoring_counts(new.nodepools[name]) for name, pool in old.nodepools.items())
        and read_daemons(old) == read_daemons(new)
        and old.storage == new.storage
        and old.namespaces == new.namespaces
        and old.well_known == new.well_known
        and old.unreadable == new.unreadable
    )


def _differ_only_in_pods_and_labels(before: ClusterNode, after: ClusterNode) -> bool:
    """Whether nothing else changed, of what scheduling and the limits of its NodePool depend on."""
    return (
        before.launched
        and after.launched
        and before.managed == after.managed
        and before.initialized == after.initialized
        and before.leaving == after.leaving
        and before.all_taints == after.all_taints
        and before.allocatable == after.allocatable
        and before.capacity == after.capacity
        and before.record == after.record
        and before.replaces == after.replaces
    )
