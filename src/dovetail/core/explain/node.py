"""Explains a node: the verdict first, then every obstacle of each method, its repair and its drain.

`explain_nodes` explains many nodes of one pass. `plan`, `top` and the dashboard show the verdicts, so that all of them
name the soonest way a node can leave.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import msgspec

from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import PassPlan, plan_pass
from dovetail.core.disruption.preferred_nodes import find_preference_blockers
from dovetail.core.explain.budget_check import check_budgets
from dovetail.core.explain.current_state import current_wait, pending_replacements
from dovetail.core.explain.drain import DrainView, explain_drain
from dovetail.core.explain.drift_changes import drift_cause
from dovetail.core.explain.obstacles import NOT_APPLICABLE, MethodView, ObstacleFinder
from dovetail.core.explain.repair import RepairView, explain_repair
from dovetail.core.explain.verdict import find_verdict
from dovetail.core.failure import attempt
from dovetail.core.lifecycle.repair import RepairTerms
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode
from dovetail.model.verdict import DriftCause, NodeVerdict


@dataclass(frozen=True)
class NodeExplanation:
    """The verdict on a node, and the view of every method in the order they are tried."""

    node: ClusterNode
    at: datetime
    methods: tuple[MethodView, ...]
    verdict: NodeVerdict
    draining: DrainView | None = None  # if the node is being deleted
    repair: RepairView | None = None  # if the node is unhealthy
    drift: DriftCause | None = None  # if the node has drifted
    in_set: bool = False  # multi-node consolidation found a set with it, now or with wider budgets
    wait: Refusal | None = None  # what the node waits for regardless of the plan


def explain_node(node: ClusterNode, context: PassContext, plan: PassPlan | None = None) -> NodeExplanation:
    """Explain one node: every method, and the drain if the node is being deleted. `plan`: a thorough one, if known."""
    return next(explain_nodes([node], context, plan))


def explain_nodes(
    nodes: Iterable[ClusterNode], context: PassContext, plan: PassPlan | None = None
) -> Iterator[NodeExplanation]:
    """Explain some nodes of one pass. `plan`: a thorough one, if known."""
    plan = plan or plan_pass(context, thorough=True)
    snapshot = context.snapshot
    checked = check_budgets(plan, context)
    terms, replacements = RepairTerms(snapshot.repair_statements, context.options), pending_replacements(snapshot)
    for node, views in _with_preferences(nodes, ObstacleFinder(context, plan, checked), context):
        repair, drift = explain_repair(node, snapshot, terms), drift_cause(node, snapshot)
        wait = current_wait(node, snapshot, repair, replacements)
        in_set = node.name in checked.in_sets
        verdict = msgspec.structs.replace(_verdict(node, views, wait, snapshot.at, in_set=in_set), drift=drift)
        deleting = node.deleting or (node.node is not None and node.node.deleting)
        draining = explain_drain(node, snapshot.pdbs, snapshot.at) if deleting else None
        yield NodeExplanation(node, snapshot.at, views, verdict, draining, repair, drift, in_set, wait)


def _verdict(
    node: ClusterNode, views: Sequence[MethodView], wait: Refusal | None, at: datetime, *, in_set: bool
) -> NodeVerdict:
    bounded = node.claim is not None and node.claim.spec.termination_grace_period is not None
    return find_verdict(views, wait, at, in_set=in_set, bounded=bounded)


def _with_preferences(
    nodes: Iterable[ClusterNode], finder: ObstacleFinder, context: PassContext
) -> list[tuple[ClusterNode, tuple[MethodView, ...]]]:
    """The views on each node. Preferences of pods that prevent consolidation are found for all nodes together."""
    views = [(node, _views(node, finder)) for node in nodes]
    refusals = [each for _, own in views for view in own if view.method == SingleNode.name for each in view.obstacles]
    preferences = {each.node: each.refusal for each in find_preference_blockers(refusals, context)}
    found = []
    for node, own in views:
        preference = preferences.get(node.name)
        added = (preference,) if preference is not None else ()
        alone = SingleNode.name if added else ""
        found.append((node, tuple(replace(v, obstacles=v.obstacles + added) if v.method == alone else v for v in own)))
    return found


def find_verdicts(plan: PassPlan, nodes: Iterable[ClusterNode]) -> dict[str, NodeVerdict]:
    """The verdict on each of these nodes, by name. `plan`: a thorough one."""
    assert plan.context is not None, "plan_pass records its context"
    return {each.node.name: each.verdict for each in explain_nodes(nodes, plan.context, plan)}


def find_verdicts_for(
    plan: PassPlan, nodes: Iterable[ClusterNode], reasons: Collection[Reason]
) -> dict[str, NodeVerdict]:
    """The verdict by the methods of these reasons alone, for the nodes to which one of them applies."""
    assert plan.context is not None, "plan_pass records its context"
    found = {}
    for each in explain_nodes(nodes, plan.context, plan):
        views = [view for view in each.methods if view.reason in reasons]
        if any(NOT_APPLICABLE.isdisjoint(one.code for one in view.obstacles) for view in views):
            verdict = _verdict(each.node, views, each.wait, each.at, in_set=each.in_set)
            found[each.node.name] = msgspec.structs.replace(verdict, drift=each.drift)
    return found


def _views(node: ClusterNode, finder: ObstacleFinder) -> list[MethodView]:
    """The views on one node. An unexpected error about it is its only obstacle, and does not stop the others."""
    about = node_ref(node.name)
    unmanaged = Refusal(RefusalCode.UNMANAGED, about, permanent=True)
    found = attempt(about, partial(finder.views, node)) if node.claim is not None else unmanaged
    if isinstance(found, Refusal):
        return [MethodView(method.name, method.reason, (found,)) for method in METHODS]
    return found


def refusals_by_node(plan: PassPlan) -> dict[str, dict[str, Refusal]]:
    """The refusals of a plan by node and method, for nodes that no command takes."""
    taken = {each.name for command in plan.commands for each in command.candidates}
    found: dict[str, dict[str, Refusal]] = {}
    for method, refusals in plan.refusals_by_method.items():
        for refusal in refusals:
            if refusal.object.name not in taken:
                found.setdefault(refusal.object.name, {})[method] = refusal
    return found
