"""Removals as values: what may be launched (`Bounds`), the result (`Removal`, `JointRemoval`) and the outcome of one
simulated run (`SimulationResult`).

The result for one node is `delete`, `replace` with a draft, or `stay` with the pod that no other node accepts. `limits`
names the NodePool limits without which the node could be removed.
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

Entry = tuple[Pod, PodShape]
Queue = Sequence[Entry]


class Removal(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Whether a node can be removed. `blocker` is the pod that no other node accepts.

    `limits` names the NodePool limits without which the pod could be placed. `rows` are the existing nodes that take
    its pods.
    """

    kind: Literal["delete", "replace", "stay"]
    price: float | None
    draft: Draft | None = None
    blocker: Pod | None = None
    limits: str = ""
    rows: tuple[int, ...] = ()


class PlainRun(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Plain pods, one after the other in the queue, that need the same and have the same array of candidate rows."""

    candidates: Sequence[int]
    group: int  # the number of `candidates` in the problem
    shape: PodShape  # of the first pod; all need the same
    entries: Queue


class PodsToReschedule(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The pods of removed nodes in the order they are placed, their distinct shapes and their spread rules.

    `steps` is the same queue with plain pods in runs, as `SingleNodeFit` places them.
    """

    queue: Queue
    shapes: tuple[PodShape, ...]
    spreads: tuple[SpreadCounts, ...]
    steps: tuple[PlainRun | Entry, ...]


class SimulationResult:
    """The outcome of a run: the first pod without a place, drafts, and the existing nodes that took pods."""

    __slots__ = ("blocker", "drafts", "rows")

    def __init__(self, blocker: Pod | None, drafts: tuple[Draft, ...], rows: tuple[int, ...]) -> None:
        self.blocker = blocker
        self.drafts = drafts
        self.rows = rows


@dataclass(frozen=True, slots=True)
class Bounds:
    """At most `max_drafts` nodes cheaper than `below` may be launched; pods in `staying` are not rescheduled."""

    below: float = UNLIMITED
    max_drafts: int | None = None
    staying: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class JointRemoval:
    """The drafts that the removal of several nodes needs, or the pod and the limits that block it.

    `rows` are the existing nodes that take pods, `shapes` the shapes of all pods to reschedule.
    """

    drafts: tuple[Draft, ...]
    blocker: Pod | None
    rows: tuple[int, ...]
    shapes: tuple[PodShape, ...]
    limits: str = ""


def retry_unplaced(placer: PodPlacer, waiting: Queue) -> Pod | None:
    """Retry pods that topology rules refused, since pods placed later may satisfy them; the first left, or None."""
    while waiting:
        left = [(pod, shape) for pod, shape in waiting if placer.place(pod, shape) is None]
        if len(left) == len(waiting):
            return left[0][0]
        waiting = left
    return None
