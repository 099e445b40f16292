"""Pods that wait for a node to go which waits for them, and what is bought for them.

Plans take a node on its way out as gone: soon it is. The scheduler does not. Until the node has gone it is a domain of
every topology rule, and its pods are neighbours. As a rule that only means a moment's wait. But a PodDisruptionBudget
may keep the last pods of a node until the one that was evicted first runs again, and that one may not run anywhere
before the node is gone. So such a pod, once it has waited too long, is looked at again as the scheduler sees the
cluster now. A node that only takes its time to go is waited for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from dovetail.core.pdbs import matching
from dovetail.core.provisioning.nodeclaim_template import claim_for
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.existing_nodes import still_standing
from dovetail.core.scheduling.solver import Placement, solve
from dovetail.model.conditions import find
from dovetail.model.kube_object import Key
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot

PATIENCE = timedelta(minutes=2)
"""How long a pod may wait for nodes to go before they count as staying."""


def revise(
    placement: Placement,
    snapshot: Snapshot,
    waiting: Sequence[Pod],
    pools: Sequence[NodePool],
    *,
    respect_preferences: bool = True,
) -> Placement:
    """The placement, in which those of the waiting pods that are held up are placed as if no node would ever go."""
    held = _held_up(placement, snapshot, waiting)
    if not held:
        return placement
    keys = {pod.key for pod in held}
    others = [pod for pod in waiting if pod.key not in keys]
    world, bought = _as_if_placed(placement, snapshot, others)
    found = solve(world, held, pools, respect_preferences=respect_preferences, include_deleting=True)
    nodes = {key: name for key, name in placement.node_by_pod.items() if key not in keys}
    nodes.update((key, name) for key, name in found.node_by_pod.items() if name not in bought)
    refusals = {key: refusal for key, refusal in placement.refusals.items() if key not in keys}
    return Placement(nodes, (*placement.drafts, *found.drafts), {**refusals, **found.refusals})


def _held_up(placement: Placement, snapshot: Snapshot, waiting: Sequence[Pod]) -> list[Pod]:
    """Pods that have waited too long, for which nothing is on its way, and whose budgets keep pods on nodes that go."""
    late = [pod for pod in waiting if snapshot.at - _waiting_since(pod, snapshot.at) >= PATIENCE]
    closed = [budget for budget in snapshot.pdbs if late and budget.status.disruptions_allowed <= 0]
    closed = [budget for budget in closed if any(matching(pod, (budget,)) for pod in late)]
    kept = [pod for node in snapshot.nodes if closed and _is_kept(node) for pod in node.pods if pod.reschedulable]
    closed = [budget for budget in closed if any(matching(pod, (budget,)) for pod in kept)]
    ready = {node.name for node in snapshot.nodes if closed and node.initialized}
    return [
        pod
        for pod in late
        if (pod.key in placement.refusals or placement.node_by_pod.get(pod.key) in ready) and matching(pod, closed)
    ]


def _is_kept(node: ClusterNode) -> bool:
    """Whether a node that goes is still there and has pods that nobody has evicted yet."""
    return still_standing(node) and any(pod.reschedulable and pod.active for pod in node.pods)


def _waiting_since(pod: Pod, now: datetime) -> datetime:
    """Since when the scheduler finds no node for it."""
    said = find(pod.status.conditions, "PodScheduled")
    since = said.last_transition_time if said is not None else None
    return since or pod.metadata.creation_timestamp or now


def _as_if_placed(placement: Placement, snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[Snapshot, frozenset[str]]:
    """The cluster once these pods are where the placement has them, and the names of the nodes it buys.

    Pods that have a node now stay there: the scheduler will not see them anywhere else before they have gone. Nodes
    that go by themselves are left out.
    """
    by_key = {pod.key: pod for pod in pods}
    coming: dict[str, list[Pod]] = {}
    for key, name in placement.node_by_pod.items():
        if key in by_key:
            coming.setdefault(name, []).append(by_key[key])
    nodes = [
        replace(node, pods=(*node.pods, *coming[node.name])) if node.name in coming else node
        for node in snapshot.nodes
        if _is_kept(node) or not still_standing(node)
    ]
    bought = [_as_claim(draft, number, by_key) for number, draft in enumerate(placement.drafts)]
    return replace(snapshot, nodes=(*nodes, *bought)), frozenset(node.name for node in bought)


def _as_claim(draft: Draft, number: int, pods: Mapping[Key, Pod]) -> ClusterNode:
    """A node that is about to be bought. No object has such a name."""
    claim = claim_for(draft)
    named = msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, name=f"draft {number}"))
    return ClusterNode(None, named, tuple(pod for pod in draft.pods if pod.key in pods))
