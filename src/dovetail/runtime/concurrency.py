"""The same step for many items at once: what fails for one keeps the others from nothing.

A hundred calls one after the other take as long as the hundred of them; the connection bounds how many are under way.

Keeps a loop alive when one of its rounds fails: the world may fail, and one bad object must not stop the rest.

Assertions are not caught: they say that we are wrong, not the world.

One answer for everyone who waits for it: a hundred calls that fail at once lead to one look, not to a hundred.

An answer serves only those who had asked before it was begun: what it says is then newer than their call.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from dovetail.ports.errors import WorldError

T = TypeVar("T")
R = TypeVar("R")


async def for_each(step: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """What the step returned for each, in order. All of them are tried; then the first failure is raised."""

    async def run_step(item: T) -> R:
        return await step(item)

    answers = await asyncio.gather(*(run_step(item) for item in items), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


log = logging.getLogger(__name__)


async def guarded(name: str, step: Callable[[], Awaitable[R]]) -> R | None:
    """What a step returns, or None if it failed; the failure is told."""
    try:
        return await step()
    except AssertionError:
        raise
    except WorldError as error:
        log.warning("round failed", extra={"controller": name, "error": str(error)})
    except Exception:
        log.exception("round broke", extra={"controller": name})
    return None


class SingleFlight:
    """Asks one at a time, for all who wait."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._callers = 0  # so many came so far
        self._served = 0  # so many of them have their answer

    async def run(self, call: Callable[[], Awaitable[None]]) -> None:
        """Return once `call` was answered that was put after this call. Whoever fails leaves it to the next."""
        self._callers += 1
        number = self._callers
        async with self._lock:
            if self._served >= number:
                return
            waiting = self._callers
            await call()
            self._served = waiting
