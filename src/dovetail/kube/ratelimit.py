"""How fast we may call: a token bucket on the event loop's clock.

Calls are let through in the order they came. A call that must wait books its turn at once, so nobody overtakes it, and
gives the turn back if it is cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable


class RateLimit:
    """At most `burst` calls at once and `qps` a second in the long run."""

    def __init__(
        self,
        qps: float,
        burst: int,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"a rate limit needs qps > 0 and burst >= 1, got {qps} and {burst}")
        self._qps = qps
        self._burst = burst
        self._clock = clock or asyncio.get_running_loop().time
        self._sleep = sleep
        self._tokens = float(burst)  # below zero: so many calls are waiting
        self._filled_at = self._clock()

    async def take(self) -> None:
        """Return when it is this call's turn."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        self._tokens -= 1
        if self._tokens >= 0:
            return
        try:
            await self._sleep(-self._tokens / self._qps)
        except asyncio.CancelledError:
            self._tokens += 1
            raise
