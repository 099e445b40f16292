"""The solver: where would these pods run, given these nodes and what could be bought?

Its exact meaning is written in docs/concepts/scheduling.md. Nothing is bound here: the answer says which nodes to
bring, and the cluster's own scheduler does the rest. Every pod left over has a reason in words a kubectl user knows.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dovetail.core.scheduling.base import Base
from dovetail.core.scheduling.board import Board
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.explain import Explanation
from dovetail.core.scheduling.placing import Placing
from dovetail.core.scheduling.rulebook import Rulebook
from dovetail.core.scheduling.shape import Shape
from dovetail.core.scheduling.shop import Shop
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal
from dovetail.model.snapshot import Snapshot
from dovetail.model.wire import Key


@dataclass(frozen=True)
class Placement:
    """The solver's answer."""

    node_by_pod: dict[Key, str]
    drafts: tuple[Draft, ...]
    refusals: dict[Key, Refusal]


def solve(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    pools: Sequence[NodePool],
    *,
    respect_preferences: bool = True,
    standing: bool = False,
) -> Placement:
    """Place all pods that can be placed. `pools` are those that may make nodes, in the order they are tried.

    With `standing`, nodes on their way out count for topology as long as they are there.
    """
    return place_all(Base(snapshot, pods, pools, standing=standing), respect_preferences=respect_preferences)


def place_all(base: Base, *, respect_preferences: bool) -> Placement:
    """The same for a base state: its pods that move are placed."""
    shapes = dict.fromkeys(shape for _, shape in base.moving)
    board = Board(base, Rulebook(base, shapes, respect_preferences=respect_preferences))
    placing = Placing(board, Shop(base))
    node_by_pod: dict[Key, str] = {}
    left_over = run(placing, sorted(base.moving, key=queue_order), node_by_pod)
    explanation = Explanation(placing)
    refusals = {pod.key: explanation.refusal(pod, shape) for pod, shape in left_over}
    return Placement(node_by_pod, tuple(board.drafts), refusals)


def why_none(snapshot: Snapshot, pod: Pod) -> str:
    """Which constraints keep a pod from the nodes of a snapshot, in the scheduler's words; empty if one takes it."""
    base = Base(snapshot, [pod], ())
    ((_, shape),) = base.moving
    placing = Placing(Board(base, Rulebook(base, [shape], respect_preferences=False)), Shop(base))
    if placing.place(pod, shape) is not None:
        return ""
    return shape.volumes.problem or Explanation(placing).rooms(shape)


def run(
    placing: Placing, queue: Sequence[tuple[Pod, Shape]], node_by_pod: dict[Key, str]
) -> Sequence[tuple[Pod, Shape]]:
    """Place pods in rounds until a whole round places nothing; those left over are returned."""
    nodes = placing.board.base.rooms.nodes
    waiting = deque(queue)
    since_progress = 0
    while waiting and since_progress < len(waiting):
        pod, shape = waiting.popleft()
        place = placing.place(pod, shape)
        if place is None:
            waiting.append((pod, shape))
            since_progress += 1
            continue
        since_progress = 0
        if isinstance(place, int):
            node_by_pod[pod.key] = nodes[place].name
    return tuple(waiting)


def queue_order(queued: tuple[Pod, Shape]) -> tuple[tuple[int, int, int], datetime, str]:
    """Higher priority, larger requests, earlier creation, smaller uid first."""
    pod, shape = queued
    return shape.rank, pod.metadata.creation_timestamp or _LONG_AGO, pod.metadata.uid


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
