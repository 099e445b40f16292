"""Chooses what the dashboard of a controller process publishes: its own cluster state, or that of a standby replica.

The leader publishes what its controllers know. A standby replica has no running informers; it watches the cluster
itself, read-only, while a user has its dashboard open. So every replica behind a Service can serve the dashboard.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from dovetail.dashboard.published_state import PublishedState

log = logging.getLogger(__name__)
CHECK_SECONDS = 0.5
RETRY_SECONDS = 5.0
STANDING_BY = ("another replica is the leader; this one starts to read the cluster for the dashboard",)

Publishing = Callable[[], Coroutine[Any, Any, None]]


async def publish_by_role(
    published_state: PublishedState, is_standby: Callable[[], bool], as_leader: Publishing, as_standby: Publishing
) -> None:
    """Run `as_leader`, or `as_standby` while this is a standby replica and a user is connected; until cancelled."""
    running: asyncio.Task[None] | None = None
    current: object = "nothing yet"
    try:
        while True:
            selected = as_leader if not is_standby() else as_standby if published_state.wanted else None
            if selected is not current:
                await _cancel(running)
                if selected is not as_leader:
                    published_state.publish(None, STANDING_BY)
                running = asyncio.create_task(_retry(selected), name="page") if selected is not None else None
                current = selected
            await asyncio.sleep(CHECK_SECONDS)
    finally:
        await _cancel(running)


async def _retry(publishing: Callable[[], Awaitable[None]]) -> None:
    """Publish, and start again after every failure; the dashboard shows the last snapshot meanwhile."""
    while True:
        try:
            await publishing()
        except Exception:  # a failing dashboard must not stop the controllers
            log.exception("dashboard not updated")
        await asyncio.sleep(RETRY_SECONDS)


async def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
