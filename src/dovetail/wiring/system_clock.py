"""The clock of real processes. A module without other imports, because shell completion must start quickly."""

from datetime import UTC, datetime


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)
