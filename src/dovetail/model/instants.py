"""Arithmetic on instants that cannot overflow, and their Kubernetes format.

Python's datetime ends with the year 9999, and adding a span beyond that raises OverflowError. Instants and spans come
from API objects, where both may be extreme, so a sum out of range becomes the first or last instant.
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
        raise TypeError("an instant needs a time zone; pass an aware datetime")
    try:
        return instant.astimezone(UTC)
    except OverflowError:  # the first or last day of the range, in a zone other than UTC
        return LAST_INSTANT if instant.year > 1 else FIRST_INSTANT


def stamp(instant: datetime) -> str:
    """The format of Kubernetes: UTC, to the second. `strftime` does not pad the year 1 with zeros."""
    return to_utc(instant).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def moment(instant: datetime, now: datetime) -> str:
    """A time for people, in UTC: without the date if it is today, without seconds if they are zero."""
    clock = f"{instant:%H:%M}" if instant.second == 0 else f"{instant:%H:%M:%S}"
    if instant.date() == now.date():
        return f"{clock} UTC"
    return f"{instant:%a %d %b} {clock} UTC" if instant.year == now.year else f"{instant:%d %b %Y} {clock} UTC"


def seconds(number: int) -> timedelta:
    """A span of that many seconds, at most the longest timedelta."""
    try:
        return timedelta(seconds=number)
    except OverflowError:
        return timedelta.max if number > 0 else timedelta.min
