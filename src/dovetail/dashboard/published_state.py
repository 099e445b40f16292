"""Where the loop that knows the cluster leaves what it sees, and the page's own thread picks it up.

Snapshots are immutable, so handing one over is all the sharing there is. Nothing is taken while nobody looks.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from dovetail.model.snapshot import Snapshot

log = logging.getLogger(__name__)
INTEREST_SECONDS = 60.0
STALE_PAUSES = 10
"""After so many pauses without a change it is looked at again: clocks run out by themselves."""


@dataclass(frozen=True, slots=True)
class PublishedView:
    """The cluster as it was seen, or why nothing is to be seen yet."""

    number: int
    snapshot: Snapshot | None
    missing: tuple[str, ...] = ()


class PublishedState:
    """Holds the latest sight; any thread may leave one. `still`: what it shows is of the past and does not change."""

    def __init__(self, *, still: bool = False) -> None:
        self.still = still
        self._lock = threading.Lock()
        self._latest = PublishedView(0, None, ("the cluster has not been read yet",))
        self._listener: Callable[[], object] | None = None
        self._asked_at = float("-inf")

    @property
    def latest(self) -> PublishedView:
        """What was seen last."""
        return self._latest

    def publish(self, snapshot: Snapshot | None, missing: tuple[str, ...] = ()) -> None:
        """Leave a sight."""
        with self._lock:
            self._latest = PublishedView(self._latest.number + 1, snapshot, missing)
            listener = self._listener
        if listener is not None:
            listener()

    def listen(self, loop: asyncio.AbstractEventLoop, heard: Callable[[], object]) -> None:
        """Call `heard` on that loop after every sight."""

        def tell() -> None:
            with suppress(RuntimeError):  # the page is being closed
                loop.call_soon_threadsafe(heard)

        with self._lock:
            self._listener = tell

    def ask(self) -> None:
        """Somebody looks."""
        self._asked_at = time.monotonic()

    @property
    def wanted(self) -> bool:
        """Whether somebody looks, or did a moment ago."""
        return time.monotonic() - self._asked_at < INTEREST_SECONDS


class ChangeSource(Protocol):
    """Something that changes, and says when."""

    @property
    def revision(self) -> int:
        """Grows with every change."""
        ...

    def unsynced(self) -> tuple[str, ...]:
        """What is not known yet, as sentences."""
        ...


async def keep_publishing(
    published_state: PublishedState,
    source: ChangeSource,
    take: Callable[[], Awaitable[Snapshot]],
    pause: float,
    *,
    stays: bool = False,
) -> None:
    """Publish whatever changed while somebody looks, until cancelled; then what is left, if the page stays."""
    shown: int | None = None
    idle = 0
    try:
        while True:
            revision, missing = source.revision, source.unsynced()
            if missing:
                if published_state.latest.missing != missing:
                    published_state.publish(None, missing)
            elif shown is None or (published_state.wanted and (revision != shown or idle >= STALE_PAUSES)):
                try:
                    published_state.publish(await take())
                except Exception:  # what is shown grows old, and the next look may succeed
                    log.exception("cluster not looked at for the page")
                shown, idle = revision, 0
            else:
                idle += 1
            await asyncio.sleep(pause)
    finally:
        if stays and not source.unsynced():
            last = await take()
            published_state.still = True
            published_state.publish(last)
