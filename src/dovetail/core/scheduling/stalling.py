"""Whether a drain that PodDisruptionBudgets let go on only step by step comes to a standstill.

Once nodes are gone their pods have a place: that is known before this is asked. But while they are drained they are
still there, and count for topology with every pod that is left on them. So a pod that was evicted may have to wait for
its node to go, and the rest of the node for the pod. The drain is lived through here on a board, as fast as budgets
allow, and undone. Where there is room and what a pod prefers is looked at as elsewhere; a replacement is an empty node,
which takes whoever finds no room.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from dovetail.core.scheduling.board import Board
from dovetail.core.scheduling.placing import Placing
from dovetail.core.scheduling.removal import Queue
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.tally import SpreadTally
from dovetail.model.pod import Pod
from dovetail.model.taints import DISRUPTED_TAINT, untolerated
from dovetail.model.wire import Key

Entry = tuple[Pod, Shape]


@dataclass(frozen=True, slots=True)
class Permits:
    """How many more pods each budget lets go now, and which budgets select a pod. Budgets are told apart by number."""

    allowed: Mapping[int, int]
    budgets: Mapping[Key, tuple[int, ...]]


class Drain:
    """One drain of some rows. `spreads` are the rules that are asked while it goes on."""

    def __init__(
        self, placing: Placing, moving: Mapping[int, Queue], spreads: Iterable[SpreadTally], permits: Permits
    ) -> None:
        self._placing = placing
        self._board: Board = placing.board
        self._spreads = tuple(spreads)
        self._blind = frozenset(tally for tally in self._spreads if _does_not_see(tally))
        self._budgets = permits.budgets
        self._allowed = dict(permits.allowed)
        self._moving = moving
        self._left = {row: list(queue) for row, queue in moving.items()}
        self._pending: list[Entry] = []

    def blocker(self) -> Pod | None:
        """The evicted pod that everything else would wait for, or None if the drain comes to its end."""
        mark = self._board.journal.mark()
        for row in self._left:
            self._taint(row)
        found = self._run()
        self._board.undo(mark)
        return found

    def _taint(self, row: int) -> None:
        """A node that is drained takes nobody, and some rules do not count it any more."""
        self._board.close(row)
        for pod, shape in self._board.base.residents[row] if self._blind else ():
            if not pod.deleting:
                self._board.leave(shape, row, self._blind)
        for tally in self._blind:
            tally.drop_row(row, self._board.journal)

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
        """Whether any node is drained: it goes with whoever is bound to it."""
        drained = [row for row, queue in self._left.items() if not queue]
        for row in drained:
            del self._left[row]
            gone = {id(pod) for pod, _ in self._moving[row]}
            for pod, shape in self._board.base.residents[row]:
                if not pod.deleting and id(pod) not in gone:
                    self._leave(shape, row)
            for tally in self._spreads:
                if tally not in self._blind:
                    tally.drop_row(row, self._board.journal)
        return bool(drained)

    def _leave(self, shape: Shape, row: int) -> None:
        self._board.leave(shape, row, [t for t in self._board.rulebook.counted_by[shape] if t not in self._blind])

    def _settled(self, pod: Pod, shape: Shape) -> bool:
        """In a room, or else on what replaces the nodes."""
        return self._placing.settle_in_room(shape) is not None or self._placing.place(pod, shape) is not None

    def _settle(self) -> bool:
        """Whether any evicted pod runs again. Where one found no place, the next like it finds none either."""
        waiting: list[Entry] = []
        refused: set[Shape] = set()
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


def _does_not_see(tally: SpreadTally) -> bool:
    """Whether a rule looks at taints, and leaves out nodes with the one that drained nodes have."""
    tolerations = tally.rule.tolerations
    return tolerations is not None and untolerated(tolerations, (DISRUPTED_TAINT,)) is not None
