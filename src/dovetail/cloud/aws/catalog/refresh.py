"""When something is asked for again: twelve hours after it was told, and sooner, but later each time, if it was not."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)
REFRESH_SECONDS = 12 * 3600.0
RETRY_SECONDS = 60.0


async def keep_fresh(what: str, refresh: Callable[[], Awaitable[None]]) -> None:
    """Refresh until cancelled. A failure costs no more than a question, however long it lasts."""
    wait = RETRY_SECONDS
    while True:
        try:
            await refresh()
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - AWS may answer anything; what was known before still serves
            log.warning(
                "not refreshed",
                extra={"what": what, "error": str(error) or type(error).__name__, "retry_seconds": wait},
            )
            delay, wait = wait, min(wait * 2, REFRESH_SECONDS)
        else:
            delay, wait = REFRESH_SECONDS, RETRY_SECONDS
        await asyncio.sleep(delay)
