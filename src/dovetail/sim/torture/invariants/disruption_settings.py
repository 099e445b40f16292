"""Reads `spec.disruption` of a NodePool: budgets, their cron schedules, delays and the consolidation policy.

Which budgets apply to a reason: those of the `actionControls` entry of the most specific action that has a list of
budgets, and those of `spec.disruption.budgets`. The default list, one budget of 10 %, applies only to reasons without
such an entry. The limit is the minimum of the budgets in force. A pool with an unreadable budget allows no disruption.

Schedules have five fields in UTC (minute, hour, day of month, month, day of week) with `*`, `?`, lists, ranges, steps
and names, or are macros such as `@daily`. The window of a budget is open at `now` if the schedule fires at a minute `m`
with `now - duration < m <= now`. Stepping back minute by minute is slow, but simple enough to be a reference for the
implementation under test.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from dovetail.sim.torture.invariants.readers import NEVER, Plain, duration, scaled_value

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_NAMES: tuple[dict[str, int], ...] = ({}, {}, {}, _MONTHS, _DAYS)
_MINUTE = timedelta(minutes=1)
_MAX_STEPS = 14 * 24 * 60  # minutes

Fields = tuple[frozenset[int], ...]


def is_open(schedule: str, seconds: float, now: datetime) -> bool:
    """Whether the window that opens by the schedule and lasts so many seconds is open. ValueError if unreadable."""
    fields, either_day = parse_schedule(schedule)
    minute = now.replace(second=0, microsecond=0)
    for _ in range(_MAX_STEPS):
        if (now - minute).total_seconds() >= seconds:
            return False
        if _fires(fields, minute, either_day=either_day):
            return True
        minute -= _MINUTE
    return False


@lru_cache(maxsize=256)
def parse_schedule(schedule: str) -> tuple[Fields, bool]:
    """The values of each field, and whether matching either of the two day fields is enough (both are restricted)."""
    texts = _MACROS.get(schedule, schedule).split()
    if len(texts) != len(_RANGES):
        raise ValueError(f"{schedule!r} does not have five fields")
    fields = tuple(_field(text, number) for number, text in enumerate(texts))
    restricted = [text.split("/")[0] not in ("*", "?") or "/" in text for text in (texts[2], texts[4])]
    return fields, all(restricted)


def _field(text: str, number: int) -> frozenset[int]:
    return frozenset(value for part in text.split(",") for value in _part(part, number))


def _part(part: str, number: int) -> range:
    low, high = _RANGES[number]
    span, slash, step = part.partition("/")
    first, dash, last = span.partition("-")
    if span in ("*", "?"):
        start, end = low, high
    else:
        start = _value(first, number)
        end = _value(last, number) if dash else (high if slash else start)
    every = int(step) if slash else 1
    if not (low <= start <= end <= high) or every < 1:
        raise ValueError(f"{part!r} is out of range")
    return range(start, end + 1, every)


def _value(text: str, number: int) -> int:
    known = _NAMES[number].get(text.lower())
    return known if known is not None else int(text)


def _fires(fields: Fields, at: datetime, *, either_day: bool) -> bool:
    minutes, hours, days, months, weekdays = fields
    if at.minute not in minutes or at.hour not in hours or at.month not in months:
        return False
    by_day, by_weekday = at.day in days, at.isoweekday() % 7 in weekdays
    return by_day or by_weekday if either_day else by_day and by_weekday


VOLUNTARY = frozenset({"Empty", "Underutilized", "Drifted", "Expired"})
_REASONS = {
    "All": VOLUNTARY,
    "Consolidation": {"Empty", "Underutilized"},
    "Emptiness": {"Empty"},
    "Drift": {"Drifted"},
    "Expiration": {"Expired"},
}
_ACTIONS = {
    "Empty": ("Emptiness", "Consolidation", "All"),
    "Underutilized": ("Consolidation", "All"),
    "Drifted": ("Drift", "All"),
    "Expired": ("Expiration", "All"),
}
_DEFAULT_BUDGETS = [{"nodes": "10%"}]


def disruption_of(pool: Plain) -> Plain:
    """`spec.disruption` of a NodePool."""
    found: Plain = pool["spec"].get("disruption") or {}
    return found


def allowed_disruptions(pool: Plain, reason: str, total: int, now: datetime) -> int | None:
    """How many of `total` nodes may be disrupted for a reason; None for no limit."""
    try:
        limits = [scaled_value(budget.get("nodes", "10%"), total) for budget in _active_budgets(pool, reason, now)]
    except ValueError:
        return 0
    return min(limits, default=None)


def _active_budgets(pool: Plain, reason: str, now: datetime) -> Iterator[Plain]:
    for budget, reasons in _budgets(pool):
        schedule, window = budget.get("schedule"), budget.get("duration")
        if (schedule is None) != (window is None):
            raise ValueError("a budget needs both schedule and duration, or neither")
        closed = schedule is not None and not is_open(schedule, duration(str(window)), now)
        if reason in reasons and not closed:
            yield budget
        scaled_value(budget.get("nodes", "10%"), 0)  # ValueError: an unreadable budget blocks every reason


def _budgets(pool: Plain) -> Iterator[tuple[Plain, frozenset[str]]]:
    """Each budget with the reasons it applies to."""
    controls = _action_controls(pool)
    action_by_reason = {reason: _most_specific_action(controls, reason, "budgets") for reason in VOLUNTARY}
    configured = disruption_of(pool).get("budgets", _DEFAULT_BUDGETS)
    is_default = configured == _DEFAULT_BUDGETS
    reasons = {reason for reason in VOLUNTARY if not is_default or action_by_reason[reason] is None}
    for budget in configured or ():
        yield budget, frozenset(_reasons_of(budget) & reasons)
    for action, entry in controls.items():
        for budget in entry.get("budgets") or ():
            yield budget, frozenset(reason for reason, applied in action_by_reason.items() if applied == action)


def _reasons_of(budget: Plain) -> frozenset[str]:
    """The reasons that a budget lists; all of them if it lists none."""
    if budget.get("reasons") is not None:
        return frozenset(budget["reasons"])
    action = budget.get("action") or "All"
    if action not in _REASONS:
        raise ValueError(f"{action!r} is not an action")
    return frozenset(_REASONS[action])


def _action_controls(pool: Plain) -> Plain:
    disruption = disruption_of(pool)
    found: Plain = disruption.get("actionControls") or disruption.get("genericPerActionControls") or {}
    return found


def _most_specific_action(controls: Plain, reason: str, field: str) -> str | None:
    """The most specific action for a reason whose entry has the field."""
    return next((each for each in _ACTIONS[reason] if (controls.get(each) or {}).get(field) is not None), None)


def disruption_delay(pool: Plain, reason: str) -> float:
    """Seconds before a node may be disrupted for this reason; infinite for never.

    Counted from the last event of its pods (Empty, Underutilized), from the condition Drifted, or from its creation.
    """
    controls, disruption = _action_controls(pool), disruption_of(pool)
    action = _most_specific_action(controls, reason, "disruptAfter")
    delays = [duration(controls[action]["disruptAfter"])] if action is not None else []
    if reason in ("Empty", "Underutilized"):
        delays.append(duration(disruption.get("consolidateAfter") or "0s"))
        grace = disruption.get("consolidationGracePeriod") or "Never"
        delays.append(0.0 if grace == "Never" else duration(grace))
    if reason == "Expired":
        if "expireAfter" not in disruption and action != "Expiration":
            return NEVER
        delays.append(duration(disruption.get("expireAfter", "0s")))
    return max(delays, default=0.0)


def consolidation_window(pool: Plain) -> float:
    """Seconds after a pod event in which consolidation moves no pods to the node. `Never` excludes no destination."""
    controls, disruption = _action_controls(pool), disruption_of(pool)
    action = _most_specific_action(controls, "Underutilized", "disruptAfter")
    controlled = controls[action]["disruptAfter"] if action is not None else "0s"
    quiet = max(duration(disruption.get("consolidateAfter") or "0s"), duration(controlled))
    grace = duration(disruption.get("consolidationGracePeriod") or "Never")
    return max((each for each in (quiet, grace) if each != NEVER), default=0.0)


def is_restrained(pool: Plain) -> bool:
    """Whether consolidation must save a minimum for its evictions: by default, except with the policy Balanced."""
    disruption = disruption_of(pool)
    default = "0%" if disruption.get("consolidationPolicy") == "Balanced" else "100%"
    return str(disruption.get("minSavings", default)).strip("0") != "%"


def only_when_empty(pool: Plain) -> bool:
    """Whether the pool consolidates empty nodes only."""
    return disruption_of(pool).get("consolidationPolicy") == "WhenEmpty"
