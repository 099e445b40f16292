"""Computations that take a while on virtual time, as beside the thread of production."""

import asyncio
from collections.abc import Callable
from typing import Any


class SlowCompute:
    """Runs works one at a time; each one reads its snapshot at the start and answers `seconds` later."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = 0
        self._turn = asyncio.Lock()

    @property
    def busy(self) -> bool:
        """Whether a work runs."""
        return self._turn.locked()

    async def run(self, work: Callable[[], Any], /) -> Any:
        """Compute at once, and return the result later."""
        async with self._turn:
            self.began += 1
            result = work()
            await asyncio.sleep(self.seconds)
            return result
