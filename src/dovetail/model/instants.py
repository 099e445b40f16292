"""Adding spans to instants without leaving the calendar.

Python's calendar ends with the year 9999, and adding a span that leads beyond it raises OverflowError. Instants and
spans come from API objects, where both may be extreme, so a sum that leaves the calendar is its first or last instant.
"""

from datetime import UTC, datetime, timedelta

FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)
_ZERO = timedelta()


def add(instant: datetime, span: timedelta) -> datetime:
    """`instant + span`, at most the last instant of the calendar."""
    try:
        return instant + span
    except OverflowError:
        return LAST_INSTANT if span > _ZERO else FIRST_INSTANT


def subtract(instant: datetime, span: timedelta) -> datetime:
    """`instant - span`, at least the first instant of the calendar."""
    try:
        return instant - span
    except OverflowError:
        return FIRST_INSTANT if span > _ZERO else LAST_INSTANT


def to_utc(instant: datetime) -> datetime:
    """The same instant in UTC; TypeError if it has no time zone."""
    if instant.tzinfo is None:
        raise TypeError("an instant carries its time zone; pass an aware datetime")
    try:
        return instant.astimezone(UTC)
    except OverflowError:  # a day at the edge of the calendar, in a zone that is ahead or behind
        return LAST_INSTANT if instant.year > 1 else FIRST_INSTANT


def stamp(instant: datetime) -> str:
    """As Kubernetes writes an instant, in UTC and to the second. `strftime` would leave out the zeros of year 1."""
    return to_utc(instant).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def seconds(number: int) -> timedelta:
    """A span of that many seconds; the longest span there is where that is too many."""
    try:
        return timedelta(seconds=number)
    except OverflowError:
        return timedelta.max if number > 0 else timedelta.min
