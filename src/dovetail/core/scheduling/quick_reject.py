"""Quick reject: finds nodes that must stay, without placing their pods.

A pod with at most `FEW_ROOMS` candidate rows runs on one of them, or on the one node that may be launched. So that
node must hold at least what these rows cannot take. If no cheaper instance type holds even that, the removed node
stays. Topology, ports and volumes are ignored: they could only make it harder, so a rejection is always right, and
anything else means "simulate it".

The shapes that the answer depends on are returned as evidence: while their candidate rows are unchanged, it holds.
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
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.model.pod import Pod

Entry = tuple[Pod, PodShape]
FEW_ROOMS = 2
"""Pods with more rooms to go to are left aside."""


class QuickReject:
    """The quick check of nodes, on the problem. Uses the last preference step of a shape, which requires least."""

    def __init__(self, solver_state: SolverState) -> None:
        self._solver_state = solver_state
        self._base = solver_state.base
        self._draft_fit: DraftFit = solver_state.draft_fit
        self._homes: dict[PodShape, tuple[PreferenceLevel, Sequence[int]]] = {}

    def find_blocker(self, row: int, queue: Sequence[Entry], purchase: PurchaseTerms) -> Pod | None:
        """The first of the pods that cannot all have a place when a room goes, if that can be seen at once."""
        nowhere: list[Entry] = []
        only: dict[int, list[Entry]] = {}
        for entry in queue:
            homes = self.existing_nodes(entry[1])
            number = len(homes)
            if number > FEW_ROOMS:
                continue
            if not number or (number == 1 and homes[0] == row):
                nowhere.append(entry)
            elif number == 1 or row in homes:
                only.setdefault(homes[0] if homes[0] != row else homes[1], []).append(entry)
        if self._together(nowhere, purchase) < len(nowhere):
            return nowhere[0][0]
        if not only or self._fits_with(nowhere, only, purchase):
            return None
        return nowhere[0][0] if nowhere else next(iter(only.values()))[0][0]

    def _together(self, entries: Sequence[Entry], purchase: PurchaseTerms) -> int:
        """How many of these, in order, one node that may be launched holds."""
        most = 0
        for type_table in self._base.type_tables if purchase.below is not None else ():
            most = max(most, self._taken(type_table, entries, purchase))
            if most == len(entries):
                break
        return most

    def _taken(self, type_table: InstanceTypeTable, entries: Sequence[Entry], purchase: PurchaseTerms) -> int:
        if self._held(type_table, entries, self._sum(entries), purchase):
            return len(entries)
        reached: DraftOptions | str = purchase.purchasable.root(type_table)
        seen: PodShape | None = None
        total = [0] * len(self._base.units.names)
        place = 0
        for number, (_, shape) in enumerate(entries):
            if shape is not seen:
                narrowed = self._narrowed(type_table, reached, self._homes[shape][0])
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

    def _fits_with(self, nowhere: Sequence[Entry], only: Mapping[int, list[Entry]], purchase: PurchaseTerms) -> bool:
        """Whether one new node could hold the pods without a row, and what the only rows of the others cannot take."""
        asked = self._sum(nowhere)
        crowded = False
        for home, entries in only.items():
            over = self._left_over(home, entries)
            crowded = crowded or any(over)
            asked = [have + more for have, more in zip(asked, over, strict=True)]
        return not crowded or self._sold(nowhere, asked, purchase)

    def _sum(self, entries: Iterable[Entry]) -> list[int]:
        asked = [0] * len(self._base.units.names)
        for _, shape in entries:
            for column, amount in shape.need:
                asked[column] += amount
        return asked

    def _left_over(self, home: int, entries: list[Entry]) -> list[int]:
        """The least, for each resource, of pods with the same single row that this row cannot take."""
        free = self._base.free[home]
        columns: list[list[int]] = [[] for _ in free]
        for _, shape in entries:
            for column, amount in shape.need:
                columns[column].append(amount)
        most = len(entries)  # no more of them fit than of the smallest, in any resource
        for amounts, left in zip(columns, free, strict=True):
            amounts.sort()
            spare = len(entries) - len(amounts)
            fitting = bisect_right(list(accumulate(amounts)), left)
            most = min(most, spare + fitting)
        taken = [
            min(max(left, 0), sum(amounts[-most:] if most else ())) for amounts, left in zip(columns, free, strict=True)
        ]
        return [sum(amounts) - took for amounts, took in zip(columns, taken, strict=True)]

    def _sold(self, nowhere: Sequence[Entry], asked: list[int], purchase: PurchaseTerms) -> bool:
        """Whether some node that may be launched holds as much."""
        type_tables = self._base.type_tables if purchase.below is not None else ()
        return any(self._held(type_table, nowhere, asked, purchase) for type_table in type_tables)

    def existing_nodes(self, shape: PodShape) -> Sequence[int]:
        """Where a pod could go that gave up everything it prefers."""
        known = self._homes.get(shape)
        if known is None:
            level = self._solver_state.topology.preference_levels(shape)[-1]
            known = self._homes[shape] = level, self._base.candidates(shape, level)
        return known[1]

    def _held(
        self, type_table: InstanceTypeTable, nowhere: Sequence[Entry], least: list[int], purchase: PurchaseTerms
    ) -> bool:
        options: DraftOptions | str = purchase.purchasable.root(type_table)
        seen: PodShape | None = None
        for _, shape in nowhere:
            if shape is not seen:
                seen, options = shape, self._narrowed(type_table, options, self._homes[shape][0])
        return not isinstance(options, str) and options.first(least, purchase.below or 0.0) >= 0
