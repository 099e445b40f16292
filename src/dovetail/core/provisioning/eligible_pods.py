"""Which pods need a node, which pods Dovetail does not provision for and why, and which NodePools may launch nodes.

A pod needs a node if kube-scheduler found none for it (`needs_node`), or if its node is being deleted. Pods that
select nodes outside of Karpenter, or whose requirements no node can meet, are refused with a reason. The rules are
Karpenter's; `docs/concepts/provisioning.md` has them.
"""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from dovetail.core.failure import attempt
from dovetail.core.lifecycle.opening import planned_pods
from dovetail.core.lifecycle.termination import evicts_protected, read_deadline
from dovetail.core.pdbs import find_block, fully_blocks, matching
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.conditions import READY, is_true
from dovetail.model.do_not_disrupt import protection
from dovetail.model.labels import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    NODEPOOL,
    is_restricted,
    provider_label_remedy,
    unknown_provider_label,
)
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import NodeSelectorRequirement, Pod
from dovetail.model.refusal import RESOURCE_CLAIMS, Refusal, RefusalCode, pod_ref
from dovetail.model.requirements import Requirement
from dovetail.model.snapshot import ClusterNode, Snapshot

AHEAD = timedelta(minutes=5)
"""How long before the deadline of a drain the protected pods of the node get replacements, too."""


def provisionable_pods(snapshot: Snapshot) -> tuple[list[Pod], list[Refusal]]:
    """The pending pods that need a node, and the refusals of pending pods that no node could run."""
    pods: list[Pod] = []
    refusals: list[Refusal] = []
    for pod in snapshot.unbound_pods:
        if needs_node(pod, snapshot):
            refusal = attempt(pod_ref(pod.key), partial(find_refusal, pod))
            if refusal is None:
                pods.append(pod)
            else:
                refusals.append(refusal)
    return pods, refusals


def needs_node(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether a pending pod needs a node. It does not if kube-scheduler preempts other pods for it.

    A nomination to a node that is gone or was launched for the pod counts for nothing: kube-scheduler may keep it for
    five minutes although no node accepts the pod.
    """
    if not pod.unschedulable or not pod.status.nominated_node_name:
        return pod.provisionable
    nominated = (node for node in snapshot.nodes if node.name == pod.status.nominated_node_name and not node.leaving)
    return all(each.claim is not None and pod.metadata.uid in planned_pods(each.claim) for each in nominated)


def displaced_pods(snapshot: Snapshot) -> list[Pod]:
    """Pods to reschedule from nodes that are being deleted, or that a command is about to delete.

    Without pods that do-not-disrupt protects and pods that PodDisruptionBudgets never allow to evict, unless the drain
    deadline of their node is near, after which they are deleted anyway.
    """
    blocks = _PermanentBlocks(snapshot)
    return [
        pod
        for node in snapshot.nodes
        if node.deleting or node.name in snapshot.replaced
        for pod in node.pods
        if pod.reschedulable
        and not pod.spec.resource_claims
        and (_ends_soon(node, snapshot) or not (_is_protected(pod, node, snapshot) or blocks.include(pod)))
    ]


def _is_protected(pod: Pod, node: ClusterNode, snapshot: Snapshot) -> bool:
    return protection(pod, snapshot.at).active and not evicts_protected(node.claim)


class _PermanentBlocks:
    """PodDisruptionBudgets that never allow an eviction. Pods with equal labels share one lookup."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._budgets: dict[str, list[PodDisruptionBudget]] = {}
        for budget in snapshot.pdbs:
            self._budgets.setdefault(budget.metadata.namespace, []).append(budget)
        self._matching: dict[tuple[str, frozenset[tuple[str, str]]], list[PodDisruptionBudget]] = {}

    def include(self, pod: Pod) -> bool:
        """Whether the eviction API will never evict this pod: a PDB that allows nothing, or several PDBs."""
        budgets = self._budgets.get(pod.metadata.namespace)
        if not budgets:
            return False
        key = pod.metadata.namespace, frozenset(pod.metadata.labels.items())
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = matching(pod, budgets)
        if len(found) < 2 and not any(fully_blocks(budget) for budget in found):
            return False
        return find_block(pod, found) is not None


def _ends_soon(node: ClusterNode, snapshot: Snapshot) -> bool:
    """Whether the drain deadline of the node is so near that replacements have to start now."""
    deadline = read_deadline(node.claim) if node.claim is not None else None
    return deadline is not None and deadline - snapshot.at <= AHEAD


def find_refusal(pod: Pod) -> Refusal | None:
    """Why no node can be launched for this pod, whatever the NodePools offer."""
    about = pod_ref(pod.key)
    if pod.spec.resource_claims:
        return Refusal(RefusalCode.INVALID_POD, about, setting=RESOURCE_CLAIMS)
    for expressions in _alternatives(pod):
        for expression in expressions:
            if expression.key == NODEPOOL and expression.operator == "DoesNotExist":
                return Refusal(RefusalCode.CONFIGURED_ELSEWHERE, about)
            problem = _expression_problem(expression)
            if problem:
                return Refusal(RefusalCode.INVALID_POD, about, detail=problem)
    return None


def _alternatives(pod: Pod) -> Iterable[tuple[NodeSelectorRequirement, ...]]:
    selector = pod.spec.node_selector.items()
    yield tuple(NodeSelectorRequirement(key=key, operator="In", values=(value,)) for key, value in selector)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        if term.match_fields:
            yield (NodeSelectorRequirement(key="matchFields", operator=""),)
        yield term.match_expressions


def _expression_problem(expression: NodeSelectorRequirement) -> str:
    if expression.key == "matchFields" and not expression.operator:
        return "node affinity by matchFields is not supported; use matchExpressions on a label"
    if is_restricted(expression.key):
        return f"label {expression.key} is restricted; pods cannot select nodes by it"
    if problem := unknown_provider_label(expression.key):
        return f"label {expression.key} {problem}; {provider_label_remedy(expression.key)}"
    try:
        Requirement.of(expression.key, expression.operator, expression.values)
    except ValueError as error:
        return f"node affinity on {expression.key}: {error}"
    known = expression.key != CAPACITY_TYPE or expression.operator != "In" or {*expression.values} & {*CAPACITY_TYPES}
    return "" if known else f"{CAPACITY_TYPE} must be one of {', '.join(CAPACITY_TYPES)}"


def usable_pools(snapshot: Snapshot) -> list[NodePool]:
    """The NodePools that may launch nodes now, in the order they are tried: heavier first, then by name descending.

    A NodePool without instance types belongs to another provider.
    """
    ready = [pool for pool in snapshot.nodepools.values() if pool.name in snapshot.catalogs and _usable(pool)]
    ready.sort(key=lambda pool: pool.name, reverse=True)
    ready.sort(key=lambda pool: -pool.weight)
    return ready


def _usable(pool: NodePool) -> bool:
    return not pool.deleting and not pool.static and is_true(pool.status.conditions, READY)
