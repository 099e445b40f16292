"""What budgets allow, hour by hour. Arithmetic over schedules; nothing here reads a clock."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from dovetail.core.disruption.delays import expiration_without_budgets
from dovetail.model.budget import Budget, BudgetWindow
from dovetail.model.instants import add, subtract
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Action, Reason

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)

ACTION_BY_REASON = {
    Reason.EXPIRED: Action.EXPIRATION,
    Reason.DRIFTED: Action.DRIFT,
    Reason.EMPTY: Action.EMPTINESS,
    Reason.UNDERUTILIZED: Action.CONSOLIDATION,
}
"""What people call it when a node goes for this reason, in the order methods are tried."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The ceiling in one hour: at its tightest moment and at its widest. None is no ceiling."""

    least: int | None
    most: int | None


@dataclass(frozen=True, slots=True)
class Calendar:
    """What a NodePool allows, hour by hour from `start`."""

    start: datetime
    total: int
    hours_by_action: dict[Action, tuple[Allowed, ...]]
    fault: str = ""
    without_budgets: Mapping[Action, str] = field(default_factory=dict)
    """Actions that no budget applies to, which have no hours, and what happens instead."""


def draw_calendar(pool: NodePool, total: int, start: datetime, hours: int) -> Calendar:
    """The ceiling for each action in each hour, for a pool of `total` nodes; a faulty pool allows nothing at all."""
    note = expiration_without_budgets(pool)
    without = {Action.EXPIRATION: note} if note else {}
    actions = {reason: action for reason, action in ACTION_BY_REASON.items() if action not in without}
    budgets = pool.budgets
    known: dict[tuple[_Pattern, ...], dict[Reason, Allowed]] = {}
    drawn = []
    for hour in (add(start, HOUR * number) for number in range(hours)):
        patterns = tuple(_pattern(budget.window, hour) for budget in budgets)
        if patterns not in known:
            known[patterns] = _hour(budgets, patterns, total)
        drawn.append(known[patterns])
    by_action = {action: tuple(each[reason] for each in drawn) for reason, action in actions.items()}
    return Calendar(start, total, by_action, next((each.fault for each in budgets), ""), without)


class _Pattern(NamedTuple):
    """All that matters of a window in one hour: how long it is open from before, and the minutes it opens at."""

    carried: timedelta
    minutes: int
    duration: timedelta

    def open_at(self, offset: timedelta) -> bool:
        """Whether it is open so far into the hour."""
        earlier = self.minutes & ((2 << offset // MINUTE) - 1)
        opened = MINUTE * (earlier.bit_length() - 1)
        return offset < self.carried or (bool(earlier) and offset - opened < self.duration)

    def edges(self) -> Iterator[timedelta]:
        """Where in the hour it may open or close."""
        yield self.carried
        for minute in range(self.minutes.bit_length()):
            if self.minutes >> minute & 1:
                yield MINUTE * minute
                yield MINUTE * minute + self.duration


ALWAYS = _Pattern(HOUR, 0, HOUR)


def _pattern(window: BudgetWindow | None, hour: datetime) -> _Pattern:
    if window is None:
        return ALWAYS
    hit = window.schedule.last_at_or_before(subtract(hour, INSTANT), window.duration)
    carried = min(window.duration - (hour - hit), HOUR) if hit is not None else timedelta()
    return _Pattern(carried, window.schedule.minutes_of(hour), window.duration)


def _hour(budgets: Sequence[Budget], patterns: Sequence[_Pattern], total: int) -> dict[Reason, Allowed]:
    """The extremes of one hour, looked for at every instant something may change."""
    edges = {edge for pattern in patterns for edge in pattern.edges() if edge < HOUR}
    ceilings: dict[Reason, list[int | None]] = {reason: [] for reason in ACTION_BY_REASON}
    for offset in {timedelta(), *edges}:
        in_force = [budget for budget, each in zip(budgets, patterns, strict=True) if each.open_at(offset)]
        for reason, found in ceilings.items():
            found.append(min((each.limit(total) for each in in_force if reason in each.reasons), default=None))
    return {reason: _extremes(found) for reason, found in ceilings.items()}


def _extremes(ceilings: Sequence[int | None]) -> Allowed:
    bounded = [each for each in ceilings if each is not None]
    return Allowed(min(bounded, default=None), max(bounded) if len(bounded) == len(ceilings) else None)
