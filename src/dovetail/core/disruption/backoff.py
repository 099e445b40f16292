"""Leaving a NodePool alone for a while when its commands keep failing, so that it cannot starve the others."""

from dataclasses import dataclass
from datetime import datetime, timedelta

FIRST = timedelta(minutes=1)
LONGEST = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class FailedCommands:
    """How often in a row commands of one pool and reason failed, and until when it is left alone."""

    level: int
    until: datetime


def after_failure(before: FailedCommands | None, now: datetime) -> FailedCommands:
    """One more failure: twice the wait, up to a limit. Failures inside the wait count once."""
    if before is not None and now < before.until:
        return before
    level = before.level + 1 if before is not None else 1
    return FailedCommands(level, now + min(FIRST * 2 ** (level - 1), LONGEST))
