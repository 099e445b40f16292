"""A drain lived through slowly: evict what budgets allow, let drained nodes go, bind what finds a place, and again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from dovetail.model.kube_object import Key
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import DISRUPTED_TAINT
from reference.rooms import room_accepts
from reference.run import Room, Run, open_run
from reference.wish import preference_levels


def ends(
    snapshot: Snapshot,
    pools: Sequence[NodePool],
    names: Sequence[str],
    allowed: Mapping[int, int],
    budgets: Mapping[Key, tuple[int, ...]],
) -> bool:
    """Whether the drain of these nodes comes to its end without anything bought."""
    left = dict(allowed)
    nodes = tuple(_tainted(node) if node.name in names else node for node in snapshot.nodes)
    run = open_run(replace(snapshot, nodes=nodes), (), pools)
    draining = sorted((room for room in run.rooms if room.name in names), key=lambda room: names.index(room.name))
    for room in draining:
        room.going = True
    pending: list[Pod] = []
    while draining:
        before = (len(draining), sum(len(room.bound) for room in draining), len(pending))
        pending += _evict(draining, left, budgets)
        gone = [room for room in draining if not any(pod.reschedulable for pod in room.bound)]
        draining = [room for room in draining if room not in gone]
        run.rooms = [room for room in run.rooms if room not in gone]
        for pod in list(pending):
            if _bind(run, pod):
                pending.remove(pod)
                for budget in budgets.get(pod.key, ()):
                    left[budget] += 1
        if (len(draining), sum(len(room.bound) for room in draining), len(pending)) == before:
            kept = [pod for room in draining for pod in room.bound if pod.reschedulable]
            return not any(budgets.get(pod.key) for pod in (*pending, *kept))
    return True


def _tainted(node: ClusterNode) -> ClusterNode:
    assert node.node is not None, "only nodes are drained"
    spec = msgspec.structs.replace(node.node.spec, taints=(*node.node.spec.taints, DISRUPTED_TAINT))
    return ClusterNode(msgspec.structs.replace(node.node, spec=spec), node.claim, node.pods)


def _evict(rooms: Sequence[Room], left: dict[int, int], budgets: Mapping[Key, tuple[int, ...]]) -> list[Pod]:
    """One pod of each room in turn, as long as budgets let any go."""
    evicted: list[Pod] = []
    queues = [[pod for pod in room.bound if pod.reschedulable and not pod.terminal] for room in rooms]
    for turn in range(max(map(len, queues), default=0)):
        for pod in (queue[turn] for queue in queues if turn < len(queue)):
            asked = budgets.get(pod.key, ())
            if all(left[budget] > 0 for budget in asked):
                evicted.append(pod)
                for budget in asked:
                    left[budget] -= 1
    for room in rooms:
        room.bound = tuple(pod for pod in room.bound if pod not in evicted)
    return evicted


def _bind(run: Run, pod: Pod) -> bool:
    """The scheduler minds no preference."""
    wish = [*preference_levels(pod, respect_preferences=True, soft_taints_exist=run.soft_taints_exist)][-1]
    room = next((room for room in run.rooms if room_accepts(run, room, wish)), None)
    if room is not None:
        room.placed.append(pod)
    return room is not None
