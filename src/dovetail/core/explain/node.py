"""Everything that stands between a node and each method, in order, and when each obstacle lifts by itself.

Asks the same functions the planner asks, so an explanation cannot disagree with a plan; it only goes on where the
planner stops at the first no. Decides nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from dovetail.core.disruption.budgets import BudgetAllowance, NodeCounts, count_nodes
from dovetail.core.disruption.candidates import Candidate, build_candidate, node_refusals, pod_blocks, stands
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.delays import budgets_apply
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method, expecting
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import PassPlan, plan_pass
from dovetail.core.disruption.preferred_nodes import find_preferring
from dovetail.core.explain.drain import DrainView, explain_drain
from dovetail.core.explain.repair import RepairView
from dovetail.model.budget import Budget
from dovetail.model.do_not_disrupt import longest_first
from dovetail.model.nodepool import NodePool
from dovetail.model.nodepool_budgets import read_budgets
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal
from dovetail.model.snapshot import ClusterNode, Snapshot

_OF_OTHERS = frozenset({"NextPass", "NoSet", "NotTheBest"})
"""What a method says because of other nodes; asked about one node alone, it has no meaning."""
MOST_WINDOWS = 2_000
"""So many windows that close one after the other are followed; if one is still open then, no instant is named."""
_OWN_STATE = frozenset({"AlreadyDisrupting", "Deleting", "NodeMissing", "NotInitialized", "Unreadable"})
"""What is wrong with the node itself, so that a simulation of it would tell nothing."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing in the way. `until`: it lifts by itself then; `permanent`: it never does; neither: it may any time."""

    code: str
    message: str
    until: datetime | None = None
    permanent: bool = False


@dataclass(frozen=True)
class MethodView:
    """What one method makes of a node: what is in its way, or the command it would give."""

    method: str
    reason: Reason
    obstacles: tuple[Obstacle, ...] = ()
    command: Command | None = None
    after: str = ""  # the method that acts first in this pass, so that this one has to wait for the next

    @property
    def lifts_at(self) -> datetime | None:
        """When the last obstacle is gone, if every one of them lifts at a known instant."""
        instants = [obstacle.until for obstacle in self.obstacles if obstacle.until is not None]
        return max(instants) if instants and len(instants) == len(self.obstacles) else None


@dataclass(frozen=True)
class NodeExplanation:
    """What every method makes of a node, in the order they are tried."""

    node: ClusterNode
    at: datetime
    methods: tuple[MethodView, ...]
    draining: DrainView | None = None  # what a node on its way out waits for
    repair: RepairView | None = None  # what an unhealthy one waits for


def explain_node(node: ClusterNode, context: PassContext, plan: PassPlan | None = None) -> NodeExplanation:
    """What every method makes of one node, and what it waits for if it is going. `plan`: the thorough one, if known."""
    plan = plan or plan_pass(context, thorough=True)
    snapshot = context.snapshot
    going = node.deleting or (node.node is not None and node.node.deleting)
    draining = explain_drain(node, snapshot.pdbs, snapshot.at) if going else None
    if node.claim is None:
        unmanaged = Obstacle("Unmanaged", "no NodeClaim belongs to it: somebody else's node", permanent=True)
        views = [MethodView(method.name, method.reason, (unmanaged,)) for method in METHODS]
    else:
        views = [_look(node, method, context, plan) for method in METHODS]
    return NodeExplanation(node, snapshot.at, tuple(views), draining)


def _look(node: ClusterNode, method: Method, context: PassContext, plan: PassPlan) -> MethodView:
    proposed = plan.commands_by_method[method.name]
    command = next((each for each in proposed if any(one.name == node.name for one in each.candidates)), None)
    if command is not None:
        acting = plan.commands[0].method
        return MethodView(method.name, method.reason, command=command, after=acting if acting != method.name else "")
    obstacles = list(_obstacles(node, method, context))
    if not obstacles:
        refusals = plan.refusals_by_method[method.name]
        said = (each for each in refusals if each.about == f"node/{node.name}")
        obstacles = [_from_refusal(refusal) for refusal in said]
    if method.name == SingleNode.name:
        obstacles += _preferences(node, obstacles, context)
    view = MethodView(method.name, method.reason, tuple(obstacles))
    pool = context.snapshot.nodepools.get(node.nodepool_name)
    if view.lifts_at is None or pool is None or not budgets_apply(pool, method.reason):
        return view
    return replace(view, obstacles=(*obstacles, *_opening_meanwhile(pool, method.reason, view.lifts_at, context)))


def _preferences(node: ClusterNode, obstacles: list[Obstacle], context: PassContext) -> list[Obstacle]:
    """Whether what the simulation says comes from preferences alone."""
    said = (Refusal(each.code, f"node/{node.name}", each.message) for each in obstacles)
    return [Obstacle("Preference", str(each)) for each in find_preferring(said, context)]


