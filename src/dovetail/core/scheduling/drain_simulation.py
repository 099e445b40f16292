"""Drain simulation: finds drains that would never end.

While nodes drain they still exist, and count for topology with every pod left on them. So an evicted pod may have to
wait for its node to go, while a PodDisruptionBudget keeps the rest of the node until that pod runs: a deadlock. That
the pods have places once the nodes are gone is known before this is asked.

The drain is simulated on the solver state, with evictions as fast as PodDisruptionBudgets allow, and undone. Each
turn evicts, removes drained nodes and places evicted pods; a turn without progress is a deadlock. A replacement
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
    """How many more evictions each PodDisruptionBudget allows now, and the PDBs of each pod. PDBs are numbered."""

    allowed: Mapping[int, int]
    budgets: Mapping[Key, tuple[int, ...]]


class DrainSimulation:
    """One drain of some rows. `spreads` are the rules that are asked while it goes on."""

    def __init__(
        self,
        placer: PodPlacer,
        pods_to_reschedule: Mapping[int, Queue],
        spreads: Iterable[SpreadCounts],
        permits: EvictionPermits,
    ) -> None:
        self._placing = placer
        self._solver_state: SolverState = placer.solver_state
        self._spreads = tuple(spreads)
        self._blind = frozenset(topology_counts for topology_counts in self._spreads if _does_not_see(topology_counts))
        self._budgets = permits.budgets
        self._allowed = dict(permits.allowed)
        self._pods_to_reschedule = pods_to_reschedule
        self._left = {row: list(queue) for row, queue in pods_to_reschedule.items()}
        self._pending: list[Entry] = []

    def blocker(self) -> Pod | None:
        """The evicted pod that everything else would wait for, or None if the drain comes to its end."""
        mark = self._solver_state.journal.mark()
        for row in self._left:
            self._taint(row)
        found = self._run()
        self._solver_state.undo(mark)
        return found

    def _taint(self, row: int) -> None:
        """A node that drains takes no pods, and rules that honor taints no longer count it."""
        self._solver_state.close(row)
        for pod, shape in self._solver_state.base.bound_pods[row] if self._blind else ():
            if not pod.deleting:
                self._solver_state.leave(shape, row, self._blind)
        for topology_counts in self._blind:
            topology_counts.drop_row(row, self._solver_state.journal)

    def _run(self) -> Pod | None:
        while self._left:
            moved = [self._evict(), self._let_go(), self._settle()]
            if not any(moved):
                held = (*self._pending, *(entry for queue in self._left.values() for entry in queue))
                return next((pod for pod, _ in held if self._budgets.get(pod.key)), None)
        return None

    def _evict(self) -> bool:
        """Whether any pod could be evicted; all that budgets allow are, of one node after the other in turn."""
        before = len(self._pending)
        rows, queues = list(self._left), list(self._left.values())
        self._left = {row: [] for row in rows}
        for turn in zip_longest(*queues):
            for row, entry in zip(rows, turn, strict=True):
                if entry is not None and not self._evicted(entry, row):
                    self._left[row].append(entry)
        return len(self._pending) > before

    def _evicted(self, entry: Entry, row: int) -> bool:
        pod, shape = entry
        budgets = self._budgets.get(pod.key, ())
        if any(self._allowed[budget] <= 0 for budget in budgets):
            return False
        for budget in budgets:
            self._allowed[budget] -= 1
        if not pod.deleting:
            self._leave(shape, row)
        self._pending.append(entry)
        return True

    def _let_go(self) -> bool:
        """Whether any node is drained: it is removed with its daemons and static pods."""
        drained = [row for row, queue in self._left.items() if not queue]
        for row in drained:
            del self._left[row]
            gone = {id(pod) for pod, _ in self._pods_to_reschedule[row]}
            for pod, shape in self._solver_state.base.bound_pods[row]:
                if not pod.deleting and id(pod) not in gone:
                    self._leave(shape, row)
            for topology_counts in self._spreads:
                if topology_counts not in self._blind:
                    topology_counts.drop_row(row, self._solver_state.journal)
        return bool(drained)

    def _leave(self, shape: PodShape, row: int) -> None:
        self._solver_state.leave(
            shape, row, [t for t in self._solver_state.topology.counted_by[shape] if t not in self._blind]
        )

    def _settled(self, pod: Pod, shape: PodShape) -> bool:
        """On an existing node, or else on a replacement."""
        return self._placing.settle_in_room(shape) is not None or self._placing.place(pod, shape) is not None

    def _settle(self) -> bool:
        """Whether any evicted pod runs again. Where one found no place, the next like it finds none either."""
        waiting: list[Entry] = []
        refused: set[PodShape] = set()
        for pod, shape in self._pending:
            if shape in refused or not self._settled(pod, shape):
                refused.add(shape)
                waiting.append((pod, shape))
                continue
            for budget in self._budgets.get(pod.key, ()):
                self._allowed[budget] += 1
        settled = len(waiting) < len(self._pending)
        self._pending = waiting
        return settled


def _does_not_see(topology_counts: SpreadCounts) -> bool:
    """Whether a rule looks at taints, and leaves out nodes with the one that drained nodes have."""
    tolerations = topology_counts.rule.tolerations
    return tolerations is not None and untolerated(tolerations, (DISRUPTED_TAINT,)) is not None
