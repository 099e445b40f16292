"""The results of simulated removals, kept while changes of the cluster leave them as they are.

The result for a node depends on its own pods, and on the rows in `Removal.rows`: those that took the pods, and those
that the check before the simulation (`quick_reject`) read. It also depends on how many pods each domain has, where a
topology rule of the pods counts them.

A row that only takes fewer pods than before changes no other result: pods are placed on the first row that accepts
them, so a row that took none of the pods could as well be absent. A row that takes more may be the first for any pod,
and then all results are dropped.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from dovetail.core.scheduling.pod_shapes import PodConstraints, PodShape
from dovetail.core.scheduling.removal import Bounds, JointRemoval, PodsToReschedule, Removal
from dovetail.core.scheduling.repricing import Repricing
from dovetail.core.scheduling.shared_removals import SharedRemovals

MAX_JOINT = 1_000
"""Results for sets are dropped when there are more: a key has pods and prices, and is not asked for again without."""


@dataclass(frozen=True, slots=True)
class RowState:
    """What the results for other rows read of a row: the shapes of its pods, those that count, and its room."""

    bound: Counter[PodShape]
    counted: Counter[PodShape]
    free: tuple[int, ...]
    closed: bool

    def only_fills_up(self, after: "RowState") -> bool:
        """Whether the row takes no pod afterwards that it does not take in this state."""
        return self.bound <= after.bound and self.counted <= after.counted and self.closed <= after.closed


class RemovalAnswers:
    """Results for single rows, for equal rows and for sets of rows.

    `queues` has the pods of each row that has pods and a result.
    """

    def __init__(self, queues: Mapping[int, PodsToReschedule], shared: SharedRemovals) -> None:
        self.single: dict[int, Removal] = {}
        self.joint: dict[tuple[tuple[int, ...], Bounds], JointRemoval] = {}
        self.shared = shared
        self._queues = queues

    def reprice(self, repricing: Repricing) -> None:
        """Go on with other prices: drop what may end otherwise, and rewrite drafts for the new tables."""
        self.single = {
            row: _rewritten(removal, repricing)
            for row, removal in self.single.items()
            if removal.price is None or not repricing.affects(removal.price)
        }
        self.joint = {
            key: dataclasses.replace(found, drafts=tuple([repricing.rewrite(draft) for draft in found.drafts]))
            for key, found in self.joint.items()
            if not repricing.affects(key[1].below)
        }
        self._drop_shared()

    def forget_all(self) -> None:
        """Drop every result."""
        self.single.clear()
        self.joint.clear()
        self.shared.clear()

    def forget_row(self, row: int) -> None:
        """Drop the results of a row, whose pods changed but use and count the same: they name its pods."""
        self.single.pop(row, None)
        self.joint = {key: found for key, found in self.joint.items() if row not in key[0]}

    def forget_dependent(self, row: int, changed: Iterable[PodConstraints]) -> None:
        """Drop what depends on a row that takes fewer pods now, or on the `changed` topology rules of these pods."""
        shapes = {shape for constraints in changed for shape in constraints.shapes.values()}
        stale = [
            each
            for each, removal in self.single.items()
            if each == row
            or row in removal.rows
            or (each in self._queues and not shapes.isdisjoint(self._queues[each].shapes))
        ]
        for each in stale:
            del self.single[each]
        self.joint = {
            key: found
            for key, found in self.joint.items()
            if row not in key[0] and row not in found.rows and shapes.isdisjoint(found.shapes)
        }
        self._drop_shared()

    def _drop_shared(self) -> None:
        self.shared.clear()
        if len(self.joint) > MAX_JOINT:
            self.joint.clear()


def _rewritten(removal: Removal, repricing: Repricing) -> Removal:
    if removal.draft is None:
        return removal
    return msgspec.structs.replace(removal, draft=repricing.rewrite(removal.draft))
