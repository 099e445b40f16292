"""Cron schedules of disruption budgets: when one fires next, and when it fired last.

The dialect is that of robfig/cron's standard parser, in UTC: minute, hour, day of month, month, day of week, or a macro
such as `@daily`. Zones, seconds, `@every` and weekday 7 are refused. Nothing here reads a clock. Each field is a
bitmask and the search jumps from month to month, so a rare schedule costs little more than a busy one.

A schedule fires at the same minutes of every firing day. So there are two kinds of gaps: between two minutes of a day,
and between the last minute of a day and the first minute of the next firing day. `last_before_gap` checks each once.
"""

from calendar import monthrange
from collections.abc import Iterator
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from dovetail.model.instants import LAST_INSTANT, subtract, to_utc

_MINUTE = timedelta(minutes=1)
_MINUTES_PER_DAY = 24 * 60
_CYCLE_YEARS = 400  # after which the calendar repeats, weekdays included
_HORIZON_YEARS = 5  # the search for the next firing ends after this many years
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class _Field(NamedTuple):
    """One of the five fields of a schedule."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # the first one means `low`


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    _Field("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)


class _Mask(NamedTuple):
    """The values that a field admits, as bits; `star` if it is `*`."""

    bits: int
    star: bool


class CronSchedule:
    """A parsed schedule. Equal if the texts are equal."""

    __slots__ = ("_days", "_hours", "_minutes", "_months", "_restricts_both", "_times", "_weekdays", "text")

    def __init__(self, text: str, masks: list[_Mask]) -> None:
        minute, hour, day, month, weekday = masks
        self.text: Final = text
        self._minutes: Final = minute.bits
        self._hours: Final = hour.bits
        self._times: Final = sum(minute.bits << 60 * each for each in range(24) if hour.bits >> each & 1)
        """The minutes of a firing day, as bits."""
        self._days: Final = day.bits
        self._months: Final = month.bits
        self._restricts_both: Final = not (day.star or weekday.star)
        self._weekdays: Final = tuple(_days_on(weekday.bits, first) for first in range(7))

    @staticmethod
    def parse(text: str) -> "CronSchedule":
        """Read five fields or a macro; ValueError names the field, the value, its range and a remedy."""
        return _parse(text)

    @property
    def never_fires(self) -> bool:
        """Whether no date at all can satisfy it, as with 30 February."""
        if not (self._minutes and self._hours and self._months):
            return True
        if self._restricts_both and self._weekdays[0]:
            return False
        lengths = (days for month, days in enumerate(_DAYS_IN_MONTH, start=1) if self._months >> month & 1)
        return not self._weekdays[0] or not self._days & ((2 << max(lengths)) - 1)

    def minutes_of(self, hour: datetime) -> int:
        """The minutes at which it fires in the hour of this instant, as bits."""
        at = to_utc(hour)
        return self._minutes if self._hours >> at.hour & 1 and self._fires_on(at) else 0

    def next_after(self, instant: datetime) -> datetime | None:
        """The first firing strictly after `instant`; None if there is none within the horizon of five years."""
        now = to_utc(instant).replace(microsecond=0)
        if self.never_fires or now > LAST_INSTANT - _MINUTE:
            return None
        last_year = min((now + timedelta(seconds=1)).year + _HORIZON_YEARS, MAXYEAR)
        start = now.replace(second=0) + _MINUTE
        year, month, day = start.year, start.month, start.day
        if self._fires_on(start):
            minute = self._next_minute(start.hour, start.minute)
            if minute is not None:
                return start.replace(hour=minute[0], minute=minute[1])
        while year <= last_year:
            later = self._days_of(year, month) >> (day + 1) << (day + 1)
            if later:
                return datetime(year, month, _lowest(later), _lowest(self._hours), _lowest(self._minutes), tzinfo=UTC)
            year, month, day = (year, month + 1, 0) if month < 12 else (year + 1, 1, 0)
        return None

    def last_at_or_before(self, instant: datetime, within: timedelta) -> datetime | None:
        """The latest firing h with `instant - within < h <= instant`: the one whose window of that length is open."""
        now = to_utc(instant)
        start = now.replace(second=0, microsecond=0)
        fired_at = None if self.never_fires else self._last(start, subtract(now, within))
        return fired_at if fired_at is not None and now - fired_at < within else None

    def last_before_gap(self, fired_at: datetime, longest: timedelta) -> datetime | None:
        """The first firing, from this one on, that no other follows within `longest`; None if each is followed."""
        minutes = longest // _MINUTE  # gaps are whole minutes
        day, at, last = fired_at.date(), fired_at.hour * 60 + fired_at.minute, _highest(self._times)
        unfollowed = _unfollowed(self._times, minutes)
        minute = _lowest(unfollowed >> at << at)
        if minute != last:
            return _instant(day, minute)
        if _lowest(unfollowed) == last:  # no gap within a day
            apart = (minutes + last - _lowest(self._times)) // _MINUTES_PER_DAY  # that two firing days may be, in days
            last_day = _last_day_before_gap(self, day, apart)
            return None if last_day is None else _instant(last_day, last)
        following = self.next_after(_instant(day, last))
        if following is None or following - _instant(day, last) > longest:
            return _instant(day, last)
        return _instant(following.date(), _lowest(unfollowed))

    def firing_days(self, since: date) -> Iterator[tuple[date, int]]:
        """The first of each month and its firing days as bits, from `since` through one cycle of the calendar."""
        for number in range(12 * since.year + since.month - 1, 12 * min(since.year + _CYCLE_YEARS + 1, MAXYEAR + 1)):
            year, month = number // 12, number % 12 + 1
            yield date(year, month, 1), self._days_of(year, month)

    def _last(self, start: datetime, floor: datetime) -> datetime | None:
        year, month, day = start.year, start.month, start.day
        if self._fires_on(start):
            minute = self._previous_minute(start.hour, start.minute)
            if minute is not None:
                return start.replace(hour=minute[0], minute=minute[1])
        while (year, month) >= (floor.year, floor.month):
            earlier = self._days_of(year, month) & ((1 << day) - 1)
            if earlier:
                hour, minute_ = _highest(self._hours), _highest(self._minutes)
                return datetime(year, month, _highest(earlier), hour, minute_, tzinfo=UTC)
            year, month, day = (year, month - 1, 32) if month > 1 else (year - 1, 12, 32)
        return None

    def _fires_on(self, day: datetime) -> bool:
        return bool(self._days_of(day.year, day.month) >> day.day & 1)

    def _days_of(self, year: int, month: int) -> int:
        """The days of this month on which it fires, as bits."""
        if not self._months >> month & 1:
            return 0
        first, length = monthrange(year, month)
        on_weekdays = self._weekdays[(first + 1) % 7]  # cron's week starts on Sunday, Python's on Monday
        days = self._days | on_weekdays if self._restricts_both else self._days & on_weekdays
        return days & ((2 << length) - 1)

    def _next_minute(self, hour: int, minute: int) -> tuple[int, int] | None:
        minutes = self._minutes >> minute << minute
        if minutes and self._hours >> hour & 1:
            return hour, _lowest(minutes)
        hours = self._hours >> (hour + 1) << (hour + 1)
        return (_lowest(hours), _lowest(self._minutes)) if hours else None

    def _previous_minute(self, hour: int, minute: int) -> tuple[int, int] | None:
        minutes = self._minutes & ((2 << minute) - 1)
        if minutes and self._hours >> hour & 1:
            return hour, _highest(minutes)
        hours = self._hours & ((1 << hour) - 1)
        return (_highest(hours), _highest(self._minutes)) if hours else None

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, CronSchedule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"CronSchedule({self.text!r})"


@lru_cache(maxsize=1024)
def _last_day_before_gap(schedule: CronSchedule, since: date, longest: int) -> date | None:
    """The first firing day, from the firing day `since` on, that no other follows within `longest` days, or None."""
    last = since
    for first, days in schedule.firing_days(since):
        bits = days >> since.day << since.day if first <= since else days
        if not bits:
            continue
        if (first - last).days + _lowest(bits) - 1 > longest:
            return last
        unfollowed = _lowest(_unfollowed(bits, longest))
        last = first.replace(day=unfollowed)
        if unfollowed != _highest(bits):
            return last
    return None


@lru_cache(maxsize=1024)
def _parse(text: str) -> CronSchedule:
    spelled = text.strip()
    if spelled.startswith("@"):
        if spelled not in _MACROS:
            raise ValueError(f"schedule {text!r} is not a known macro; use one of {', '.join(_MACROS)}, or five fields")
        spelled = _MACROS[spelled]
    fields = spelled.split()
    if fields and fields[0].startswith(("TZ=", "CRON_TZ=")):
        raise ValueError(f"schedule {text!r} names a time zone; schedules are read in UTC, so leave {fields[0]!r} out")
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"schedule {text!r} has {len(fields)} fields; needs five (minute, hour, day of month, month, day of week),"
            ' such as "0 9 * * mon-fri"'
        )
    try:
        return CronSchedule(text, [_mask(value, field) for value, field in zip(fields, _FIELDS, strict=True)])
    except ValueError as fault:
        raise ValueError(f"schedule {text!r}: {fault}") from None


def _mask(text: str, field: _Field) -> _Mask:
    parts = [_part(part, field) for part in text.split(",") if part]
    bits = 0
    for part in parts:
        bits |= part.bits
    return _Mask(bits, any(part.star for part in parts))


def _part(text: str, field: _Field) -> _Mask:
    """One range of a list: `*`, `N`, `N-M`, each with an optional `/step`; `N/step` runs to the end of the field."""
    span, slash, stride = text.partition("/")
    ends = span.split("-")
    star = ends[0] in ("*", "?")  # robfig/cron ignores what follows the hyphen after a star
    step = _number(stride, field, text) if slash else 1
    if star:
        low, high = field.low, field.high
    elif len(ends) > 2:
        raise _fault(field, text, "it has too many hyphens")
    else:
        low = _named(ends[0], field, text)
        high = _named(ends[1], field, text) if len(ends) == 2 else field.high if slash else low
    if step == 0:
        raise _fault(field, text, "its step is zero")
    if low < field.low or high > field.high:
        weekday_seven = field.name == "day of week" and 7 in (low, high)
        raise _fault(field, text, "Sunday is 0" if weekday_seven else "it is out of range")
    if low > high:
        raise _fault(field, text, f"its start ({low}) is after its end ({high}); write two ranges with a comma")
    return _Mask(sum(1 << value for value in range(low, high + 1, step)), star and step == 1)


def _named(text: str, field: _Field, whole: str) -> int:
    name = text.lower()
    return field.names.index(name) + field.low if name in field.names else _number(text, field, whole)


def _number(text: str, field: _Field, whole: str) -> int:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise _fault(field, whole, f"{text!r} is not a number" + (" or a name" if field.names else ""))
    return int(digits)


def _fault(field: _Field, value: str, problem: str) -> ValueError:
    names = f" or {field.names[0]}-{field.names[-1]}" if field.names else ""
    return ValueError(
        f"{field.name} {value!r} cannot be used: {problem}; "
        f"use {field.low}-{field.high}{names}, as *, a value, a list, a range, or a range with a step such as */2"
    )


def _days_on(weekdays: int, first: int) -> int:
    """The days of a month that fall on these weekdays, when the first of the month is weekday `first` (Sunday 0)."""
    return sum(1 << day for day in range(1, 32) if weekdays >> ((first + day - 1) % 7) & 1)


def _unfollowed(bits: int, within: int) -> int:
    """Those bits after which none of the next `within` is set; the highest always is one."""
    near, reach, wanted = 0, 0, min(within, bits.bit_length())
    while reach < wanted:  # `near` has every bit with another among the next `reach`: doubled until that is enough
        step = min(max(reach, 1), wanted - reach)
        near |= (near if reach else bits) >> step
        reach += step
    return bits & ~near


def _instant(day: date, minute: int) -> datetime:
    return datetime(day.year, day.month, day.day, minute // 60, minute % 60, tzinfo=UTC)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _highest(bits: int) -> int:
    return bits.bit_length() - 1
