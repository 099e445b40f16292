"""How many more nodes of a NodePool may be disrupted, and which budget says so.

Arithmetic over budgets, two counts and one instant. The tightest budget in force wins; none in force means no limit. A
pool with a budget that cannot be understood is blocked for every reason: fail closed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from dovetail.model.budget import Budget, BudgetSpec, parse_budget, read_action
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Action, Reason
from dovetail.model.snapshot import ClusterNode


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounts:
    """The nodes of one NodePool that its budgets are measured against."""

    total: int  # managed and initialised, instance not yet terminating
    disrupting: int  # of those: NotReady, or already marked for deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What one NodePool can still spend on one Reason."""

    limit: int | None  # None: no budget is in force
    disrupting: int
    bound_by: Budget | None = None
    fault: str = ""  # why nothing is allowed although no budget says so

    def permits(self, nodes: int = 1) -> bool:
        """Whether that many more nodes may go."""
        return self.limit is None or self.disrupting + nodes <= self.limit

    @property
    def left(self) -> int | None:
        """How many more; None is no limit."""
        return None if self.limit is None else max(0, self.limit - self.disrupting)


def count_nodes(nodes: Iterable[ClusterNode]) -> NodeCounts:
    """Count the nodes of a pool as its budgets do."""
    busy = [node.busy for node in nodes if node.counted]
    return NodeCounts(total=len(busy), disrupting=sum(busy))


def read_budgets(pool: NodePool) -> tuple[Budget, ...]:
    """All budgets of a pool, those of its action controls included; ValueError if any cannot be understood."""
    disruption = pool.spec.disruption
    if disruption.action_controls is not None and disruption.generic_per_action_controls is not None:
        twice = "'actionControls' and 'genericPerActionControls' are two spellings of one thing; keep one"
        raise ValueError(f"spec.disruption: {twice}")
    budgets = list(_read(pool.budgets, Action.ALL, "spec.disruption"))
    spelled = "actionControls" if disruption.action_controls is not None else "genericPerActionControls"
    for written, controls in sorted(pool.action_controls.items()):
        path = f"spec.disruption.{spelled}"
        try:
            action = read_action(written)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        budgets.extend(_read(controls.budgets or (), action, f"{path}.{written}"))
    return tuple(budgets)


def _read(written: Iterable[BudgetSpec], action: Action, path: str) -> Iterator[Budget]:
    for number, spec in enumerate(written):
        try:
            yield parse_budget(spec, action)
        except ValueError as error:
            raise ValueError(f"{path}.budgets[{number}]: {error}") from None


def allowance(pool: NodePool, reason: Reason, counts: NodeCounts, now: datetime) -> Allowance:
    """Find the tightest budget in force for `reason` and say what it leaves."""
    try:
        budgets = read_budgets(pool)
    except ValueError as error:
        return Allowance(limit=0, disrupting=counts.disrupting, fault=str(error))
    in_force = [budget for budget in budgets if budget.governs(reason, now)]
    tightest = min(in_force, key=lambda budget: budget.limit(counts.total), default=None)
    return Allowance(
        limit=tightest.limit(counts.total) if tightest is not None else None,
        disrupting=counts.disrupting,
        bound_by=tightest,
    )