def _obstacles(node: ClusterNode, method: Method, context: PassContext) -> Iterator[Obstacle]:
    """What holds everything, then what the node says, its pods, the method, and the budgets; at last what the
    simulation says without them.
    """
    snapshot = context.snapshot
    assert node.claim is not None
    own = tuple(node_refusals(node, snapshot))
    yield from map(_from_refusal, own)
    bounded = method.eventual and node.claim.spec.termination_grace_period is not None
    yield from _of_pods(node, snapshot, bounded=bounded)
    if node.nodepool_name not in snapshot.nodepools or node.nodepool_name not in snapshot.catalogs:
        return
    candidate = build_candidate(node, snapshot)
    expected = expecting(method, candidate, context)
    disinterest = (*method.refusals(candidate, context), *((expected,) if expected is not None else ()))
    yield from map(_from_refusal, disinterest)
    if budgets_apply(candidate.pool, method.reason):
        yield from budget_obstacles(candidate.pool, method.reason, context)
    if not any(each.until is None for each in disinterest) and _OWN_STATE.isdisjoint(each.code for each in own):
        yield from _simulated(candidate, method, context)


def _simulated(candidate: Candidate, method: Method, context: PassContext) -> Iterator[Obstacle]:
    """What would still be in the way if all else had lifted, found by asking the method about this node alone."""
    pools = context.snapshot.nodepools
    unlimited = {(pool, method.reason): BudgetAllowance(limit=None, disrupting=0) for pool in pools}
    alone = replace(context, backing_off={}, _allowances=unlimited)
    for refusal in method.propose([candidate], alone).refusals:
        if refusal.code not in _OF_OTHERS:
            yield _from_refusal(refusal)


def _of_pods(node: ClusterNode, snapshot: Snapshot, *, bounded: bool) -> Iterator[Obstacle]:
    for pod, protected in longest_first(node.pods, snapshot.at):
        fault = f", whose annotation cannot be understood: {protected.fault}" if protected.fault else ""
        message = f"protected by pod {pod.key}{fault}"
        yield Obstacle("DoNotDisruptPod", message, protected.until, permanent=protected.until is None)
    for block in pod_blocks(node, snapshot):
        if block.code != "DoNotDisruptPod" and stands(block, bounded=bounded):
            yield _from_refusal(block)


def budget_obstacles(pool: NodePool, reason: Reason, context: PassContext) -> Iterator[Obstacle]:
    """Every budget in force that leaves nothing for a reason, and the back-off after commands that failed."""
    now = context.snapshot.at
    until = context.backing_off.get((pool.name, reason))
    if until is not None and now < until:
        yield Obstacle("BackingOff", f"replacements for nodepool {pool.name} failed", until)
    allowed = context.allowance(pool.name, reason)
    if allowed.fault:
        why = f"nodepool {pool.name} has a budget that cannot be understood, so nothing is disrupted: {allowed.fault}"
        yield Obstacle("BudgetUnreadable", why, permanent=True)
        return
    counts = count_nodes(context.snapshot.nodes_by_pool.get(pool.name, ()))
    budgets = read_budgets(pool)
    for number, budget in enumerate(budgets, start=1):
        counted = max(counts.total, 1)  # a node that does not count yet will, before it could go
        if budget.governs(reason, now) and counts.disrupting >= budget.limit(counted):
            yield _spent(budget, (number, len(budgets)), counts, now)


def _opening_meanwhile(pool: NodePool, reason: Reason, lifts_at: datetime, context: PassContext) -> Iterator[Obstacle]:
    """Budgets of zero in force when all else has lifted, until when no such budget is; one after the other."""
    counts, budgets = count_nodes(context.snapshot.nodes_by_pool.get(pool.name, ())), read_budgets(pool)
    shut = {each: place for place, each in enumerate(budgets, start=1) if each.limit(max(counts.total, 1)) == 0}
    closing: dict[Budget, datetime | None] = {}
    for _ in range(MOST_WINDOWS):
        blocking = next((each for each in shut if each.governs(reason, lifts_at)), None)
        if blocking is None:
            break
        closes_at = closing[blocking] = blocking.closes_at(lifts_at)
        if closes_at is None:
            break
        lifts_at = closes_at
    else:
        closing = dict.fromkeys(closing)
    for budget, until in closing.items():
        name = f"budget {shut[budget]} of {len(budgets)} ({budget.spec.nodes!r})"
        message = f"{name} will be in force by then and allows 0 of {counts.total} nodes"
        yield Obstacle("Budget", message, until)


def _spent(budget: Budget, place: tuple[int, int], counts: NodeCounts, now: datetime) -> Obstacle:
    limit = budget.limit(counts.total)
    use = f", {counts.disrupting} in use" if counts.disrupting else ""
    number, among = place
    message = f"budget {number} of {among} ({budget.spec.nodes!r}) in force allows {limit} of {counts.total} nodes{use}"
    closing = budget.closes_at(now)
    return Obstacle("Budget", message, closing, permanent=limit == 0 and closing is None)


def _from_refusal(refusal: Refusal) -> Obstacle:
    """Its words without the instant, which stands beside them."""
    instant = f" until {refusal.until:%Y-%m-%dT%H:%M:%SZ}" if refusal.until is not None else ""
    words = refusal.message.removesuffix(instant) if instant else refusal.message
    return Obstacle(refusal.code, words, refusal.until, refusal.permanent)
