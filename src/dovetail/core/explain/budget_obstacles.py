"""The budgets of a NodePool as obstacles of a node: those that allow nothing now, and those that will not later."""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from dovetail.core.disruption.budgets import NodeCounts, budget_refusal
from dovetail.core.disruption.pass_context import PassContext
from dovetail.model.budget import Budget
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode, SpentBudget, nodepool_ref

MOST_WINDOWS = 2_000
"""How many consecutive budget windows are followed; if one is still open after that, no instant is given."""


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
    counts = context.counts(pool.name)
    nodes = context.snapshot.nodes_by_pool.get(pool.name, ())
    users = tuple(each.name for each in nodes if each.counted and each.busy)
    for number, budget in enumerate(pool.budgets, start=1):
        counted = max(counts.total, 1)  # a node that is not counted yet will be before it can be disrupted
        if budget.governs(reason, now) and counts.disrupting >= budget.limit(counted):
            closes_at, spent = budget.closes_at(now), _named(budget, (number, len(pool.budgets)), counts)
            spent = replace(spent, users=users)
            yield _spent(pool, spent, closes_at, permanent=closes_at is None and spent.limit == 0)


def later_budgets(pool: NodePool, reason: Reason, lifts_at: datetime, context: PassContext) -> Iterator[Refusal]:
    """Budgets of zero that will be in force when all other obstacles have ended, one after the other."""
    counts, budgets = context.counts(pool.name), pool.budgets
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
