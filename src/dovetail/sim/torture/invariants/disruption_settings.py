"""Whether the window of a disruption budget is open: cron schedules, evaluated minute by minute.

Minute, hour, day of month, month, day of week, in UTC; `*`, `?`, lists, ranges, steps and names; macros such as
`@daily`. A window is open at `now` if the schedule fires at a minute `m` with `now - duration < m <= now`. Stepping
through the minutes is slow and hard to get wrong, which is what the check of a budget needs.

What `spec.disruption` of a NodePool permits: how many nodes, for which reason, when, and after which wait.

Which budgets govern a reason: the `actionControls` entry of the most specific action that has a list of budgets, and
`spec.disruption.budgets`. The default list, one budget of 10 %, governs only reasons that no entry governs. The limit
is the minimum over the budgets in force. A pool with a budget that cannot be read allows nothing.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from dovetail.sim.torture.invariants.readers import NEVER, Plain, duration, share

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
_DAYS_AND_MORE = 14 * 24 * 60  # minutes that are stepped through at most

Fields = tuple[frozenset[int], ...]


def is_open(schedule: str, seconds: float, now: datetime) -> bool:
    """Whether a window of that many seconds, which opens by the schedule, is open. ValueError if it cannot be read."""
    fields, days_are_either = parse(schedule)
    minute = now.replace(second=0, microsecond=0)
    for _ in range(_DAYS_AND_MORE):
        if (now - minute).total_seconds() >= seconds:
            return False
        if _fires(fields, minute, days_are_either=days_are_either):
            return True
        minute -= _MINUTE
    return False


@lru_cache(maxsize=256)
def parse(schedule: str) -> tuple[Fields, bool]:
    """The values of each field, and whether a day may match either of the two fields for days."""
    written = _MACROS.get(schedule, schedule).split()
    if len(written) != len(_RANGES):
        raise ValueError(f"{schedule!r} does not have five fields")
    fields = tuple(_field(text, number) for number, text in enumerate(written))
    restricted = [text.split("/")[0] not in ("*", "?") or "/" in text for text in (written[2], written[4])]
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


def _fires(fields: Fields, at: datetime, *, days_are_either: bool) -> bool:
    minutes, hours, days, months, weekdays = fields
    if at.minute not in minutes or at.hour not in hours or at.month not in months:
        return False
    by_day, by_weekday = at.day in days, at.isoweekday() % 7 in weekdays
    return by_day or by_weekday if days_are_either else by_day and by_weekday


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
_DEFAULT = [{"nodes": "10%"}]


def disruption_of(pool: Plain) -> Plain:
    """`spec.disruption` of a NodePool."""
    found: Plain = pool["spec"].get("disruption") or {}
    return found


def allowed(pool: Plain, reason: str, total: int, now: datetime) -> int | None:
    """How many of that many nodes may be disrupted for a reason; None if there is no limit."""
    try:
        limits = [share(budget.get("nodes", "10%"), total) for budget in _in_force(pool, reason, now)]
    except ValueError:
        return 0
    return min(limits, default=None)


def _in_force(pool: Plain, reason: str, now: datetime) -> Iterator[Plain]:
    for budget, reasons in _budgets(pool):
        schedule, lasting = budget.get("schedule"), budget.get("duration")
        if (schedule is None) != (lasting is None):
            raise ValueError("a schedule needs a duration, and a duration a schedule")
        closed = schedule is not None and not is_open(schedule, duration(str(lasting)), now)
        if reason in reasons and not closed:
            yield budget
        share(budget.get("nodes", "10%"), 0)  # one that cannot be read blocks every reason


def _budgets(pool: Plain) -> Iterator[tuple[Plain, frozenset[str]]]:
    """Each budget, with the reasons it governs."""
    entries = _entries(pool)
    governed = {reason: _entry_for(entries, reason, "budgets") for reason in VOLUNTARY}
    written = disruption_of(pool).get("budgets", _DEFAULT)
    left = {reason for reason, action in governed.items() if action is None} if written == _DEFAULT else VOLUNTARY
    for budget in written or ():
        yield budget, frozenset(_named(budget) & left)
    for action, entry in entries.items():
        for budget in entry.get("budgets") or ():
            yield budget, frozenset(reason for reason, by in governed.items() if by == action)


def _named(budget: Plain) -> frozenset[str]:
    """The reasons that a budget names; all of them if it names none."""
    if budget.get("reasons") is not None:
        return frozenset(budget["reasons"])
    action = budget.get("action") or "All"
    if action not in _REASONS:
        raise ValueError(f"{action!r} is no action")
    return frozenset(_REASONS[action])


def _entries(pool: Plain) -> Plain:
    disruption = disruption_of(pool)
    found: Plain = disruption.get("actionControls") or disruption.get("genericPerActionControls") or {}
    return found


def _entry_for(entries: Plain, reason: str, field: str) -> str | None:
    """The most specific action for a reason whose entry has the field."""
    return next((each for each in _ACTIONS[reason] if (entries.get(each) or {}).get(field) is not None), None)


def wait_for(pool: Plain, reason: str) -> float:
    """Seconds that a node has to wait before it may go for this reason; infinite for never.

    Counted from the last event of its pods (Empty, Underutilized), from the condition Drifted, or from its creation.
    """
    entries, disruption = _entries(pool), disruption_of(pool)
    action = _entry_for(entries, reason, "disruptAfter")
    waits = [duration(entries[action]["disruptAfter"])] if action is not None else []
    if reason in ("Empty", "Underutilized"):
        waits.append(duration(disruption.get("consolidateAfter") or "0s"))
        grace = disruption.get("consolidationGracePeriod") or "Never"
        waits.append(0.0 if grace == "Never" else duration(grace))
    if reason == "Expired":
        if "expireAfter" not in disruption and action != "Expiration":
            return NEVER
        waits.append(duration(disruption.get("expireAfter", "0s")))
    return max(waits, default=0.0)


def consolidation_window(pool: Plain) -> float:
    """Seconds for which a node takes no pods of consolidation after a pod event. `Never` closes no destination."""
    entries, disruption = _entries(pool), disruption_of(pool)
    action = _entry_for(entries, "Underutilized", "disruptAfter")
    controlled = entries[action]["disruptAfter"] if action is not None else "0s"
    quiet = max(duration(disruption.get("consolidateAfter") or "0s"), duration(controlled))
    grace = duration(disruption.get("consolidationGracePeriod") or "Never")
    return max((each for each in (quiet, grace) if each != NEVER), default=0.0)


def only_when_empty(pool: Plain) -> bool:
    """Whether the policy of the pool takes empty nodes alone."""
    return disruption_of(pool).get("consolidationPolicy") == "WhenEmpty"
