"""The source of the current time. Waiting uses the event loop, so a loop on virtual time moves both together."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The current instant, aware and in UTC."""

    def now(self) -> datetime:
        """Return the current instant."""
        ...
