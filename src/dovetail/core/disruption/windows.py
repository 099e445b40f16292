"""When budgets open and close, and what they allow hour by hour.

Arithmetic over schedules; nothing here reads a clock. Windows that follow each other without a gap count as one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dovetail.core.disruption.allowance import read_budgets
from dovetail.model.budget import Budget, Window
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Action, Reason

HOUR = timedelta(hours=1)
MOST_HITS = 20_000
"""Windows that follow each other this often without a gap have no end worth telling."""

ACTION_BY_REASON = {
    Reason.EXPIRED: Action.EXPIRATION,
    Reason.DRIFTED: Action.DRIFT,
    Reason.EMPTY: Action.EMPTINESS,
    Reason.UNDERUTILIZED: Action.CONSOLIDATION,
}
"""What people call it when a node goes for this reason, in the order methods are tried."""


def closes_at(window: Window | None, now: datetime) -> datetime | None:
    """When a window that is open closes; None if it never does, or is closed."""
    if window is None:
        return None
    end = now
    for _ in range(MOST_HITS):
        hit = window.schedule.last_at_or_before(end, window.duration)
        if hit is None:
            return end if end > now else None
        end = hit + window.duration
    return None


def opens_at(window: Window | None, now: datetime) -> datetime | None:
    """When a window opens next; None if it is open, or never opens again."""
    if window is None or window.open_at(now):
        return None
    return window.schedule.next_after(now)


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


def draw_calendar(pool: NodePool, total: int, start: datetime, hours: int) -> Calendar:
    """The ceiling for each action in each hour, for a pool of `total` nodes; a faulty pool allows nothing at all."""
    try:
        budgets = read_budgets(pool)
    except ValueError as error:
        nothing = (Allowed(0, 0),) * hours
        return Calendar(start, total, dict.fromkeys(ACTION_BY_REASON.values(), nothing), fault=str(error))
    end = start + HOUR * hours
    spans = [tuple(_spans(budget.window, start, end)) for budget in budgets]
    edges = sorted({edge for each in spans for span in each for edge in span if start < edge < end})
    instants = _instants(start, hours, edges)
    return Calendar(
        start,
        total,
        {
            action: tuple(_extremes([_ceiling(budgets, reason, total, each) for each in hour]) for hour in instants)
            for reason, action in ACTION_BY_REASON.items()
        },
    )


def _spans(window: Window | None, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The stretches of time between `start` and `end` in which a window is open."""
    now = start
    while window is not None and now < end:
        opened = now if window.open_at(now) else window.schedule.next_after(now)
        if opened is None or opened >= end:
            return
        closed = closes_at(window, opened) or end
        yield opened, closed
        now = closed


def _instants(start: datetime, hours: int, edges: Sequence[datetime]) -> list[list[datetime]]:
    """For each hour, the instants from which on something may be different."""
    instants = [[start + HOUR * hour] for hour in range(hours)]
    for edge in edges:
        instants[(edge - start) // HOUR].append(edge)
    return instants


def _ceiling(budgets: Sequence[Budget], reason: Reason, total: int, now: datetime) -> int | None:
    return min((budget.limit(total) for budget in budgets if budget.governs(reason, now)), default=None)


def _extremes(ceilings: Sequence[int | None]) -> Allowed:
    bounded = [each for each in ceilings if each is not None]
    return Allowed(min(bounded, default=None), max(bounded) if len(bounded) == len(ceilings) else None)
