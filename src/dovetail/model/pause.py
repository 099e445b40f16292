"""Pauses of voluntary disruption that users set: for everything, by a ConfigMap, or for one NodePool.

The annotation is `true`, `false`, or an instant until which the pause lasts. Any other value pauses too, and the reason
names it: the user wanted to stop disruption.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

PAUSE = "dovetail.sh/pause"
SWITCH = "dovetail"
"""The name of the ConfigMap, in the namespace where the controller keeps its Lease."""
UNREAD = "(not read yet)"
"""The value used until the ConfigMap has been read; it pauses."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause in force. `until` None: until the annotation is removed."""

    by: str
    until: datetime | None = None
    fault: str = ""

    def __str__(self) -> str:
        lasting = f" until {self.until:%Y-%m-%dT%H:%M:%SZ}" if self.until is not None else ""
        fault = f", because {self.fault}" if self.fault else ""
        return f"disruption is paused by {self.by}{lasting}{fault}"


def read_pause(written: str | None, by: str, now: datetime) -> Pause | None:
    """The pause that an annotation value means now, or None."""
    if written is None or written == "false":
        return None
    if written == "true":
        return Pause(by)
    if written == UNREAD:
        return Pause(by, fault="it could not be read yet")
    until = _instant(written)
    if until is None:
        example = "true, false or an instant such as 2026-01-05T12:00:00Z"
        return Pause(by, fault=f'"{PAUSE}" is {written!r}, which is not {example}')
    return Pause(by, until) if now < until else None


def _instant(written: str) -> datetime | None:
    try:
        until = datetime.fromisoformat(written)
        return until.astimezone(UTC) if until.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
