"""What the page of a controller shows: the cluster as the controllers see it, or beside another replica that leads.

A replica that stands by reads nothing, until somebody opens its page: then it looks for as long as they do, and writes
nothing. So behind a service any replica may answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from dovetail.dashboard.published_state import PublishedState

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
RETRY_SECONDS = 5.0
STANDING_BY = ("another replica leads, and this one begins to read the cluster now that somebody looks",)

Publishing = Callable[[], Coroutine[Any, Any, None]]


async def keep_showing(
    published_state: PublishedState, stands_by: Callable[[], bool], leading: Publishing, beside: Publishing
) -> None:
    """Publish by `leading`, or by `beside` while it stands by and somebody looks; until cancelled."""
    running: asyncio.Task[None] | None = None
    chosen: object = "nothing yet"
    try:
        while True:
            wanted = leading if not stands_by() else beside if published_state.wanted else None
            if wanted is not chosen:
                await _end(running)
                if wanted is not leading:
                    published_state.publish(None, STANDING_BY)
                running = asyncio.create_task(_persist(wanted), name="page") if wanted is not None else None
                chosen = wanted
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await _end(running)


async def _persist(publishing: Callable[[], Awaitable[None]]) -> None:
    """Whatever goes wrong, try again: what is shown grows old meanwhile, and nothing else is harmed."""
    while True:
        try:
            await publishing()
        except Exception:  # the page is no reason for a controller to stop
            log.exception("cluster not looked at for the page")
        await asyncio.sleep(RETRY_SECONDS)


async def _end(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
