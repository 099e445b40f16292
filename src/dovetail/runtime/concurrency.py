"""Helpers for concurrent calls.

- `for_each` runs one step for many items concurrently and waits for all; one failing item does not stop the others.
- `guarded` keeps a loop alive: it logs the failure of a round and returns None. Assertions are not caught, because they
  mean a defect, not a failure of the cluster or the cloud.
- `SingleFlight` coalesces concurrent callers of one expensive call. A result serves only callers that arrived before
  the call began, so it is never older than their request.
- `in_turns` lets other tasks run while a loop walks through many objects.
- `timed` measures a computation where it runs, without the wait for its turn.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from dovetail.ports.errors import WorldError

T = TypeVar("T")
R = TypeVar("R")


async def for_each(step: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Return the results in order. All items are tried; then the first failure is raised."""

    async def run_step(item: T) -> R:
        return await step(item)

    answers = await asyncio.gather(*(run_step(item) for item in items), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


log = logging.getLogger(__name__)


async def guarded(name: str, step: Callable[[], Awaitable[R]]) -> R | None:
    """Return the result of the step, or log its failure and return None."""
    try:
        return await step()
    except AssertionError:
        raise
    except WorldError as error:
        log.warning("round failed", extra={"controller": name, "error": str(error)})
    except Exception:
        log.exception("round broke", extra={"controller": name})
    return None


PER_TURN = 200


async def in_turns(items: Iterable[T], per_turn: int = PER_TURN) -> AsyncIterator[T]:
    """Yield the items, and let other tasks run after every `per_turn` of them; the collection must not change."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % per_turn == 0:
            await asyncio.sleep(0)


def timed(work: Callable[[], R], clock: Callable[[], float]) -> tuple[R, float]:
    """Return the result of the work, and the seconds it took by this clock."""
    began = clock()
    result = work()
    return result, clock() - began


class SingleFlight:
    """Runs one call at a time for all waiting callers."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._callers = 0  # number of callers so far
        self._served = 0  # number of the last caller that was served

    async def run(self, call: Callable[[], Awaitable[None]]) -> None:
        """Return once a call that began after this method was entered has succeeded; a failed call serves no other."""
        self._callers += 1
        number = self._callers
        async with self._lock:
            if self._served >= number:
                return
            waiting = self._callers
            await call()
            self._served = waiting
