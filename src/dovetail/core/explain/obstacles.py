"""The obstacles of one node for each disruption method, all of them, and when each ends by itself.

Uses the functions of the planner, so an explanation cannot disagree with a plan. The planner stops at the first
obstacle; an explanation collects all: of the node, its pods, the method, the budgets, and the simulation.

`ObstacleFinder` serves many nodes of one pass: it reads facts, refusals and commands of the pass from indexes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from dovetail.core.disruption.budgets import BudgetAllowance
from dovetail.core.disruption.candidates import (
    Candidate,
    build_candidate,
    node_refusals,
    pod_blocks,
    still_blocks,
)
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.delays import budgets_apply
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method, expecting
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import PassPlan
from dovetail.core.explain.budget_check import CheckedRefusals
from dovetail.core.explain.budget_obstacles import budget_obstacles, later_budgets
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode
from dovetail.model.snapshot import ClusterNode

_OF_OTHERS = frozenset({RefusalCode.NEXT_PASS, RefusalCode.NO_SET, RefusalCode.NOT_THE_BEST})
"""Refusals because of other nodes; they have no meaning if a method considers one node alone."""
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


class ObstacleFinder:
    """Finds the obstacles of nodes for one pass and its thorough plan."""

    def __init__(self, context: PassContext, plan: PassPlan, checked: CheckedRefusals) -> None:
        self._context = context
        self._unlimited = _without_budgets(context)
        self._acting = plan.commands[0].method if plan.commands else ""
        self._checked = checked
        self._commands: Mapping[str, Mapping[str, Command]] = {
            method: {each.name: command for command in commands for each in command.candidates}
            for method, commands in plan.commands_by_method.items()
        }

    def views(self, node: ClusterNode) -> list[MethodView]:
        """The view of every method on a managed node, in the order they are tried."""
        snapshot, cache = self._context.snapshot, self._context.candidate_cache
        known = node.nodepool_name in snapshot.nodepools and node.nodepool_name in snapshot.catalogs
        own = _OwnObstacles(
            node=node,
            state=tuple(node_refusals(node, snapshot)),
            pods=tuple(pod_blocks(node, snapshot, cache)),
            candidate=build_candidate(node, snapshot, cache) if known else None,
        )
        return [self._view(own, method) for method in METHODS]

    def _view(self, own: "_OwnObstacles", method: Method) -> MethodView:
        name = own.node.name
        command = self._commands.get(method.name, {}).get(name)
        if command is not None:
            after = self._acting if self._acting != method.name else ""
            return MethodView(method.name, method.reason, command=command, after=after)
        obstacles = list(self._obstacles(own, method))
        refusal = self._checked.by_method.get(method.name, {}).get(name)
        if not obstacles and refusal is not None:
            obstacles = [refusal]
        view = MethodView(method.name, method.reason, tuple(obstacles))
        pool = self._context.snapshot.nodepools.get(own.node.nodepool_name)
        if view.lifts_at is None or pool is None or not budgets_apply(pool, method.reason):
            return view
        return replace(view, obstacles=(*obstacles, *later_budgets(pool, method.reason, view.lifts_at, self._context)))

    def _obstacles(self, own: "_OwnObstacles", method: Method) -> Iterator[Refusal]:
        """The obstacles of the node, its pods, the method, the budgets, then those of a simulation without budgets."""
        assert own.node.claim is not None, "only managed nodes have obstacles"
        context, candidate = self._context, own.candidate
        yield from own.state
        bounded = method.eventual and own.node.claim.spec.termination_grace_period is not None
        yield from (block for block in own.pods if still_blocks(block, bounded=bounded))
        if candidate is None:
            return
        expected = expecting(method, candidate, context)
        refusals = (*method.refusals(candidate, context), *((expected,) if expected is not None else ()))
        yield from refusals
        if budgets_apply(candidate.pool, method.reason):
            yield from budget_obstacles(candidate.pool, method.reason, context)
        if not any(each.until is None for each in refusals) and _OWN_STATE.isdisjoint(each.code for each in own.state):
            yield from _simulated(candidate, method, self._unlimited)


@dataclass(frozen=True)
class _OwnObstacles:
    """What stands against a node for every method: its own state and its pods."""

    node: ClusterNode
    state: tuple[Refusal, ...]
    pods: tuple[Refusal, ...]
    candidate: Candidate | None  # None without a NodePool or its instance types


def _simulated(candidate: Candidate, method: Method, unlimited: PassContext) -> Iterator[Refusal]:
    """The obstacles that would remain without all others, found by proposing this node alone without budgets."""
    for refusal in method.propose([candidate], unlimited).refusals:
        if refusal.code not in _OF_OTHERS:
            yield refusal


def _without_budgets(context: PassContext) -> PassContext:
    """The same pass without budgets and back-offs. One serves all nodes: it keeps what it has computed."""
    unlimited = BudgetAllowance(limit=None, disrupting=0)
    pools = context.snapshot.nodepools
    return replace(
        context, backing_off={}, _allowances={(pool, each.reason): unlimited for pool in pools for each in METHODS}
    )
