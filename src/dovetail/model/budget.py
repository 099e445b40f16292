"""Disruption budgets of a NodePool: how many nodes may be disrupted at once, for which reasons and in which windows.

`BudgetSpec` is a budget as written in the API, `Budget` the parsed value. `NodePool.budgets` parses all budgets of a
NodePool once. If one is invalid, they become a single `Budget` with a `fault`, which allows no disruption for any
reason at any time (fail closed), so callers need no error handling. Windows follow Karpenter: a cron schedule in UTC
and a duration, start inclusive, end exclusive.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dovetail.model.cron import CronSchedule
from dovetail.model.duration import Duration
from dovetail.model.instants import LAST_INSTANT
from dovetail.model.kube_object import ApiStruct
from dovetail.model.reason import REASONS_BY_ACTION, VOLUNTARY, Action, Reason


class BudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """A budget as written in a NodePool, with either `reasons` or `action`."""

    nodes: str | int = "10%"
    schedule: str | None = None
    duration: Duration | None = None
    reasons: tuple[str, ...] | None = None
    action: str | None = None


DEFAULT_BUDGETS = (BudgetSpec(),)
"""The meaning of an absent list. An explicitly empty list means no limit at all."""

_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # any day works, since the calendar repeats after 400 years


@dataclass(frozen=True, slots=True)
class BudgetWindow:
    """A span of time after each firing of a schedule. Start inclusive, end exclusive, UTC."""

    schedule: CronSchedule
    duration: timedelta

    def open_at(self, now: datetime) -> bool:
        """Whether the schedule fired in `(now - duration, now]`."""
        return self.schedule.last_at_or_before(now, self.duration) is not None

    @property
    def never_closes(self) -> bool:
        """Whether it is always open: each firing follows the previous one within the duration."""
        fired_at = self.schedule.next_after(_SOME_DAY)
        return fired_at is not None and self.schedule.last_before_gap(fired_at, self.duration) is None

    def closes_at(self, now: datetime) -> datetime | None:
        """When it closes, if it is open; windows without a gap between them count as one. None if it never closes."""
        fired_at = self.schedule.last_at_or_before(now, self.duration)
        last = self.schedule.last_before_gap(fired_at, self.duration) if fired_at is not None else None
        return last + self.duration if last is not None and LAST_INSTANT - last >= self.duration else None

    def opens_at(self, now: datetime) -> datetime | None:
        """When it opens next, if it is closed; None if it never does."""
        return None if self.open_at(now) else self.schedule.next_after(now)


@dataclass(frozen=True, slots=True)
class Budget:
    """How many nodes of a NodePool may be disrupted at once, for which reasons and when."""

    spec: BudgetSpec
    count: int | None
    percent: int | None
    reasons: frozenset[Reason]
    window: BudgetWindow | None
    path: str = ""  # its field path in the NodePool
    fault: str = ""  # why the written budget is invalid; then nothing is allowed

    def governs(self, reason: Reason, now: datetime) -> bool:
        """Whether this budget is in force for `reason` at `now`."""
        return reason in self.reasons and self.in_force(now)

    def in_force(self, now: datetime) -> bool:
        """Whether it has no window, or its window is open."""
        return self.window is None or self.window.open_at(now)

    def closes_at(self, now: datetime) -> datetime | None:
        """When it ceases to be in force; None if it never does, or is not in force."""
        return self.window.closes_at(now) if self.window is not None else None

    def opens_at(self, now: datetime) -> datetime | None:
        """When it comes into force; None if it is in force, or never is again."""
        return self.window.opens_at(now) if self.window is not None else None

    def limit(self, total: int) -> int:
        """The most disruptions of `total` nodes: a count as it is, a percentage rounded up."""
        if self.count is not None:
            return self.count
        return -(-total * (self.percent or 0) // 100)


def unreadable_budget(fault: str) -> Budget:
    """Replaces the budgets of a NodePool if one is invalid: allows no disruption for any reason."""
    spec = BudgetSpec(nodes="0")
    return Budget(spec=spec, count=0, percent=None, reasons=VOLUNTARY, window=None, fault=fault)


def parse_budget(spec: BudgetSpec) -> Budget:
    """Parse one budget; ValueError says what is wrong with it."""
    text = str(spec.nodes)
    percent = int(text[:-1]) if text.endswith("%") and text[:-1].isdigit() else None
    if percent is None and not text.isdigit():
        raise ValueError(f"nodes {text!r} is neither a count such as 5 nor a percentage such as 10%")
    return Budget(
        spec=spec,
        count=None if percent is not None else int(text),
        percent=percent,
        reasons=_reasons(spec),
        window=_window(spec),
    )


def _reasons(spec: BudgetSpec) -> frozenset[Reason]:
    if spec.reasons is not None and spec.action is not None:
        raise ValueError("'action' and 'reasons' are two spellings of one thing; keep one of them")
    if spec.reasons is not None:
        if not spec.reasons or not VOLUNTARY.issuperset(spec.reasons):
            raise ValueError(f"reasons {list(spec.reasons)} must name at least one of {', '.join(sorted(VOLUNTARY))}")
        return frozenset(Reason(reason) for reason in spec.reasons)
    return REASONS_BY_ACTION[read_action(spec.action) if spec.action is not None else Action.ALL]


def read_action(text: str) -> Action:
    """Parse an action; ValueError if it is unknown."""
    if text not in set(Action):
        raise ValueError(f"action {text!r} is not known; use one of {', '.join(Action)}")
    return Action(text)


def _window(spec: BudgetSpec) -> BudgetWindow | None:
    if (spec.schedule is None) != (spec.duration is None):
        raise ValueError("'schedule' must be set with 'duration'")
    if spec.schedule is None or spec.duration is None:
        return None
    schedule = CronSchedule.parse(spec.schedule)
    if schedule.never_fires:
        raise ValueError(f"schedule {spec.schedule!r} can never fire")
    if spec.duration.span <= timedelta():
        raise ValueError(f"duration {spec.duration} must be longer than zero; the budget would never come into force")
    return BudgetWindow(schedule, spec.duration.span)
