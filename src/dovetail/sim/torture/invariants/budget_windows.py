"""Whether the window of a disruption budget is open: cron schedules, evaluated minute by minute.

Minute, hour, day of month, month, day of week, in UTC; `*`, `?`, lists, ranges, steps and names; macros such as
`@daily`. A window is open at `now` if the schedule fires at a minute `m` with `now - duration < m <= now`. Stepping
through the minutes is slow and hard to get wrong, which is what the check of a budget needs.
"""

from datetime import datetime, timedelta
from functools import lru_cache

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
