"""Explains why a node is not disrupted: every obstacle of each method, and when each ends by itself.

Uses the functions of the planner, so an explanation cannot disagree with a plan. The planner stops at the first
obstacle; an explanation collects all: of the node, its pods, the method, the budgets, and the simulation.

`explain_repair` explains what node repair waits for. `deciding_refusal` picks the one refusal to show where there is
room for a single line.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from dovetail.core.disruption.budgets import BudgetAllowance, NodeCounts, budget_refusal, count_nodes
from dovetail.core.disruption.candidates import Candidate, build_candidate, node_refusals, pod_blocks, still_blocks
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.delays import budgets_apply
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method, expecting
from dovetail.core.disruption.methods.expiration import Expiration
from dovetail.core.disruption.methods.multi_node import MultiNode
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import PassPlan, plan_pass
from dovetail.core.disruption.preferred_nodes import find_preference_blockers
from dovetail.core.explain.drain import DrainView, explain_drain
from dovetail.core.lifecycle.repair import (
    Breaker,
    RepairTerms,
    UnhealthyCondition,
    find_unhealthy_conditions,
    read_breaker,
)
from dovetail.model.budget import Budget
from dovetail.model.nodepool import NodePool, Repair
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode, SpentBudget, node_ref, nodepool_ref
from dovetail.model.snapshot import ClusterNode, Snapshot


@dataclass(frozen=True, slots=True)
class RepairView:
    """The unhealthy conditions of a node, ordered by when they are due. `off` says why it is not repaired."""

    unhealthy_conditions: tuple[UnhealthyCondition, ...]
    breaker: Breaker
    off: str = ""

    @property
    def due_at(self) -> datetime | None:
        """When the node is replaced by force, unless the breaker is open; None if it is not repaired."""
        return self.unhealthy_conditions[0].due_at if not self.off else None


def explain_repair(node: ClusterNode, snapshot: Snapshot, terms: RepairTerms) -> RepairView | None:
    """What repair does about a node; None if it is healthy or not managed."""
    if node.node is None or node.claim is None:
        return None
    pool = snapshot.nodepools.get(node.nodepool_name)
    repair = terms.of(pool)
    unhealthy_conditions = find_unhealthy_conditions(node.node, repair or Repair(), terms.statements)
    if not unhealthy_conditions:
        return None
    peers = [each.node for each in snapshot.nodes if each.node is not None and _share_breaker(each, node)]
    off = ""
    if not terms.options.node_repair:
        off = "the feature gate NodeRepair is off"
    elif repair is None:
        off = f"nodepool {pool.name} has no repair block" if pool is not None else "it belongs to no nodepool"
    return RepairView(unhealthy_conditions, read_breaker(peers, terms.statements), off)


def _share_breaker(each: ClusterNode, node: ClusterNode) -> bool:
    return not node.nodepool_name or each.nodepool_name == node.nodepool_name


_OF_OTHERS = frozenset({RefusalCode.NEXT_PASS, RefusalCode.NO_SET, RefusalCode.NOT_THE_BEST})
"""Refusals because of other nodes; they have no meaning if a method considers one node alone."""
MOST_WINDOWS = 2_000
"""How many consecutive budget windows are followed; if one is still open after that, no instant is given."""
_OWN_STATE = frozenset(
    {
        RefusalCode.ALREADY_DISRUPTING,
        RefusalCode.DELETING,
        RefusalCode.NODE_MISSING,
        RefusalCode.NOT_INITIALIZED,
        RefusalCode.UNREADABLE,
    }
)
"""Obstacles of the node itself, with which a simulation of its removal would be pointless."""
NOT_APPLICABLE = frozenset(
    {
        RefusalCode.NEVER,
        RefusalCode.NOT_DRIFTED,
        RefusalCode.NOT_EMPTY,
        RefusalCode.EMPTY,
        RefusalCode.STATIC,
        RefusalCode.GATE_CLOSED,
        RefusalCode.NO_SET,
        RefusalCode.CONSOLIDATION_DISABLED,
        RefusalCode.POLICY_WHEN_EMPTY,
    }
)
"""Refusals of methods that do not apply to a node: what another method says is more useful."""


@dataclass(frozen=True)
class MethodView:
    """The obstacles of one method for a node, or the command that takes it."""

    method: str
    reason: Reason
    obstacles: tuple[Refusal, ...] = ()
    command: Command | None = None
    after: str = ""  # the method that acts in this pass, if another one: this command has to wait

    @property
    def lifts_at(self) -> datetime | None:
        """When the last obstacle ends, if every one of them ends at a known instant."""
        instants = [obstacle.until for obstacle in self.obstacles if obstacle.until is not None]
        return max(instants) if instants and len(instants) == len(self.obstacles) else None


@dataclass(frozen=True)
class NodeExplanation:
    """The view of every method on a node, in the order they are tried."""

    node: ClusterNode
    at: datetime
    methods: tuple[MethodView, ...]
    draining: DrainView | None = None  # if the node is being deleted
    repair: RepairView | None = None  # if the node is unhealthy


def explain_node(node: ClusterNode, context: PassContext, plan: PassPlan | None = None) -> NodeExplanation:
    """Explain one node: every method, and the drain if the node is being deleted. `plan`: a thorough one, if known."""
    plan = plan or plan_pass(context, thorough=True)
    snapshot = context.snapshot
    deleting = node.deleting or (node.node is not None and node.node.deleting)
    draining = explain_drain(node, snapshot.pdbs, snapshot.at) if deleting else None
    if node.claim is None:
        unmanaged = Refusal(RefusalCode.UNMANAGED, node_ref(node.name), permanent=True)
        views = [MethodView(method.name, method.reason, (unmanaged,)) for method in METHODS]
    else:
        views = [_method_view(node, method, context, plan) for method in METHODS]
    return NodeExplanation(node, snapshot.at, tuple(views), draining)


def _method_view(node: ClusterNode, method: Method, context: PassContext, plan: PassPlan) -> MethodView:
    proposed = plan.commands_by_method[method.name]
    command = next((each for each in proposed if any(one.name == node.name for one in each.candidates)), None)
    if command is not None:
        acting = plan.commands[0].method
        return MethodView(method.name, method.reason, command=command, after=acting if acting != method.name else "")
    obstacles = list(_obstacles(node, method, context))
    if not obstacles:
        refusals = plan.refusals_by_method[method.name]
        obstacles = [each for each in refusals if each.object == node_ref(node.name)]
    if method.name == SingleNode.name:
        obstacles += [each.refusal for each in find_preference_blockers(obstacles, context)]
    view = MethodView(method.name, method.reason, tuple(obstacles))
    pool = context.snapshot.nodepools.get(node.nodepool_name)
    if view.lifts_at is None or pool is None or not budgets_apply(pool, method.reason):
        return view
    return replace(view, obstacles=(*obstacles, *_later_budgets(pool, method.reason, view.lifts_at, context)))


def _obstacles(node: ClusterNode, method: Method, context: PassContext) -> Iterator[Refusal]:
    """The obstacles of the node, its pods, the method and the budgets, then those of a simulation without budgets."""
    snapshot = context.snapshot
    assert node.claim is not None
    own = tuple(node_refusals(node, snapshot))
    yield from own
    bounded = method.eventual and node.claim.spec.termination_grace_period is not None
    yield from (block for block in pod_blocks(node, snapshot) if still_blocks(block, bounded=bounded))
    if node.nodepool_name not in snapshot.nodepools or node.nodepool_name not in snapshot.catalogs:
        return
    candidate = build_candidate(node, snapshot)
    expected = expecting(method, candidate, context)
    refusals = (*method.refusals(candidate, context), *((expected,) if expected is not None else ()))
    yield from refusals
    if budgets_apply(candidate.pool, method.reason):
        yield from budget_obstacles(candidate.pool, method.reason, context)
    if not any(each.until is None for each in refusals) and _OWN_STATE.isdisjoint(each.code for each in own):
        yield from _simulated(candidate, method, context)


def _simulated(candidate: Candidate, method: Method, context: PassContext) -> Iterator[Refusal]:
    """The obstacles that would remain without all others, found by proposing this node alone without budgets."""
    pools = context.snapshot.nodepools
    unlimited = {(pool, method.reason): BudgetAllowance(limit=None, disrupting=0) for pool in pools}
    alone = replace(context, backing_off={}, _allowances=unlimited)
    for refusal in method.propose([candidate], alone).refusals:
        if refusal.code not in _OF_OTHERS:
            yield refusal


def budget_obstacles(pool: NodePool, reason: Reason, context: PassContext) -> Iterator[Refusal]:
    """Every budget in force that allows no further node for a reason, and the back-off after failed commands."""
    now = context.snapshot.at
    backing_off = context.back_off_refusal(pool.name, reason)
    if backing_off is not None:
        yield backing_off
    allowed = context.allowance(pool.name, reason)
    if allowed.fault:
        yield budget_refusal(nodepool_ref(pool.name), reason, allowed, now)
        return
    counts = count_nodes(context.snapshot.nodes_by_pool.get(pool.name, ()))
    for number, budget in enumerate(pool.budgets, start=1):
        counted = max(counts.total, 1)  # a node that is not counted yet will be before it can be disrupted
        if budget.governs(reason, now) and counts.disrupting >= budget.limit(counted):
            closes_at, spent = budget.closes_at(now), _named(budget, (number, len(pool.budgets)), counts)
            yield _spent(pool, spent, closes_at, permanent=closes_at is None and spent.limit == 0)


def _later_budgets(pool: NodePool, reason: Reason, lifts_at: datetime, context: PassContext) -> Iterator[Refusal]:
    """Budgets of zero that will be in force when all other obstacles have ended, one after the other."""
    counts, budgets = count_nodes(context.snapshot.nodes_by_pool.get(pool.name, ())), pool.budgets
    zero = {each: number for number, each in enumerate(budgets, start=1) if each.limit(max(counts.total, 1)) == 0}
    closing: dict[Budget, datetime | None] = {}
    for _ in range(MOST_WINDOWS):
        blocking = next((each for each in zero if each.governs(reason, lifts_at)), None)
        if blocking is None:
            break
        closes_at = closing[blocking] = blocking.closes_at(lifts_at)
        if closes_at is None:
            break
        lifts_at = closes_at
    else:
        closing = dict.fromkeys(closing)
    for budget, until in closing.items():
        yield _spent(pool, _named(budget, (zero[budget], len(budgets)), counts, later=True), until)


def _named(budget: Budget, place: tuple[int, int], counts: NodeCounts, *, later: bool = False) -> SpentBudget:
    """A budget that allows no further node, with its number among the budgets of its NodePool."""
    return SpentBudget(
        nodes=budget.spec.nodes,
        limit=budget.limit(counts.total),
        disrupting=counts.disrupting,
        number=place[0],
        of=place[1],
        total=counts.total,
        later=later,
    )


def _spent(pool: NodePool, spent: SpentBudget, until: datetime | None, *, permanent: bool = False) -> Refusal:
    return Refusal(RefusalCode.BUDGET, nodepool_ref(pool.name), until, permanent, nodepool=pool.name, budget=spent)


def refusals_by_node(plan: PassPlan) -> dict[str, dict[str, Refusal]]:
    """The refusals of a plan by node and method, for nodes that no command takes."""
    taken = {each.name for command in plan.commands for each in command.candidates}
    found: dict[str, dict[str, Refusal]] = {}
    for method, refusals in plan.refusals_by_method.items():
        for refusal in refusals:
            if refusal.object.name not in taken:
                found.setdefault(refusal.object.name, {})[method] = refusal
    return found


def deciding_refusal(why: Mapping[str, Refusal], node: str) -> Refusal:
    """The refusal to show for a node: of the first method that applies to it, else a delay, else of the last method."""
    # Multi-node comes last: its refusals are about a set of nodes, not about this one.
    methods = sorted((method.name for method in METHODS), key=lambda name: name == MultiNode.name)
    ordered = [(name, why[name]) for name in methods if name in why]
    if not ordered:
        return Refusal(RefusalCode.ANOTHER_FIRST, node_ref(node))
    delays = [each for name, each in ordered if each.code is RefusalCode.WAITING and name != Expiration.name]
    applying = [each for _, each in ordered if each.code not in NOT_APPLICABLE and each.code is not RefusalCode.WAITING]
    return (applying or delays or [ordered[-1][1]])[0]
