"""Answers kept for a while, on the clock that was handed in. An answer that is being fetched is fetched once."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from dovetail.ports.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Answers by key, each forgotten `lifetime` after it came. Failures are not kept."""

    def __init__(self, clock: Clock, lifetime: timedelta) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self._kept: dict[K, tuple[datetime, V]] = {}
        self._locks: dict[K, asyncio.Lock] = {}

    async def get(self, key: K, fetch: Callable[[], Awaitable[V]]) -> V:
        """The answer, fetched unless one is still good."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self._kept.get(key)
            if known is None or known[0] <= self._clock.now():
                self._sweep()
                known = (self._clock.now() + self._lifetime, await fetch())
                self._kept[key] = known
            return known[1]

    def forget(self, key: K) -> None:
        """Ask anew next time."""
        self._kept.pop(key, None)

    def clear(self) -> None:
        """Ask everything anew."""
        self._kept.clear()

    def _sweep(self) -> None:
        now = self._clock.now()
        for key in [key for key, (until, _) in self._kept.items() if until <= now]:
            del self._kept[key]
            if not self._locks[key].locked():
                del self._locks[key]
