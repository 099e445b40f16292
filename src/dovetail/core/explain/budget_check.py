"""Checks whether disruption budgets are what keeps nodes: a budget is blamed only if widening it changes the plan.

The planner checks budgets before it simulates, so a node that a budget refuses may have no other way to leave either.
`check_budgets` asks every method that refused nodes because of a budget once more, with wider budgets. A node that is
then refused for another reason gets that reason. Consolidation is asked without a limit: it evaluates each node once
in any case. Expiration and drift are asked for one node more, because they simulate the nodes one after the other.

Cost: at most one more proposal of each method, with the simulations of the pass.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dovetail.core.disruption.budgets import BudgetAllowance
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method
from dovetail.core.disruption.methods.multi_node import MultiNode
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import PassPlan, consider
from dovetail.core.disruption.validation import VALIDATED
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode

_STILL_THE_BUDGET = frozenset({RefusalCode.BUDGET, RefusalCode.NOT_THE_BEST, RefusalCode.NEXT_PASS})
"""With a wider budget another node leaves first, and this one could follow: the budget holds it back."""


@dataclass(frozen=True)
class CheckedRefusals:
    """The refusals of a plan by method and node, after the check of budgets."""

    by_method: Mapping[str, Mapping[str, Refusal]]
    in_sets: frozenset[str]
    """Nodes that multi-node consolidation takes now, or would take with wider budgets."""


def check_budgets(plan: PassPlan, context: PassContext) -> CheckedRefusals:
    """The refusals of a thorough plan, with budgets only where widening them changes the plan."""
    by_method: dict[str, Mapping[str, Refusal]] = {}
    in_sets: set[str] = set()
    for method in METHODS:
        refusals = {each.object.name: each for each in plan.refusals_by_method.get(method.name, ())}
        taken = _taken(plan, method)
        pools = {each.nodepool for each in refusals.values() if each.code is RefusalCode.BUDGET}
        if pools:
            wider = consider(method, _widened(context, method.reason, pools, taken))
            found = {each.object.name: each for each in wider.refusals}
            refusals = {name: _checked(each, found.get(name)) for name, each in refusals.items()}
            in_sets |= _names(wider.commands) if method.name == MultiNode.name else set()
        by_method[method.name] = refusals
    return CheckedRefusals(by_method, frozenset(in_sets | _names(plan.commands_by_method.get(MultiNode.name, ()))))


def _names(commands: Iterable[Command]) -> set[str]:
    return {each.name for command in commands for each in command.candidates}


def _taken(plan: PassPlan, method: Method) -> Counter[str]:
    """How many nodes of each NodePool the method takes in this plan."""
    commands = plan.commands_by_method.get(method.name, ())
    return Counter(each.pool.name for command in commands for each in command.candidates)


def _widened(context: PassContext, reason: Reason, pools: Iterable[str], taken: Counter[str]) -> PassContext:
    """The same pass with wider budgets for a reason in these NodePools."""
    allowances = {}
    for pool in pools:
        now = context.allowance(pool, reason)
        limit = None if reason in VALIDATED else now.disrupting + taken[pool] + 1
        allowances[pool, reason] = BudgetAllowance(limit=limit, disrupting=now.disrupting, bound_by=now.bound_by)
    return replace(context, _allowances=allowances)


def _checked(refusal: Refusal, wider: Refusal | None) -> Refusal:
    """The refusal that counts: of the budget, unless the node is refused for another reason with a wider one."""
    if refusal.code is not RefusalCode.BUDGET or wider is None:
        return refusal
    not_tried = wider.code is RefusalCode.NEXT_PASS and wider.count > 0  # beyond the nodes that a set may have
    return refusal if wider.code in _STILL_THE_BUDGET and not not_tried else wider
