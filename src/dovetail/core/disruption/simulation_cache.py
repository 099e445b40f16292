"""Simulations kept from one pass to the next.

A sweep follows the cluster as long as some nodes have other pods, or leave, and nothing else has changed; it keeps the
answers that this does not touch. Anything else, pods that wait for a node included, and one is made anew. While pods
wait that one is for once, and the one before goes on when they have settled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.core.disruption.candidates import CandidateCache
from dovetail.core.provisioning.eligible_pods import usable_pools
from dovetail.core.scheduling.daemon_overhead import read_daemons
from dovetail.core.scheduling.pod_shapes import PodIndex
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot

MOST_CHANGED = 0.05
"""The share of the nodes above which following is no cheaper than a new start."""
ALWAYS_FOLLOWED = 30
"""So many nodes may change in the smallest of clusters."""


@dataclass(frozen=True)
class SimulationInputs:
    """What a simulation is made from: `waiting` pods take room first, nodes in `closed` take nobody."""

    snapshot: Snapshot
    closed: frozenset[str]
    waiting: Sequence[Pod]
    respect_preferences: bool

    @property
    def followable(self) -> bool:
        """Whether no pod is on its way to a node."""
        return not self.waiting and not any(pod.status.nominated_node_name for pod in self.snapshot.unbound_pods)

    def sees_as(self, other: "SimulationInputs") -> bool:
        """Whether both are of one snapshot, in which the same nodes are closed and the same preferences count."""
        return (
            self.snapshot is other.snapshot
            and self.closed == other.closed
            and self.respect_preferences == other.respect_preferences
        )


class SimulationCache:
    """What one pass leaves to the next: sweeps, the pods of each node by shape, and what is read of each node.

    There is one sweep for consolidation and one for everything else; the same one when both see the same nodes. All
    keys are values: names, and the fields that `_comparable` and `_alike` compare. Snapshots and nodes are never edited
    in place, so the same object is taken for the same value without comparing it. A pass over 10,000 nodes of which few
    changed takes a fraction of a new one (docs/concepts/caches.md has the figures).
    """

    def __init__(self) -> None:
        self._kept: dict[bool, tuple[SimulationInputs, RemovalSimulation]] = {}
        self._latest: dict[bool, tuple[SimulationInputs, RemovalSimulation]] = {}
        self._followed = 0
        self._register = PodIndex()
        self.facts = CandidateCache()

    def removal_simulation(self, view: SimulationInputs, *, consolidating: bool) -> RemovalSimulation:
        """A sweep of this view, new or brought up to it."""
        other = self._latest.get(not consolidating)
        if other is not None and other[0].sees_as(view):
            self._kept.pop(consolidating, None)
            self._latest.pop(consolidating, None)
            return other[1]
        removal_simulation = self._followed_to(view, consolidating=consolidating) if view.followable else None
        if removal_simulation is None:
            removal_simulation = _made(view, self._register)
        self._latest[consolidating] = view, removal_simulation
        if view.followable:
            self._kept[consolidating] = view, removal_simulation
        return removal_simulation

    def _followed_to(self, view: SimulationInputs, *, consolidating: bool) -> RemovalSimulation | None:
        if consolidating not in self._kept:
            return None
        before, removal_simulation = self._kept.pop(consolidating)
        if not _comparable(before, view):
            return None
        moves = _moves(before, view)
        if moves is None:
            return None
        self._followed += len(moves.changed) + len(moves.departed)
        nodes = len(view.snapshot.nodes)
        if len(moves.changed) > max(ALWAYS_FOLLOWED, MOST_CHANGED * nodes) or self._followed > max(nodes, 10):
            self._followed = 0  # a new start now and then lets go of what only former pods had
            return None
        done = all(
            removal_simulation.remove_node(removal_simulation.row(node.name)) for node in moves.departed
        ) and all(
            removal_simulation.follow(removal_simulation.row(node.name), node, closed=node.name in view.closed)
            for node in moves.changed
        )
        return removal_simulation if done else None


@dataclass(frozen=True)
class Moves:
    """What became of the nodes between two views."""

    departed: list[ClusterNode]  # as they were
    changed: list[ClusterNode]


def _moves(before: SimulationInputs, after: SimulationInputs) -> Moves | None:
    """Nodes that left, or began to, and those with other pods; None if there is more to it."""
    toggled = before.closed ^ after.closed
    there = {node.name: node for node in before.snapshot.nodes}
    moves = Moves([], [])
    for new in after.snapshot.nodes:
        old = there.pop(new.name, None)
        if (old is new and not (toggled and new.name in toggled)) or (new.leaving and (old is None or old.leaving)):
            continue
        if old is None:
            return None
        if new.leaving:
            moves.departed.append(old)
        elif not _alike(old, new):
            return None
        elif old.pods != new.pods or new.name in toggled:
            moves.changed.append(new)
    moves.departed.extend(old for old in there.values() if not old.leaving)
    return moves if all(old.launched for old in moves.departed) else None


def _made(view: SimulationInputs, register: PodIndex) -> RemovalSimulation:
    return RemovalSimulation(
        view.snapshot,
        usable_pools(view.snapshot),
        respect_preferences=view.respect_preferences,
        waiting=view.waiting,
        closed=view.closed,
        register=register,
    )


def _comparable(before: SimulationInputs, after: SimulationInputs) -> bool:
    """Whether at most the nodes differ."""
    old, new = before.snapshot, after.snapshot
    return (
        before.respect_preferences == after.respect_preferences
        and old.nodepools.keys() == new.nodepools.keys()
        and all(pool.equal_ignoring_counts(new.nodepools[name]) for name, pool in old.nodepools.items())
        and old.catalogs == new.catalogs
        and read_daemons(old) == read_daemons(new)
        and old.storage == new.storage
        and old.namespaces == new.namespaces
        and old.well_known == new.well_known
        and old.unreadable == new.unreadable
    )


def _alike(before: ClusterNode, after: ClusterNode) -> bool:
    """Whether a node differs in nothing but its pods, as far as the scheduler and the limits of its pool see."""
    return (
        before.launched
        and after.launched
        and before.managed == after.managed
        and before.initialized == after.initialized
        and before.leaving == after.leaving
        and before.labels == after.labels
        and before.all_taints == after.all_taints
        and before.allocatable == after.allocatable
        and before.capacity == after.capacity
        and before.record == after.record
        and before.replaces == after.replaces
    )
