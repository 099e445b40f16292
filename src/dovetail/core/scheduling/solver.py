"""Places pods on existing nodes and on nodes that could be launched.

`solve` builds the problem from a snapshot, places all pods in rounds, and explains each pod that is left over. The
queue is sorted by priority, requests, creation and uid; a pod that no node accepts goes to the back, because a pod
placed later may satisfy its affinity. The run ends when a whole round placed nothing, so P pods need at most P rounds,
and nearly always one or two.

The result predicts what kube-scheduler will do; nothing is bound here. `docs/concepts/scheduling.md` has the exact
rules, `docs/concepts/solver.md` the algorithm. Equal input gives equal output: no tie is broken by hash order.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.placement import PodPlacer
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.purchasable import Purchasable
from dovetail.core.scheduling.solver_state import SolverState
from dovetail.core.scheduling.topology import Topology
from dovetail.core.scheduling.unschedulable import UnschedulableExplanation
from dovetail.model.kube_object import Key
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal
from dovetail.model.snapshot import Snapshot


@dataclass(frozen=True)
class Placement:
    """The node of each pod on an existing node, the nodes to launch with their pods, and why other pods do not fit."""

    node_by_pod: dict[Key, str]
    drafts: tuple[Draft, ...]
    refusals: dict[Key, Refusal]


def solve(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    pools: Sequence[NodePool],
    *,
    respect_preferences: bool = True,
    include_deleting: bool = False,
) -> Placement:
    """Place all pods that can be placed. `pools` may launch nodes and are tried in this order.

    With `include_deleting`, nodes that are being deleted count for topology while they exist.
    """
    return place_all(
        Problem(snapshot, pods, pools, include_deleting=include_deleting), respect_preferences=respect_preferences
    )


@dataclass(frozen=True, eq=False)
class ProposedNode:
    """A node to launch that is chosen before pods are placed one by one, and the pods it is meant for."""

    type_table: InstanceTypeTable
    pods: tuple[tuple[Pod, PodShape], ...]


def place_all(problem: Problem, *, respect_preferences: bool, proposed: Sequence[ProposedNode] = ()) -> Placement:
    """Place all pods of a problem that is already built.

    Drafts of `proposed` nodes are opened first. Where that fails, their pods are placed like the others.
    """
    shapes = dict.fromkeys(shape for _, shape in problem.pods_to_reschedule)
    solver_state = SolverState(problem, Topology(problem, shapes, respect_preferences=respect_preferences))
    placer = PodPlacer(solver_state, Purchasable(problem))
    opened = [node for node in proposed if placer.open_proposed(node.type_table, node.pods)]
    placed = {pod.key for node in opened for pod, _ in node.pods}
    waiting = [each for each in problem.pods_to_reschedule if each[0].key not in placed]
    node_by_pod: dict[Key, str] = {}
    left_over = run(placer, sorted(waiting, key=scheduling_order), node_by_pod)
    explanation = UnschedulableExplanation(placer)
    refusals = {pod.key: explanation.refusal(pod, shape) for pod, shape in left_over}
    return Placement(node_by_pod, tuple(solver_state.drafts), refusals)


def why_unschedulable(snapshot: Snapshot, pod: Pod) -> str:
    """Why no node of a snapshot accepts a pod, in the words of kube-scheduler; empty if one does."""
    problem = Problem(snapshot, [pod], ())
    ((_, shape),) = problem.pods_to_reschedule
    placer = PodPlacer(
        SolverState(problem, Topology(problem, [shape], respect_preferences=False)), Purchasable(problem)
    )
    if placer.place(pod, shape) is not None:
        return ""
    return shape.volumes.problem or UnschedulableExplanation(placer).describe_nodes(shape)


def run(
    placer: PodPlacer, queue: Sequence[tuple[Pod, PodShape]], node_by_pod: dict[Key, str]
) -> Sequence[tuple[Pod, PodShape]]:
    """Place pods in rounds until a whole round places nothing; return the pods left over."""
    nodes = placer.solver_state.problem.existing_nodes.nodes
    waiting = deque(queue)
    since_progress = 0
    while waiting and since_progress < len(waiting):
        pod, shape = waiting.popleft()
        place = placer.place(pod, shape)
        if place is None:
            waiting.append((pod, shape))
            since_progress += 1
            continue
        since_progress = 0
        if isinstance(place, int):
            node_by_pod[pod.key] = nodes[place].name
    return tuple(waiting)


def scheduling_order(queued: tuple[Pod, PodShape]) -> tuple[tuple[int, int, int], datetime, str]:
    """Higher priority, larger requests, earlier creation, smaller uid first."""
    pod, shape = queued
    return shape.rank, pod.metadata.creation_timestamp or _LONG_AGO, pod.metadata.uid


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
