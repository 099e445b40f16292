"""A token bucket on somebody else's clock."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many a second in the long run, and how many at once."""

    per_second: float
    burst: int


class TokenBucket:
    """Starts full and refills with time. A clock that goes back refills nothing."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._filled_at: datetime | None = None

    def take(self, now: datetime) -> bool:
        """Take a token, if there is one."""
        if self._filled_at is not None and now > self._filled_at:
            gained = (now - self._filled_at).total_seconds() * self._rate.per_second
            self._tokens = min(self._tokens + gained, float(self._rate.burst))
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
