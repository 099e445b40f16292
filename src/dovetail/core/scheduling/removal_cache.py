"""Removal cache: answers of a removal simulation, kept while no change can affect them.

A pod takes the first row that accepts it. So a change of one row affects an answer only if one of its pods could go
to that row and was not placed on an earlier one, or if a topology rule counts what changed. If pods only left the
row, pods that were placed on earlier rows or on it stay; if pods only came, pods that passed it by still do.

An answer stores the row of each pod, in order, as integers (`BEYOND`: on no row). `NodeChange` describes one change by
the shapes that it can affect. Invariant: a kept answer equals that of a new simulation
(`tests/properties/test_following.py`).
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from dovetail.core.scheduling.pod_shapes import PodShape

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
BEYOND = 1 << 60
"""The place of a pod that is on no row: after all rows."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The pods of one row have changed."""

    row: int
    touched: frozenset[PodShape]  # could go there, before or now
    always: frozenset[PodShape]  # if placed: any row they found may be different now
    cramped: frozenset[PodShape]  # could go there or can now, and hardly anywhere else
    expelled: frozenset[PodShape]  # of those: cannot go there any more
    reach: range = range(BEYOND + 1)  # the places of touched shapes that may end elsewhere now


@dataclass(frozen=True, slots=True)
class NodeFootprint:
    """A row as far as it matters to pods of other rows: which pods use it, which count, what is free."""

    taking: Mapping[PodShape, int]
    placed: Mapping[PodShape, int]
    free: tuple[int, ...]
    closed: bool


def reach(row: int, before: NodeFootprint, after: NodeFootprint) -> range:
    """The places whose pods may go elsewhere now. A pod whose volume is attached already needs no attachment."""
    left, come = multiset_difference(before.taking, after.taking), multiset_difference(after.taking, before.taking)
    swapped = any(shape.volumes.attachments for shape in (*left, *come))
    emptier = not swapped and before.closed >= after.closed and not come
    fuller = not swapped and before.closed <= after.closed and not left
    return range(row + emptier, row + 1 if fuller else BEYOND + 1)


def multiset_difference(some: Mapping[PodShape, int], others: Mapping[PodShape, int]) -> list[PodShape]:
    """What is among some and not, or not as often, among others; each as often as it is missing."""
    if some == others:
        return []
    return [shape for shape, number in some.items() for _ in range(number - others.get(shape, 0))]


def count_by_shape(shapes: Iterable[PodShape]) -> Mapping[PodShape, int]:
    """How often there is each."""
    numbers: dict[PodShape, int] = {}
    for shape in shapes:
        numbers[shape] = numbers.get(shape, 0) + 1
    return numbers


class CachedRemoval(msgspec.Struct, Generic[T], frozen=True, eq=False, gc=False):
    """What was found for some rows. There are many, each with many places: plain numbers cost the least to keep."""

    value: T
    rows: tuple[int, ...]
    shapes: tuple[PodShape, ...] = ()  # of all pods to reschedule, in the order they were tried
    places: tuple[int, ...] = ()  # the row of each, as far as they were tried
    later: tuple[tuple[PodShape, int], ...] = ()  # those that found a row at a later try
    evidence: tuple[PodShape, ...] = ()  # those with few candidate rows, which the quick check used

    def outdated(self, change: NodeChange) -> bool:
        """Whether the answer could be another now."""
        return self.unseen(change) or self._misplaced(change)

    def unseen(self, change: NodeChange) -> bool:
        """Whether even the result of the quick check may be different now."""
        return (
            change.row in self.rows
            or not change.cramped.isdisjoint(self.evidence)
            or not change.expelled.isdisjoint(self.shapes)
        )

    def _misplaced(self, change: NodeChange) -> bool:
        reach, touched, always = change.reach, change.touched, change.always
        if not touched and not always:
            return False
        for shape, place in zip(self.shapes, self.places, strict=False):
            if shape in always or (shape in touched and place in reach):
                return True
        return any(shape in always or (shape in touched and place in reach) for shape, place in self.later)


class RemovalCache(dict[K, CachedRemoval[T]]):
    """Answers by question. Those that the last change outdated return if it is reverted.

    A deleted pod is often followed by an equal one, which may fit only where the first one was.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[K, tuple[PodShape, ...]] = {}
        """Evidence that still holds of answers that do not."""
        self._taken: dict[K, CachedRemoval[T]] = {}
        self._held_for: tuple[int, object] | None = None

    def turn(self, change: NodeChange, before: object, after: object) -> None:
        """Drop answers that may be different now; `before` and `after` are all that matters about the row."""
        outdated = {asked: answer for asked, answer in self.items() if answer.outdated(change)}
        self.seen = {
            asked: answer.evidence for asked, answer in outdated.items() if answer.places and not answer.unseen(change)
        }
        for asked in outdated:
            del self[asked]
        if before == after and (self._held_for is None or self._held_for[0] == change.row):
            return
        if self._held_for == (change.row, after):
            self.update(self._taken)
        self._taken = {asked: answer for asked, answer in outdated.items() if change.row not in answer.rows}
        self._held_for = change.row, before
