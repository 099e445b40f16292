"""Removals as values: question (`Bounds`), answer (`Removal`, `JointRemoval`) and record of a run (`Trail`).

The answer for one node is `delete`, `replace` with a draft, or `stay` with the pod that has no other place. `limits`
names the NodePool limits without which the node could go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.draft_options import UNLIMITED
from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_shapes import PodShape
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
    spreads: tuple[SpreadCounts, ...]


class Trail:
    """What came of a run: the rooms that took pods one by one, what has to be bought, and who found no place."""

    __slots__ = ("blocker", "drafts", "rows")

    def __init__(self) -> None:
        self.rows: set[int] = set()
        self.blocker: Pod | None = None
        self.drafts: tuple[Draft, ...] = ()


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


def try_again(placer: PodPlacer, waiting: Queue, rows: set[int]) -> Pod | None:
    """Pods whose rules refused every place: somebody who came after them may have changed that."""
    while waiting:
        left = []
        for pod, shape in waiting:
            found = placer.place(pod, shape)
            if found is None:
                left.append((pod, shape))
            elif isinstance(found, int):
                rows.add(found)
        if len(left) == len(waiting):
            return left[0][0]
        waiting = left
    return None
