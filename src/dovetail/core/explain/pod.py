"""Explains a pod: its node or why it has none, what protects it, and which PDBs may block its eviction.

A pending pod is explained in the order of kube-scheduler's filters, then by NodePool. Failed node selectors and
resources are named with what the nodes have.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.pdbs import find_block, matching, protection_refusal
from dovetail.core.provisioning.eligible_pods import needs_node
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.core.scheduling.node_affinity import Alternative, node_alternatives
from dovetail.core.scheduling.unschedulable import NODE_AFFINITY, VOLUME_AFFINITY, insufficient
from dovetail.core.scheduling.volumes import volume_needs
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.do_not_disrupt import Protection, protection
from dovetail.model.kube_object import Key
from dovetail.model.pod import Pod, spec_requests
from dovetail.model.refusal import Refusal, pod_ref
from dovetail.model.requirements import Requirements
from dovetail.model.resources import ZERO
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.verdict import LabelMismatch, ObstacleGroup, PodOutcome, PodVerdict, ResourceShortage


@dataclass(frozen=True)
class PodExplanation:
    """The node of a pod and what keeps it there, or why it has none."""

    pod: Pod
    at: datetime
    node: ClusterNode | None
    verdict: PodVerdict
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
    protected, block = protection(pod, snapshot.at), find_block(pod, snapshot.pdbs)
    if node is not None:
        held = protection_refusal(pod_ref(pod.key), pod, protected) if protected.active else None
        obstacles = tuple(ObstacleGroup(each, (pod.key,)) for each in (held, block) if each is not None)
        verdict = PodVerdict(
            outcome=PodOutcome.RUNS,
            node=node.name,
            static=pod.mirror,
            unowned=not pod.metadata.owner_references,
            obstacles=obstacles,
        )
    else:
        verdict = _pending(pod, context)
    return PodExplanation(
        pod=pod,
        at=snapshot.at,
        node=node,
        verdict=verdict,
        protection=protected,
        pdbs=tuple(matching(pod, snapshot.pdbs)),
        block=block,
        unreadable=str((snapshot.unread_on(node) if node is not None else None) or snapshot.unread.everywhere or ""),
    )


def _pending(pod: Pod, context: PassContext) -> PodVerdict:
    """Why a pod has no node: it needs none, kube-scheduler handles it, or the result of provisioning."""
    if pod.terminal:
        return PodVerdict(outcome=PodOutcome.ENDED, phase=pod.status.phase)
    if pod.deleting:
        return PodVerdict(outcome=PodOutcome.DELETING)
    if pod.node_name:
        return PodVerdict(outcome=PodOutcome.NODE_MISSING, node=pod.node_name)
    if pod.status.nominated_node_name and not needs_node(pod, context.snapshot):
        return PodVerdict(outcome=PodOutcome.PREEMPTS, node=pod.status.nominated_node_name)
    if not pod.unschedulable:
        return PodVerdict(outcome=PodOutcome.NOT_MARKED)
    return _planned(pod, context)


def _planned(pod: Pod, context: PassContext) -> PodVerdict:
    """What provisioning plans for a pod."""
    plan = plan_provisioning(context.snapshot, context.options)
    for key, name in plan.node_by_pod:
        if key == pod.key:
            return PodVerdict(outcome=PodOutcome.FITS, node=name)
    for launch in plan.launches:
        if any(each.key == pod.key for each in launch.pods):
            return PodVerdict(outcome=PodOutcome.LAUNCHES, nodepool=launch.claim.nodepool_name)
    for refusal in plan.refusals:
        if refusal.object == pod_ref(pod.key):
            failure = refusal.scheduling
            failed = {each.reason for each in failure.constraints} if failure is not None else set()
            return PodVerdict(
                outcome=PodOutcome.UNSCHEDULABLE,
                refusal=refusal,
                labels=tuple(_mismatches(pod, context.snapshot, failed)),
                resources=tuple(_shortages(pod, context.snapshot, failed)),
            )
    return PodVerdict(outcome=PodOutcome.NOT_CONSIDERED)


def _mismatches(pod: Pod, snapshot: Snapshot, failed: Collection[str]) -> Iterator[LabelMismatch]:
    """The expressions that nodes do not match, in the order written. Of several affinity terms, one is enough."""
    if NODE_AFFINITY in failed:
        yield from _unmatched(node_alternatives(pod.spec), snapshot)
    if VOLUME_AFFINITY in failed:
        of_volumes = volume_needs(pod.key, pod.spec, snapshot.storage).on_existing_nodes
        yield from (structs.replace(each, of_volume=True) for each in _unmatched(of_volumes, snapshot))


def _unmatched(alternatives: Iterable[Alternative], snapshot: Snapshot) -> Iterator[LabelMismatch]:
    expressions = dict.fromkeys(each for term in alternatives for each in term.expressions)
    labels = [(node.labels, Requirements.from_labels(node.labels)) for node in snapshot.nodes]
    for expression in expressions:
        term = Alternative([expression])
        failing = [own for own, requirements in labels if not term.always_matches(requirements)]
        if failing:
            found = sorted({own[expression.key] for own in failing if expression.key in own})
            yield LabelMismatch(str(expression), len(failing), tuple(found))


def _shortages(pod: Pod, snapshot: Snapshot, failed: Collection[str]) -> Iterator[ResourceShortage]:
    """The resources that are insufficient on some nodes and of which no node has enough free."""
    for resource, requested in sorted(spec_requests(pod.spec).items()):
        if insufficient(resource) not in failed:
            continue
        free = [
            node.allocatable.get(resource, ZERO) - node.requested.get(resource, ZERO)
            for node in snapshot.nodes
            if node.node is not None
        ]
        most = max(free, default=ZERO)
        if most < requested:
            yield ResourceShortage(resource, str(requested), str(max(most, ZERO)))
