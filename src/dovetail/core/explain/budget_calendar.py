"""What the budgets of a NodePool allow, hour by hour.

For each hour and action the calendar has the lowest and the highest limit. A budget's window in one hour is reduced to
a `_Pattern`: how long it is still open from an earlier start, and the minutes at which it opens. Hours with the same
patterns have the same limits, which are computed once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from dovetail.core.disruption.delays import budgets_apply, expiration_without_budgets
from dovetail.core.explain.budget_obstacles import MOST_WINDOWS
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
"""The name of each action for users, in the order methods are tried."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The lowest and the highest limit within one hour. None is no limit."""

    least: int | None
    most: int | None


@dataclass(frozen=True, slots=True)
class AllowedNow:
    """How many nodes may be disrupted at once for an action at one instant, and after the next change."""

    limit: int | None  # None: no budget is in force
    changes_at: datetime | None = None  # None: it does not change
    then: int | None = None


@dataclass(frozen=True, slots=True)
class Calendar:
    """What a NodePool allows, hour by hour from `start`."""

    start: datetime
    total: int
    hours_by_action: dict[Action, tuple[Allowed, ...]]
    fault: str = ""
    without_budgets: Mapping[Action, str] = field(default_factory=dict)
    """Actions without hours because no budget applies to them, and what happens instead."""
    at: datetime | None = None
    now: Mapping[Action, AllowedNow] = field(default_factory=dict)
    """What is allowed at `at`, by action."""


def draw_calendar(pool: NodePool, total: int, start: datetime, hours: int, at: datetime | None = None) -> Calendar:
    """The limits of each action in each hour, and at `at`, for `total` nodes. An invalid budget allows nothing."""
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
    fault = next((each.fault for each in budgets), "")
    now = allowed_now(pool, total, at) if at is not None and not fault else {}
    return Calendar(start, total, by_action, fault, without, at, now)


def allowed_now(pool: NodePool, total: int, now: datetime) -> dict[Action, AllowedNow]:
    """What the budgets of a valid NodePool allow now for each action that they apply to, and when that changes."""
    found = {}
    for reason, action in ACTION_BY_REASON.items():
        if budgets_apply(pool, reason):
            own = [each for each in pool.budgets if reason in each.reasons]
            found[action] = _until_change(own, total, now)
    return found


def _until_change(budgets: Sequence[Budget], total: int, now: datetime) -> AllowedNow:
    """Follow the edges of the windows to the first one at which the limit is another."""
    limit = _limit(budgets, total, now)
    at = now
    for _ in range(MOST_WINDOWS):
        edges = [edge for each in budgets if (edge := each.closes_at(at) or each.opens_at(at)) is not None]
        if not edges:
            break
        at = min(edges)
        if (then := _limit(budgets, total, at)) != limit:
            return AllowedNow(limit, at, then)
    return AllowedNow(limit)


def _limit(budgets: Sequence[Budget], total: int, at: datetime) -> int | None:
    return min((each.limit(total) for each in budgets if each.in_force(at)), default=None)


class _Pattern(NamedTuple):
    """A budget window within one hour.

    `carried` is how long it stays open from a start before the hour. Bit n of `minutes` is set if it opens at minute n.
    """

    carried: timedelta
    minutes: int
    duration: timedelta

    def open_at(self, offset: timedelta) -> bool:
        """Whether it is open at this offset from the start of the hour."""
        earlier = self.minutes & ((2 << offset // MINUTE) - 1)
        opened = MINUTE * (earlier.bit_length() - 1)
        return offset < self.carried or (bool(earlier) and offset - opened < self.duration)

    def edges(self) -> Iterator[timedelta]:
        """The offsets at which it may open or close."""
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
    """The limits of one hour, found by checking each instant at which a window opens or closes."""
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
