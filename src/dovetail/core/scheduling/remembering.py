"""Answers of a sweep, kept while nothing they looked at has changed.

A pod takes the first room that has room. So what happens on one room matters to an answer only if one of its pods could
go there and was not placed in a room before it, or if a topology rule counts what changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dovetail.core.scheduling.shape import Shape

T = TypeVar("T")
BEYOND = 1 << 60
"""Where a pod is that found no room: behind all of them."""


@dataclass(frozen=True, slots=True)
class Change:
    """Other pods are on a room than before."""

    row: int
    touched: frozenset[Shape]  # could go there, before or now
    always: frozenset[Shape]  # of those that are placed: whatever room they found, it may be another now
    cramped: frozenset[Shape]  # could go there or can now, and hardly anywhere else
    expelled: frozenset[Shape]  # of those: cannot go there any more


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What was found for some rows. `placed` says who was tried and in which room each ended."""

    value: T
    rows: tuple[int, ...]
    placed: Sequence[tuple[Shape, int]]
    shapes: tuple[Shape, ...] = ()  # of all pods that were to move
    evidence: tuple[Shape, ...] = ()  # those with hardly any room that were looked at before anybody was placed

    def outdated(self, change: Change) -> bool:
        """Whether the answer could be another now."""
        if change.row in self.rows:
            return True
        if not change.cramped.isdisjoint(self.evidence) or not change.expelled.isdisjoint(self.shapes):
            return True
        row, touched, always = change.row, change.touched, change.always
        return any(shape in always or (place >= row and shape in touched) for shape, place in self.placed)
