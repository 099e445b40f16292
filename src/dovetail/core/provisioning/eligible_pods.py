"""Which pods nodes are brought for, which are left alone and why, and which NodePools may make nodes now."""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from dovetail.core.failure import attempt
from dovetail.core.lifecycle.termination import evicts_protected, read_deadline
from dovetail.core.pdbs import find_block, fully_blocks, matching
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.conditions import READY, is_true
from dovetail.model.do_not_disrupt import protection
from dovetail.model.labels import CAPACITY_TYPE, CAPACITY_TYPES, NODEPOOL, is_restricted
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import NodeSelectorRequirement, Pod
from dovetail.model.refusal import RESOURCE_CLAIMS, Refusal, RefusalCode, pod_ref
from dovetail.model.requirements import Requirement
from dovetail.model.snapshot import ClusterNode, Snapshot

AHEAD = timedelta(minutes=5)


def provisionable_pods(snapshot: Snapshot) -> tuple[list[Pod], list[Refusal]]:
    """The pods that wait for a node, and the refusals of those that ask for what cannot be."""
    pods: list[Pod] = []
    refusals: list[Refusal] = []
    for pod in snapshot.unbound_pods:
        if pod.provisionable:
            refusal = attempt(pod_ref(pod.key), partial(find_refusal, pod))
            if refusal is None:
                pods.append(pod)
            else:
                refusals.append(refusal)
    return pods, refusals


def displaced_pods(snapshot: Snapshot) -> list[Pod]:
    """Pods of nodes on their way out that will need a new home: deleted ones, and those a command is about to delete.

    Protected ones stay where they are for now, and so do those that no budget will ever let go, unless their node's
    time is all but over: then nothing protects them.
    """
    hold = _Hold(snapshot)
    return [
        pod
        for node in snapshot.nodes
        if node.deleting or node.name in snapshot.replaced
        for pod in node.pods
        if pod.reschedulable
        and not pod.spec.resource_claims
        and (_ends_soon(node, snapshot) or not (_is_protected(pod, node, snapshot) or hold.on(pod)))
    ]


def _is_protected(pod: Pod, node: ClusterNode, snapshot: Snapshot) -> bool:
    return protection(pod, snapshot.at).active and not evicts_protected(node.claim)


class _Hold:
    """Budgets that never give way. Pods of one workload have the same labels, and are looked up once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._budgets: dict[str, list[PodDisruptionBudget]] = {}
        for budget in snapshot.pdbs:
            self._budgets.setdefault(budget.metadata.namespace, []).append(budget)
        self._matching: dict[tuple[str, frozenset[tuple[str, str]]], list[PodDisruptionBudget]] = {}

    def on(self, pod: Pod) -> bool:
        """Whether no waiting will make the eviction API take this pod: a budget of nothing, or two budgets."""
        near = self._budgets.get(pod.metadata.namespace)
        if not near:
            return False
        same = pod.metadata.namespace, frozenset(pod.metadata.labels.items())
        found = self._matching.get(same)
        if found is None:
            found = self._matching[same] = matching(pod, near)
        if len(found) < 2 and not any(fully_blocks(budget) for budget in found):
            return False
        return find_block(pod, found) is not None


def _ends_soon(node: ClusterNode, snapshot: Snapshot) -> bool:
    """Whether the deadline of the node's drain is closer than a new node may take to come."""
    deadline = read_deadline(node.claim) if node.claim is not None else None
    return deadline is not None and deadline - snapshot.at <= AHEAD


def find_refusal(pod: Pod) -> Refusal | None:
    """Why no node can be brought for this pod, whatever there is to buy."""
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
        return f"label {expression.key} is restricted; nodes cannot be chosen by it"
    try:
        Requirement.of(expression.key, expression.operator, expression.values)
    except ValueError as error:
        return f"node affinity on {expression.key}: {error}"
    known = expression.key != CAPACITY_TYPE or expression.operator != "In" or {*expression.values} & {*CAPACITY_TYPES}
    return "" if known else f"{CAPACITY_TYPE} must be one of {', '.join(CAPACITY_TYPES)}"


def usable_pools(snapshot: Snapshot) -> list[NodePool]:
    """The pools that may make nodes now, in the order they are tried: heavier first, then by name from the end.

    A pool without a catalogue is another provider's.
    """
    ready = [pool for pool in snapshot.nodepools.values() if pool.name in snapshot.catalogs and _usable(pool)]
    ready.sort(key=lambda pool: pool.name, reverse=True)
    ready.sort(key=lambda pool: -pool.weight)
    return ready


def _usable(pool: NodePool) -> bool:
    return not pool.deleting and not pool.static and is_true(pool.status.conditions, READY)
