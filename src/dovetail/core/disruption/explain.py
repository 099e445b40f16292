"""Everything that stands between a node and each method, in order, and when each obstacle lifts by itself.

Asks the same functions the planner asks, so an explanation cannot disagree with a plan; it only goes on where the
planner stops at the first no. Decides nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from dovetail.core.disruption.allowance import NodeCounts, count_nodes, read_budgets
from dovetail.core.disruption.candidates import Candidate, build_candidate, node_refusal, pod_blocks
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.context import Context
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method, Proposal
from dovetail.core.disruption.planner import consider
from dovetail.core.disruption.waits import (
    Wait,
    consolidation_wait,
    drift_wait,
    emptiness_wait,
    expiration_wait,
    grace_wait,
)
from dovetail.core.disruption.windows import closes_at
from dovetail.model.budget import Budget
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.protection import protection
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal
from dovetail.model.snapshot import ClusterNode, Snapshot

PERMANENT = frozenset(
    {
        "BudgetUnreadable",
        "ConsolidationDisabled",
        "DoNotDisruptNode",
        "GateClosed",
        "InstanceTypeUnknown",
        "LabelMissing",
        "Never",
        "NoNodePool",
        "NodePoolMissing",
        "PolicyWhenEmpty",
        "Static",
        "Unmanaged",
    }
)
"""Refusals that stay until somebody changes something."""

_Clock = Callable[[NodePool, NodeClaim, datetime], Wait]
_GRACE: tuple[str, _Clock] = ("inside its consolidationGracePeriod", grace_wait)
_QUIET: tuple[tuple[str, _Clock], ...] = (("inside its consolidateAfter window", consolidation_wait), _GRACE)
_CLOCKS: dict[str, tuple[tuple[str, _Clock], ...]] = {
    "expiration": (("not expired: its lifetime runs", expiration_wait),),
    "drift": (("drifted, and left alone", drift_wait),),
    "emptiness": (("empty, and left alone", emptiness_wait), _GRACE),
    "multi-node": _QUIET,
    "single-node": _QUIET,
}


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


def explain_node(node: ClusterNode, context: Context) -> NodeExplanation:
    """Ask every method about one node."""
    if node.claim is None:
        unmanaged = Obstacle("Unmanaged", "no NodeClaim belongs to it: somebody else's node", permanent=True)
        views = [MethodView(method.name, method.reason, (unmanaged,)) for method in METHODS]
        return NodeExplanation(node, context.snapshot.at, tuple(views))
    views = []
    acting = ""
    for method in METHODS:
        proposal = consider(method, context)
        views.append(_look(node, method, context, proposal, acting))
        if proposal.commands and not acting:
            acting = method.name
    return NodeExplanation(node, context.snapshot.at, tuple(views))


def _look(node: ClusterNode, method: Method, context: Context, proposal: Proposal, acting: str) -> MethodView:
    going = (each for each in proposal.commands if any(one.name == node.name for one in each.candidates))
    command = next(going, None)
    if command is not None:
        return MethodView(method.name, method.reason, command=command, after=acting)
    obstacles = list(_obstacles(node, method, context))
    if not obstacles:
        said = (each for each in proposal.refusals if each.about == f"node/{node.name}")
        obstacles = [_from_refusal(refusal) for refusal in said]
    return MethodView(method.name, method.reason, tuple(obstacles))


def _obstacles(node: ClusterNode, method: Method, context: Context) -> Iterator[Obstacle]:
    """Everything but the simulation: what the node says, then its pods, the method, and the budgets."""
    snapshot = context.snapshot
    assert node.claim is not None
    refusal = node_refusal(node, snapshot)
    if refusal is not None:
        yield _from_refusal(refusal)
    if not (method.eventual and node.claim.spec.termination_grace_period is not None):
        yield from _of_pods(node, snapshot)
    if node.nodepool_name not in snapshot.nodepools or node.nodepool_name not in snapshot.catalogs:
        return
    candidate = build_candidate(node, snapshot)
    yield from _disinterest(candidate, method, context)
    yield from budget_obstacles(candidate.pool, method.reason, context)


def _of_pods(node: ClusterNode, snapshot: Snapshot) -> Iterator[Obstacle]:
    for pod in node.pods:
        protected = protection(pod, snapshot.at)
        if protected.active:
            fault = f", whose annotation cannot be understood: {protected.fault}" if protected.fault else ""
            message = f"protected by pod {pod.key}{fault}"
            yield Obstacle("DoNotDisruptPod", message, protected.until, permanent=protected.until is None)
    for block in pod_blocks(node, snapshot):
        if block.refusal.code == "PodDisruptionBudget":
            yield Obstacle(block.refusal.code, block.refusal.message, block.until, permanent=block.permanent)


def _disinterest(candidate: Candidate, method: Method, context: Context) -> Iterator[Obstacle]:
    """What the method itself has against the node: every clock that runs, or the one thing that rules it out."""
    refusal = method.refusal(candidate, context)
    if refusal is None:
        return
    if refusal.code == "Never" and method.reason == Reason.EXPIRED:
        why = f"never expires: nodepool {candidate.pool.name} sets no expireAfter under disruption"
        yield Obstacle(refusal.code, why, permanent=True)
        return
    if refusal.code not in {"Waiting", "Never"}:
        yield _from_refusal(refusal)
        return
    for what, clock in _CLOCKS[method.name]:
        wait = clock(candidate.pool, candidate.claim, context.snapshot.at)
        if not wait.over:
            endless = ", which never ends" if wait.never else ""
            yield Obstacle("Never" if wait.never else "Waiting", what + endless, wait.until, permanent=wait.never)


def budget_obstacles(pool: NodePool, reason: Reason, context: Context) -> Iterator[Obstacle]:
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
        if budget.governs(reason, now) and counts.disrupting >= budget.limit(counts.total):
            yield _spent(budget, (number, len(budgets)), counts, now)


def _spent(budget: Budget, place: tuple[int, int], counts: NodeCounts, now: datetime) -> Obstacle:
    limit = budget.limit(counts.total)
    use = f", {counts.disrupting} in use" if counts.disrupting else ""
    number, among = place
    message = f"budget {number} of {among} ({budget.spec.nodes!r}) in force allows {limit} of {counts.total} nodes{use}"
    closing = closes_at(budget.window, now)
    return Obstacle("Budget", message, closing, permanent=limit == 0 and closing is None)


def _from_refusal(refusal: Refusal) -> Obstacle:
    return Obstacle(refusal.code, refusal.message, permanent=refusal.code in PERMANENT)
