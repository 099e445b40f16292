"""Removals as values: the question (`Bounds`), the answer (`Removal`, `JointRemoval`), and the record of a run (`Trail`).

The answer for one node is `delete`, `replace` with a draft, or `stay` with the pod that has no other place. `limits`
names the NodePool limits without which the node could go.

`EquivalentRemoval` is the answer for pods without topology rules, whichever node they come from: pods with equal needs, in equal
order, go to equal places, except for nodes that are among these places themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.draft_options import UNLIMITED
from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.removal_cache import CachedRemoval
from dovetail.core.scheduling.topology_counts import SpreadCounts
from dovetail.model.kube_object import Key
from dovetail.model.pod import Pod

Queue = Sequence[tuple[Pod, PodShape]]


class Removal(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Whether a node can go. `blocker` is the pod that has no other place; `limits` those without which it had one."""

    kind: Literal["delete", "replace", "stay"]
    price: float | None
    draft: Draft | None = None
    blocker: Pod | None = None
    limits: str = ""


class PodsToReschedule(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The pods of a node to reschedule, in the order they are tried, and the spread rules they have."""

    queue: Queue
    shapes: tuple[PodShape, ...]
    spreads: tuple[SpreadCounts, ...]
    homes: tuple[int, ...] | None = None
    """The array of candidate rows of each, by identity; None if topology rules matter as well."""


class Trail:
    """The record of a run: the place of each pod, in the order they were tried, and the pod without one."""

    __slots__ = ("blocker", "drafts", "later", "places")

    def __init__(self) -> None:
        self.places: list[int] = []
        self.later: list[tuple[PodShape, int]] = []
        self.blocker: Pod | None = None
        self.drafts: tuple[Draft, ...] = ()


class EquivalentRemoval(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The answer for equal pods, whichever row they are on, except for the rows in `existing_nodes`."""

    existing_nodes: frozenset[int]
    places: tuple[int, ...]  # where they go, as far as they find a place
    blocked: int | None  # the position of the one that finds none
    seen: frozenset[int]  # short arrays of candidate rows that the quick check used

    def answer(self, row: int, removed_pods: PodsToReschedule, price: float | None) -> CachedRemoval[Removal]:
        """The answer for the pods of one row."""
        blocker = removed_pods.queue[self.blocked][0] if self.blocked is not None else None
        removal = Removal("delete" if blocker is None else "stay", price, blocker=blocker)
        evidence: tuple[PodShape, ...] = ()
        if self.seen:
            homes = zip(removed_pods.shapes, removed_pods.homes or (), strict=True)
            evidence = tuple([shape for shape, home in homes if home in self.seen])
        return CachedRemoval(removal, (row,), removed_pods.shapes, self.places, (), evidence)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a removal may launch: below which price, how many nodes. Pods in `staying` are not rescheduled."""

    below: float = UNLIMITED
    most_drafts: int | None = None
    staying: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class JointRemoval:
    """The drafts that the removal of several nodes needs, or the pod that blocks it, and the limits that do."""

    drafts: tuple[Draft, ...]
    blocker: Pod | None
    limits: str = ""


def try_again(placer: PodPlacer, waiting: Queue, later: list[tuple[PodShape, int]]) -> Pod | None:
    """Try pods again whose rules refused every place: a pod placed later may have changed that."""
    while waiting:
        left = []
        for pod, shape in waiting:
            found = placer.place(pod, shape)
            if found is None:
                left.append((pod, shape))
            elif isinstance(found, int):
                later.append((shape, found))
        if len(left) == len(waiting):
            return left[0][0]
        waiting = left
    return None
