"""Drain simulation: finds drains that would never end.

While nodes drain they still exist, and count for topology with every pod left on them. So an evicted pod may have to
wait until its node is gone, while a PodDisruptionBudget keeps the rest of the node until that pod runs: a deadlock. The
caller has already checked that the pods can be placed once the nodes are gone.

The drain is simulated on the solver state, with evictions as fast as PodDisruptionBudgets allow, and undone. Each
turn evicts pods, removes drained nodes and places evicted pods; a turn without progress is a deadlock. A replacement
counts as an empty node.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.removal import Queue
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.core.scheduling.topology_counts import SpreadCounts
from dovetail.model.kube_object import Key
from dovetail.model.pod import Pod
from dovetail.model.taints import DISRUPTED_TAINT, untolerated

Entry = tuple[Pod, PodShape]


@dataclass(frozen=True, slots=True)
class EvictionPermits:
    """How many evictions each PodDisruptionBudget allows now, and the PDBs of each pod. PDBs are numbered."""

    allowed: Mapping[int, int]
    budgets: Mapping[Key, tuple[int, ...]]


class DrainSimulation:
    """One drain of some rows. `spreads` are the spread rules of their pods."""

    def __init__(
        self,
        placer: PodPlacer,
        pods_to_reschedule: Mapping[int, Queue],
        spreads: Iterable[SpreadCounts],
        permits: EvictionPermits,
    ) -> None:
        self._placer = placer
        self._solver_state: SolverState = placer.solver_state
        self._spreads = tuple(spreads)
        self._taint_aware = frozenset(
            topology_counts for topology_counts in self._spreads if _ignores_draining_nodes(topology_counts)
        )
        self._budgets = permits.budgets
        self._allowed = dict(permits.allowed)
        self._pods_to_reschedule = pods_to_reschedule
        self._unevicted = {row: list(queue) for row, queue in pods_to_reschedule.items()}
        self._evicted_pods: list[Entry] = []

    def blocker(self) -> Pod | None:
        """The pod that the drain would wait for forever, or None if the drain ends."""
        mark = self._solver_state.journal.mark()
        for row in self._unevicted:
            self._taint(row)
        found = self._run()
        self._solver_state.undo(mark)
        return found

    def _taint(self, row: int) -> None:
        """Taint a node for its drain: it takes no pods, and rules that honor taints no longer count it."""
        self._solver_state.close(row)
        for pod, shape in self._solver_state.problem.bound_pods[row] if self._taint_aware else ():
            if not pod.deleting:
                self._solver_state.uncount(shape, row, self._taint_aware)
        for topology_counts in self._taint_aware:
            topology_counts.drop_row(row, self._solver_state.journal)

    def _run(self) -> Pod | None:
        while self._unevicted:
            progress = [self._evict(), self._remove_drained(), self._place_evicted()]
            if not any(progress):
                waiting = (*self._evicted_pods, *(entry for queue in self._unevicted.values() for entry in queue))
                return next((pod for pod, _ in waiting if self._budgets.get(pod.key)), None)
        return None

    def _evict(self) -> bool:
        """Evict all pods that PDBs allow, one of each node in turn; whether any was evicted."""
        before = len(self._evicted_pods)
        rows, queues = list(self._unevicted), list(self._unevicted.values())
        self._unevicted = {row: [] for row in rows}
        for turn in zip_longest(*queues):
            for row, entry in zip(rows, turn, strict=True):
                if entry is not None and not self._evict_pod(entry, row):
                    self._unevicted[row].append(entry)
        return len(self._evicted_pods) > before

    def _evict_pod(self, entry: Entry, row: int) -> bool:
        pod, shape = entry
        budgets = self._budgets.get(pod.key, ())
        if any(self._allowed[budget] <= 0 for budget in budgets):
            return False
        for budget in budgets:
            self._allowed[budget] -= 1
        if not pod.deleting:
            self._uncount(shape, row)
        self._evicted_pods.append(entry)
        return True

    def _remove_drained(self) -> bool:
        """Remove drained nodes with their daemon and static pods; whether there was any."""
        drained = [row for row, queue in self._unevicted.items() if not queue]
        for row in drained:
            del self._unevicted[row]
            evicted = {id(pod) for pod, _ in self._pods_to_reschedule[row]}
            for pod, shape in self._solver_state.problem.bound_pods[row]:
                if not pod.deleting and id(pod) not in evicted:
                    self._uncount(shape, row)
            for topology_counts in self._spreads:
                if topology_counts not in self._taint_aware:
                    topology_counts.drop_row(row, self._solver_state.journal)
        return bool(drained)

    def _uncount(self, shape: PodShape, row: int) -> None:
        self._solver_state.uncount(
            shape,
            row,
            [t for t in self._solver_state.topology.counted_by[shape.constraints] if t not in self._taint_aware],
        )

    def _place(self, pod: Pod, shape: PodShape) -> bool:
        """Place a pod on an existing node, or else on a replacement; whether that was possible."""
        return self._placer.place_on_existing_node(shape) is not None or self._placer.place(pod, shape) is not None

    def _place_evicted(self) -> bool:
        """Place evicted pods; whether any was placed. Once a pod of a shape fails, other pods of it are not tried."""
        waiting: list[Entry] = []
        refused: set[PodShape] = set()
        for pod, shape in self._evicted_pods:
            if shape in refused or not self._place(pod, shape):
                refused.add(shape)
                waiting.append((pod, shape))
                continue
            for budget in self._budgets.get(pod.key, ()):
                self._allowed[budget] += 1
        progress = len(waiting) < len(self._evicted_pods)
        self._evicted_pods = waiting
        return progress


def _ignores_draining_nodes(topology_counts: SpreadCounts) -> bool:
    """Whether a rule honors taints and its pods do not tolerate the taint of draining nodes."""
    tolerations = topology_counts.rule.tolerations
    return tolerations is not None and untolerated(tolerations, (DISRUPTED_TAINT,)) is not None
