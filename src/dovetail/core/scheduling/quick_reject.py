"""Quick reject: finds nodes that cannot be removed, without placing their pods.

A pod with at most `MAX_CANDIDATE_ROWS` candidate rows runs on one of them, or on the one node that may be launched. So
that node must hold at least what these rows cannot take. If no cheaper instance type holds even that, the node cannot
be removed. Topology, ports and volumes are ignored: they could only make it harder, so a rejection is always right,
and no rejection means that the removal has to be simulated.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from dovetail.core.scheduling.draft_fit import DraftFit
from dovetail.core.scheduling.draft_options import DraftOptions
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.purchasable import PurchaseTerms
from dovetail.core.scheduling.removal import Entry, PodsToReschedule
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.model.labels import NODEPOOL
from dovetail.model.pod import Pod

MAX_CANDIDATE_ROWS = 2
"""Pods with more candidate rows are ignored."""


class QuickReject:
    """Checks nodes on the unchanged problem, with the last preference level of each shape, which requires least."""

    def __init__(self, solver_state: SolverState) -> None:
        self._solver_state = solver_state
        self._problem = solver_state.problem
        self._draft_fit: DraftFit = solver_state.draft_fit
        self.read_tables()
        self._rows_by_shape: dict[PodShape, tuple[PreferenceLevel, Sequence[int]]] = {}
        """By shape: the last level, and the first candidate rows on which it fits, one more than matter."""

    def read_tables(self) -> None:
        """Read the instance type tables of the problem, again after they changed."""
        self._different_tables = tuple({each.offer: each for each in reversed(self._problem.type_tables)}.values())

    def clear(self) -> None:
        """Forget the candidate rows, because the problem changed."""
        self._rows_by_shape.clear()

    def forget_row(self, row: int) -> None:
        """Forget the candidate rows of shapes that have this row among them, because it takes fewer pods now."""
        self._rows_by_shape = {shape: found for shape, found in self._rows_by_shape.items() if row not in found[1]}

    def rows_read(self, pods: PodsToReschedule) -> set[int]:
        """The rows whose free resources decide `find_blocker`."""
        return {row for shape in pods.shapes for row in self.candidate_rows(shape)}

    def find_blocker(self, row: int, pods: PodsToReschedule, purchase: PurchaseTerms) -> Pod | None:
        """A pod of the queue that blocks the removal of a row, or None if only a simulation can tell.

        `without_row` are the pods that need the new node; `by_row` are those with one other candidate row, by that row.
        """
        rows_by_shape = {shape: self.candidate_rows(shape) for shape in pods.shapes}
        few = {shape: rows for shape, rows in rows_by_shape.items() if len(rows) <= MAX_CANDIDATE_ROWS}
        if not few:
            return None
        without_row: list[Entry] = []
        by_row: dict[int, list[Entry]] = {}
        for entry in pods.queue:
            rows = few.get(entry[1])
            if rows is None:
                continue
            number = len(rows)
            if not number or (number == 1 and rows[0] == row):
                without_row.append(entry)
            elif number == 1 or row in rows:
                by_row.setdefault(rows[0] if rows[0] != row else rows[1], []).append(entry)
        if without_row and self._count_fitting(without_row, purchase) < len(without_row):
            return without_row[0][0]
        if not by_row or self._fit_with_overflow(without_row, by_row, purchase):
            return None
        return without_row[0][0] if without_row else next(iter(by_row.values()))[0][0]

    def _count_fitting(self, entries: Sequence[Entry], purchase: PurchaseTerms) -> int:
        """How many of these pods, in order, one node that may be launched holds."""
        most = 0
        for type_table in self._tables(entries, purchase):
            most = max(most, self._count_held(type_table, entries, purchase))
            if most == len(entries):
                break
        return most

    def _count_held(self, type_table: InstanceTypeTable, entries: Sequence[Entry], purchase: PurchaseTerms) -> int:
        if self._table_holds(type_table, entries, self._sum(entries), purchase):
            return len(entries)
        reached: DraftOptions | str = purchase.purchasable.root(type_table)
        seen: PodShape | None = None
        total = [0] * len(self._problem.units.names)
        place = 0
        for number, (_, shape) in enumerate(entries):
            if shape is not seen:
                narrowed = self._narrowed(type_table, reached, self._rows_by_shape[shape][0])
                place = place if narrowed is reached else 0
                seen, reached = shape, narrowed
            if isinstance(reached, str):
                return number
            for column, amount in shape.need:
                total[column] += amount
            place = reached.first(total, purchase.below or 0.0, place)
            if place < 0:
                return number
        return len(entries)

    def _narrowed(
        self, type_table: InstanceTypeTable, options: DraftOptions | str, level: PreferenceLevel
    ) -> DraftOptions | str:
        if isinstance(options, str):
            return options
        if problem := self._draft_fit.untolerated(level, type_table):
            return problem
        return options.narrow(level.alternatives[0]) if len(level.alternatives) == 1 else options

    def _fit_with_overflow(
        self, without_row: Sequence[Entry], by_row: Mapping[int, list[Entry]], purchase: PurchaseTerms
    ) -> bool:
        """Whether one new node could hold the pods without a row, and what the rows of the others cannot take."""
        total = self._sum(without_row)
        crowded = False
        for only_row, entries in by_row.items():
            overflow = self._least_overflow(only_row, entries)
            crowded = crowded or any(overflow)
            total = [have + more for have, more in zip(total, overflow, strict=True)]
        return not crowded or self._any_table_holds(without_row, total, purchase)

    def _sum(self, entries: Iterable[Entry]) -> list[int]:
        total = [0] * len(self._problem.units.names)
        for _, shape in entries:
            for column, amount in shape.need:
                total[column] += amount
        return total

    def _least_overflow(self, only_row: int, entries: list[Entry]) -> list[int]:
        """For each resource, a lower bound of what does not fit of pods that have this row as their only one."""
        free = self._problem.free[only_row]
        columns: list[list[int]] = [[] for _ in free]
        for _, shape in entries:
            for column, amount in shape.need:
                columns[column].append(amount)
        most = len(entries)  # the most pods that can fit: in each resource, the smallest ones first
        for amounts, left in zip(columns, free, strict=True):
            amounts.sort()
            spare = len(entries) - len(amounts)
            fitting = bisect_right(list(accumulate(amounts)), left)
            most = min(most, spare + fitting)
        taken = [
            min(max(left, 0), sum(amounts[-most:] if most else ())) for amounts, left in zip(columns, free, strict=True)
        ]
        return [sum(amounts) - took for amounts, took in zip(columns, taken, strict=True)]

    def _any_table_holds(self, without_row: Sequence[Entry], total: list[int], purchase: PurchaseTerms) -> bool:
        """Whether some node that may be launched holds the total."""
        tables = self._tables(without_row, purchase)
        return any(self._table_holds(type_table, without_row, total, purchase) for type_table in tables)

    def _tables(self, entries: Iterable[Entry], purchase: PurchaseTerms) -> Sequence[InstanceTypeTable]:
        """The NodePools that may launch the new node. Of those that offer the same to these pods, one is enough."""
        if purchase.below is None:
            return ()
        limited = bool(self._problem.limits.remaining)
        if limited or any(_names_nodepool(self._rows_by_shape[shape][0]) for _, shape in entries):
            return self._problem.type_tables
        return self._different_tables

    def candidate_rows(self, shape: PodShape) -> Sequence[int]:
        """The first candidate rows of a pod without its preferences, as many as matter."""
        known = self._rows_by_shape.get(shape)
        if known is None:
            level = self._solver_state.topology.preference_levels(shape.constraints)[-1]
            rows = self._problem.fitting_rows(shape, level, MAX_CANDIDATE_ROWS + 1)
            known = self._rows_by_shape[shape] = level, rows
        return known[1]

    def _table_holds(
        self, type_table: InstanceTypeTable, without_row: Sequence[Entry], least: list[int], purchase: PurchaseTerms
    ) -> bool:
        options: DraftOptions | str = purchase.purchasable.root(type_table)
        seen: PodShape | None = None
        for _, shape in without_row:
            if shape is not seen:
                seen, options = shape, self._narrowed(type_table, options, self._rows_by_shape[shape][0])
        return not isinstance(options, str) and options.first(least, purchase.below or 0.0) >= 0


def _names_nodepool(level: PreferenceLevel) -> bool:
    """Whether a pod with this level accepts some NodePools and not others by their name."""
    return any(each.key == NODEPOOL for alternative in level.alternatives for each in alternative.expressions)
