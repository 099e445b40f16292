"""Disruption budgets: how many more nodes of a NodePool may be disrupted for a reason, and which budget limits that.

Pure arithmetic over `NodePool.budgets`, two node counts and an instant. The tightest budget in force wins; without one
in force there is no limit. A NodePool with an invalid budget allows nothing for any reason (fail closed).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dovetail.model.budget import Budget
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode, SpentBudget
from dovetail.model.snapshot import ClusterNode


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounts:
    """The nodes of one NodePool as its budgets count them."""

    total: int  # managed and initialized, instance not yet terminating
    disrupting: int  # of those: NotReady, or already marked for deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAllowance:
    """How many nodes of one NodePool may be disrupted for one reason."""

    limit: int | None  # None: no budget is in force
    disrupting: int
    bound_by: Budget | None = None  # the tightest budget in force

    @property
    def fault(self) -> str:
        """What is wrong with the budget, if it is invalid and therefore allows nothing; otherwise empty."""
        return self.bound_by.fault if self.bound_by is not None else ""

    def permits(self, nodes: int = 1) -> bool:
        """Whether that many more nodes may be disrupted."""
        return self.limit is None or self.disrupting + nodes <= self.limit

    @property
    def left(self) -> int | None:
        """How many more nodes may be disrupted; None is no limit."""
        return None if self.limit is None else max(0, self.limit - self.disrupting)


def count_nodes(nodes: Iterable[ClusterNode]) -> NodeCounts:
    """Count the nodes of a NodePool as its budgets do."""
    busy = [node.busy for node in nodes if node.counted]
    return NodeCounts(total=len(busy), disrupting=sum(busy))


def allowance(pool: NodePool, reason: Reason, counts: NodeCounts, now: datetime) -> BudgetAllowance:
    """Apply the tightest budget in force for `reason`."""
    in_force = [budget for budget in pool.budgets if budget.governs(reason, now)]
    tightest = min(in_force, key=lambda budget: budget.limit(counts.total), default=None)
    return BudgetAllowance(
        limit=tightest.limit(counts.total) if tightest is not None else None,
        disrupting=counts.disrupting,
        bound_by=tightest,
    )


def budget_refusal(pool: ObjectRef, reason: Reason, allowed: BudgetAllowance, now: datetime, ahead: int = 0) -> Refusal:
    """Why no further node may be disrupted; `ahead` is the number of nodes that this pass already takes."""
    if allowed.fault:
        code = RefusalCode.BUDGET_UNREADABLE
        return Refusal(code, pool, permanent=True, nodepool=pool.name, reason=reason, detail=allowed.fault)
    assert allowed.bound_by is not None and allowed.limit is not None, "only a limit refuses a node"  # noqa: PT018
    closes_at = allowed.bound_by.closes_at(now)
    nodes, limit = allowed.bound_by.spec.nodes, allowed.limit
    spent = SpentBudget(nodes=nodes, limit=limit, disrupting=allowed.disrupting, ahead=ahead)
    permanent = limit == 0 and closes_at is None
    return Refusal(RefusalCode.BUDGET, pool, closes_at, permanent, nodepool=pool.name, reason=reason, budget=spent)
