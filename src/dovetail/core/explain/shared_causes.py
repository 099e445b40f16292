"""What nodes have in common: the PodDisruptionBudgets and pods that block them, and what they drifted for.

Grouped over all nodes, so that one PodDisruptionBudget that blocks forty nodes is one line with forty nodes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from dovetail.core.disruption.candidates import pod_blocks
from dovetail.core.disruption.methods.multi_node import MultiNode
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.explain.drift_changes import drift_cause
from dovetail.core.explain.node import NodeExplanation
from dovetail.core.explain.verdict import group_obstacles
from dovetail.core.failure import attempt
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.verdict import DriftCause, DriftedNodes, HeldNodes, Outcome, PoolVerdict

_BUDGETS = frozenset({RefusalCode.BUDGET, RefusalCode.BUDGET_UNREADABLE})


def find_pod_blocks(nodes: Iterable[ClusterNode], context: PassContext) -> tuple[HeldNodes, ...]:
    """The PDBs and protected pods that block the disruption of these nodes, most nodes first."""
    snapshot, cache = context.snapshot, context.candidate_cache
    blocks: list[tuple[str, Refusal]] = []
    for node in nodes:
        found = attempt(node_ref(node.name), partial(pod_blocks, node, snapshot, cache)) if node.managed else []
        if not isinstance(found, Refusal):  # the planner refuses the node with the error
            blocks += [(node.name, each) for each in found]
    return _by_nodes(blocks)


def find_drifted(nodes: Iterable[ClusterNode], snapshot: Snapshot) -> tuple[DriftedNodes, ...]:
    """The drifted nodes by cause, most nodes first."""
    found: dict[DriftCause, list[str]] = {}
    for node in nodes:
        cause = drift_cause(node, snapshot)
        if cause is not None:
            found.setdefault(cause, []).append(node.name)
    groups = [DriftedNodes(cause, tuple(names)) for cause, names in found.items()]
    return tuple(sorted(groups, key=lambda each: (-len(each.nodes), each.nodes)))


def pool_verdict(explained: Iterable[NodeExplanation], context: PassContext) -> PoolVerdict:
    """The verdict on a NodePool from the explanations of its nodes."""
    members = list(explained)
    nodes = [each.node for each in members]
    outcomes = Counter(each.verdict.outcome for each in members)
    held = [(each.node.name, refusal) for each in members for refusal in _held_by_budgets(each)]
    paused = [
        (each.node.name, group.refusal)
        for each in members
        for group in each.verdict.obstacles
        if group.refusal.code is RefusalCode.PAUSED
    ]
    return PoolVerdict(
        outcomes=tuple((outcome, outcomes[outcome]) for outcome in Outcome if outcomes[outcome]),
        next_at=min((each.verdict.at for each in members if each.verdict.at is not None), default=None),
        paused=_by_nodes(paused),
        budgets=_by_nodes(held),
        pods=find_pod_blocks(nodes, context),
        drifted=find_drifted(nodes, context.snapshot),
    )


def _held_by_budgets(explained: NodeExplanation) -> Iterator[Refusal]:
    """The budgets without which a node could leave: those of its verdict, and of methods that only budgets stop."""
    verdict = explained.verdict
    yield from (each.refusal for each in verdict.obstacles if each.refusal.code in _BUDGETS)
    if verdict.outcome is not Outcome.STAYS:
        return
    for view in explained.methods:
        is_way = view.method != MultiNode.name or explained.in_set
        if is_way and all(each.code in _BUDGETS for each in view.obstacles):
            yield from view.obstacles


def _by_nodes(blocks: list[tuple[str, Refusal]]) -> tuple[HeldNodes, ...]:
    """Equal obstacles of several nodes as one. The groups carry the nodes in place of the methods."""
    groups = [HeldNodes(each, each.methods) for each in group_obstacles(blocks)]
    return tuple(sorted(groups, key=lambda each: (-len(each.nodes), each.nodes)))
