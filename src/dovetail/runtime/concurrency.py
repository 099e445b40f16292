"""The same step for many things at once: what fails for one keeps the others from nothing.

A hundred calls one after the other take as long as the hundred of them; the connection bounds how many are under way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def for_each(step: Callable[[T], Awaitable[R]], things: Iterable[T]) -> list[R]:
    """What the step returned for each, in order. All of them are tried; then the first failure is raised."""

    async def taken(thing: T) -> R:
        return await step(thing)

    answers = await asyncio.gather(*(taken(thing) for thing in things), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]
