"""Which budgets of a NodePool govern which reason.

The lists of `actionControls` come first: a reason is governed by the list of the most specific entry that has one, and
by no other entry. `spec.disruption.budgets` is a ceiling for every reason, entries or not. Only the default list, 10 %,
is no ceiling: it governs the reasons that no entry governs. Whether an entry governs a reason depends on what is
written, not on whether one of its windows is open.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dovetail.model.budget import DEFAULT_BUDGETS, Budget, BudgetSpec, parse_budget, read_action
from dovetail.model.nodepool import ActionControls, NodePool
from dovetail.model.reason import ACTIONS_BY_REASON, VOLUNTARY, Action, Reason


def read_budgets(pool: NodePool) -> tuple[Budget, ...]:
    """Every budget of a pool with the reasons it governs, if any; ValueError if one of them cannot be understood."""
    disruption = pool.spec.disruption
    if disruption.action_controls is not None and disruption.generic_per_action_controls is not None:
        twice = "'actionControls' and 'genericPerActionControls' are two spellings of one thing; keep one"
        raise ValueError(f"spec.disruption: {twice}")
    governing = {reason: governing_action(pool, reason) for reason in VOLUNTARY}
    left = frozenset(reason for reason, action in governing.items() if action is None)
    budgets = list(_read(pool.budgets, "spec.disruption", left if pool.budgets == DEFAULT_BUDGETS else VOLUNTARY))
    path = f"spec.disruption.{'actionControls' if disruption.action_controls else 'genericPerActionControls'}"
    for written, entry in sorted(pool.action_controls.items()):
        try:
            action = read_action(written)
            _check_entry(entry)
        except ValueError as error:
            raise ValueError(f"{path}.{written}: {error}") from None
        reasons = frozenset(reason for reason, governed_by in governing.items() if governed_by == action)
        budgets.extend(_read(entry.budgets or (), f"{path}.{written}", reasons))
    return tuple(budget for budget in budgets if budget.reasons)


def governing_action(pool: NodePool, reason: Reason) -> Action | None:
    """The most specific entry with a list of budgets, be it empty, that speaks for a reason."""
    entries = pool.action_controls
    return next(
        (each for each in ACTIONS_BY_REASON[reason] if each in entries and entries[each].budgets is not None), None
    )


def _read(written: Iterable[BudgetSpec], path: str, governed: frozenset[Reason]) -> Iterator[Budget]:
    for number, spec in enumerate(written):
        try:
            budget = parse_budget(spec)
        except ValueError as error:
            raise ValueError(f"{path}.budgets[{number}]: {error}") from None
        yield replace(budget, reasons=budget.reasons & governed, path=f"{path}.budgets[{number}]")


def _check_entry(entry: ActionControls) -> None:
    """Budgets under an action are for that action alone: one that names another would govern nothing."""
    if any(spec.action is not None or spec.reasons is not None for spec in entry.budgets or ()):
        raise ValueError("budgets under an action are for that action; leave out 'action' and 'reasons'")
