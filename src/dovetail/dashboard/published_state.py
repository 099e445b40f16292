"""Where the loop that knows the cluster leaves what it sees, and the page's own thread picks it up.

Snapshots are immutable, so handing one over is all the sharing there is. Nothing is taken while nobody looks.

What the page shows, as numbered frames: whoever missed a few gets those, whoever missed too many begins anew.

A frame holds the tiles that changed and the names of nodes that are gone. The name of this run stands before every
number, so that a page that outlived the process it spoke to notices.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import msgspec

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


Plain = dict[str, Any]
KEPT = 64  # frames


class EventStream:
    """Lives on the page's loop."""

    def __init__(self) -> None:
        self.run = uuid4().hex[:8]
        self.number = 0
        self.tiles: dict[str, Plain] = {}
        self.summary: Plain = {}
        self.missing: tuple[str, ...] = ()
        self.ended = False
        self._frames: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._news = asyncio.Event()

    @property
    def mark(self) -> str:
        """The name of the latest frame."""
        return f"{self.run}-{self.number}"

    def show(self, tiles: dict[str, Plain], summary: Plain, missing: tuple[str, ...] = ()) -> None:
        """This is how it looks now."""
        changed = [tile for name, tile in tiles.items() if self.tiles.get(name) != tile]
        gone = [name for name in self.tiles if name not in tiles]
        if not changed and not gone and summary == self.summary and missing == self.missing:
            return
        self.number += 1
        self.tiles, self.summary, self.missing = tiles, summary, missing
        frame = {"mark": self.mark, "nodes": changed, "gone": gone, "summary": summary, "missing": missing}
        self._frames.append((self.number, msgspec.json.encode(frame)))
        self._wake()

    def end(self) -> None:
        """No more frames: whoever waits for one is let go."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def whole(self) -> Plain:
        """Everything, as of the latest frame."""
        nodes = sorted(self.tiles.values(), key=lambda tile: (tile["pool"], tile["name"]))
        return {"mark": self.mark, "nodes": nodes, "summary": self.summary, "missing": self.missing}

    def since(self, mark: str) -> list[tuple[int, bytes]] | None:
        """The frames after that one; None if they are not there any more, or never were."""
        run, _, number = mark.rpartition("-")
        if run != self.run or not (number.isascii() and number.isdigit() and len(number) < 19):
            return None
        seen = int(number)
        oldest = self._frames[0][0] if self._frames else self.number + 1
        if seen > self.number or seen + 1 < oldest:
            return None
        return [frame for frame in self._frames if frame[0] > seen]

    async def news(self, within: float) -> bool:
        """Wait for the next frame, at most so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._news.wait()
        except TimeoutError:
            return False
        return True
