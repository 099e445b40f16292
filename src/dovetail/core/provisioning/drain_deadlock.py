"""Pods that wait for a node to be deleted while that node waits for them, and the nodes launched for these pods.

Plans treat a node that is being deleted as gone. kube-scheduler does not: until the node is gone it is a domain of
every topology rule, and its pods count. Usually the pod waits for a few seconds. But a PodDisruptionBudget may keep
the last pods of a node until the pod that was evicted first runs again, and topology rules may not allow that pod
anywhere until the node is gone: a deadlock.

`revise` finds these pods and solves again for them, with the nodes that are being deleted included. A pod is
deadlocked if kube-scheduler has found no node for it for `PATIENCE`, no node for it is starting, and a
PodDisruptionBudget that selects it allows no eviction and selects a pod on a node that is being deleted. Nodes whose
pods are all evicted count as gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from dovetail.core.pdbs import matching
from dovetail.core.provisioning.nodeclaim_template import claim_for
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.existing_nodes import is_deleting_and_present
from dovetail.core.scheduling.solver import Placement, solve
from dovetail.model.conditions import find
from dovetail.model.kube_object import Key
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot

PATIENCE = timedelta(minutes=2)
"""How long a pod may wait for nodes to be deleted before it is planned as if they stayed."""


def revise(
    placement: Placement,
    snapshot: Snapshot,
    waiting: Sequence[Pod],
    pools: Sequence[NodePool],
    *,
    respect_preferences: bool = True,
) -> Placement:
    """The placement, with deadlocked pods placed as if the nodes that are being deleted stayed."""
    deadlocked = _find_deadlocked(placement, snapshot, waiting)
    if not deadlocked:
        return placement
    keys = {pod.key for pod in deadlocked}
    others = [pod for pod in waiting if pod.key not in keys]
    planned, planned_nodes = _as_if_placed(placement, snapshot, others)
    found = solve(planned, deadlocked, pools, respect_preferences=respect_preferences, include_deleting=True)
    nodes = {key: name for key, name in placement.node_by_pod.items() if key not in keys}
    nodes.update((key, name) for key, name in found.node_by_pod.items() if name not in planned_nodes)
    refusals = {key: refusal for key, refusal in placement.refusals.items() if key not in keys}
    return Placement(nodes, (*placement.drafts, *found.drafts), {**refusals, **found.refusals})


def _find_deadlocked(placement: Placement, snapshot: Snapshot, waiting: Sequence[Pod]) -> list[Pod]:
    """The waiting pods that are deadlocked: see the module docstring."""
    late = [pod for pod in waiting if snapshot.at - _waiting_since(pod, snapshot.at) >= PATIENCE]
    blocking = [budget for budget in snapshot.pdbs if late and budget.status.disruptions_allowed <= 0]
    blocking = [budget for budget in blocking if any(matching(pod, (budget,)) for pod in late)]
    kept = [pod for node in snapshot.nodes if blocking and _is_draining(node) for pod in node.pods if pod.reschedulable]
    blocking = [budget for budget in blocking if any(matching(pod, (budget,)) for pod in kept)]
    ready = {node.name for node in snapshot.nodes if blocking and node.initialized}
    return [
        pod
        for pod in late
        if (pod.key in placement.refusals or placement.node_by_pod.get(pod.key) in ready) and matching(pod, blocking)
    ]


def _is_draining(node: ClusterNode) -> bool:
    """Whether a node is being deleted, still exists and has pods that are not evicted yet."""
    return is_deleting_and_present(node) and any(pod.reschedulable and pod.active for pod in node.pods)


def _waiting_since(pod: Pod, now: datetime) -> datetime:
    """Since when kube-scheduler finds no node for a pod."""
    scheduled = find(pod.status.conditions, "PodScheduled")
    since = scheduled.last_transition_time if scheduled is not None else None
    return since or pod.metadata.creation_timestamp or now


def _as_if_placed(placement: Placement, snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[Snapshot, frozenset[str]]:
    """The cluster with these pods placed, and the names of the nodes that the placement launches.

    Pods that are bound stay on their node, because kube-scheduler counts them there. Nodes that are being deleted and
    have no pods left to evict are left out.
    """
    by_key = {pod.key: pod for pod in pods}
    coming: dict[str, list[Pod]] = {}
    for key, name in placement.node_by_pod.items():
        if key in by_key:
            coming.setdefault(name, []).append(by_key[key])
    nodes = [
        replace(node, pods=(*node.pods, *coming[node.name])) if node.name in coming else node
        for node in snapshot.nodes
        if _is_draining(node) or not is_deleting_and_present(node)
    ]
    planned = [_as_claim(draft, number, by_key) for number, draft in enumerate(placement.drafts)]
    return replace(snapshot, nodes=(*nodes, *planned)), frozenset(node.name for node in planned)


def _as_claim(draft: Draft, number: int, pods: Mapping[Key, Pod]) -> ClusterNode:
    """A draft as a NodeClaim that is not launched. Its name has a space, so no object in the cluster has the same."""
    claim = claim_for(draft)
    named = msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, name=f"draft {number}"))
    return ClusterNode(None, named, tuple(pod for pod in draft.pods if pod.key in pods))
