"""Explains a pod: its node or why it has none, what protects it, and which PDBs may block its eviction."""

from dataclasses import dataclass
from datetime import datetime

from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.pdbs import find_block, matching
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.core.wording import message
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.do_not_disrupt import Protection, protection
from dovetail.model.kube_object import Key
from dovetail.model.pod import Pod
from dovetail.model.refusal import Refusal, pod_ref
from dovetail.model.snapshot import ClusterNode, Snapshot


@dataclass(frozen=True)
class PodExplanation:
    """The node of a pod and what keeps it there. `waits` says why it has no node, or which node it will get."""

    pod: Pod
    at: datetime
    node: ClusterNode | None
    waits: str
    protection: Protection
    pdbs: tuple[PodDisruptionBudget, ...]
    block: Refusal | None
    unreadable: str = ""  # an object that cannot be read, because of which its node is not disrupted


def find_pod(snapshot: Snapshot, key: Key) -> tuple[Pod, ClusterNode | None] | None:
    """The pod with this key, and its node if the snapshot has it."""
    for node in snapshot.nodes:
        for pod in node.pods:
            if pod.key == key:
                return pod, node
    return next(((pod, None) for pod in snapshot.unbound_pods if pod.key == key), None)


def explain_pod(pod: Pod, node: ClusterNode | None, context: PassContext) -> PodExplanation:
    """Explain one pod."""
    snapshot = context.snapshot
    return PodExplanation(
        pod=pod,
        at=snapshot.at,
        node=node,
        waits="" if node is not None else _why_it_waits(pod, context),
        protection=protection(pod, snapshot.at),
        pdbs=tuple(matching(pod, snapshot.pdbs)),
        block=find_block(pod, snapshot.pdbs),
        unreadable=str((snapshot.unread_on(node) if node is not None else None) or snapshot.unread.everywhere or ""),
    )


def _why_it_waits(pod: Pod, context: PassContext) -> str:
    """Why a pod has no node: it needs none, kube-scheduler handles it, or the result of provisioning."""
    if pod.terminal:
        return f"it has ended ({pod.status.phase})"
    if pod.deleting:
        return "it is being deleted"
    if pod.node_name:
        return f"bound to node {pod.node_name}, which is not in the snapshot"
    if pod.status.nominated_node_name:
        return f"preempts pods on node {pod.status.nominated_node_name}"
    if not pod.provisionable:
        return "kube-scheduler has not marked it unschedulable"
    return _planned(pod, context)


def _planned(pod: Pod, context: PassContext) -> str:
    """What provisioning plans for a pod."""
    plan = plan_provisioning(context.snapshot, respect_preferences=context.options.respect_preferences)
    for key, name in plan.node_by_pod:
        if key == pod.key:
            return f"fits node {name}"
    for launch in plan.launches:
        if any(each.key == pod.key for each in launch.pods):
            return f"a node of nodepool {launch.claim.nodepool_name} would be launched for it"
    for refusal in plan.refusals:
        if refusal.object == pod_ref(pod.key):
            return message(refusal)
    return "provisioning has not considered it"
