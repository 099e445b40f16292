"""One answer for everyone who waits for it: a hundred calls that fail at once lead to one look, not to a hundred.

An answer serves only those who had asked before it was begun: what it says is then newer than their question.
"""

import asyncio
from collections.abc import Awaitable, Callable


class SingleFlight:
    """Asks one at a time, for all who wait."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._askers = 0  # so many came so far
        self._served = 0  # so many of them have their answer

    async def ask(self, question: Callable[[], Awaitable[None]]) -> None:
        """Return once `question` was answered that was put after this call. Whoever fails leaves it to the next."""
        self._askers += 1
        number = self._askers
        async with self._turn:
            if self._served >= number:
                return
            waiting = self._askers
            await question()
            self._served = waiting
