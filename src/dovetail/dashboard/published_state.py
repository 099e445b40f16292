"""Passes snapshots from the controller's event loop to the page's thread, and turns views into numbered frames.

`PublishedState` holds the latest view (a snapshot, or what is missing for one). Any thread may publish; snapshots are
immutable, so no further locking is needed. `keep_publishing` publishes only while the page is viewed; for the cost
history it takes a snapshot every few seconds always.

`EventStream` holds the tiles of the page and the last `KEPT` frames. A frame has the changed tiles and the names of
removed nodes. Each frame is identified by a mark, RUN-NUMBER: a client that missed a few frames gets them, and one that
missed too many, or that connects to a restarted process, reloads everything.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from dovetail.dashboard.cost_history import SAMPLE_SECONDS, CostHistory
from dovetail.model.snapshot import Snapshot

log = logging.getLogger(__name__)
INTEREST_SECONDS = 60.0
STALE_PAUSES = 10
"""Number of pauses without a change after which a snapshot is taken anyway: delays expire without a change."""


@dataclass(frozen=True, slots=True)
class PublishedView:
    """A numbered snapshot, or the reasons why there is none yet."""

    number: int
    snapshot: Snapshot | None
    missing: tuple[str, ...] = ()


class PublishedState:
    """The latest published view. `still`: the view is a stored or final snapshot and does not change any more."""

    def __init__(self, *, still: bool = False) -> None:
        self.still = still
        self.cost_history = CostHistory()
        self._lock = threading.Lock()
        self._latest = PublishedView(0, None, ("the cluster has not been read yet",))
        self._listener: Callable[[], object] | None = None
        self._asked_at = float("-inf")

    @property
    def latest(self) -> PublishedView:
        """The latest view."""
        return self._latest

    def publish(self, snapshot: Snapshot | None, missing: tuple[str, ...] = ()) -> None:
        """Publish a snapshot, or what is missing for one; callable from any thread."""
        with self._lock:
            self._latest = PublishedView(self._latest.number + 1, snapshot, missing)
            listener = self._listener
        if snapshot is None:
            self.cost_history.interrupt()
        if listener is not None:
            listener()

    def listen(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
        """Call back on that loop after every publication."""

        def notify() -> None:
            with suppress(RuntimeError):  # the page is being closed
                loop.call_soon_threadsafe(callback)

        with self._lock:
            self._listener = notify

    def ask(self) -> None:
        """Record that the page is being viewed."""
        self._asked_at = time.monotonic()

    @property
    def wanted(self) -> bool:
        """Whether the page was viewed in the last `INTEREST_SECONDS`."""
        return time.monotonic() - self._asked_at < INTEREST_SECONDS


class ChangeSource(Protocol):
    """A source of snapshots with a revision."""

    @property
    def revision(self) -> int:
        """Grows with every change."""
        ...

    def unsynced(self) -> tuple[str, ...]:
        """What has not been read yet, as sentences."""
        ...

    def stale(self) -> Collection[object]:
        """The caches that may be out of date."""
        ...


async def keep_publishing(
    published_state: PublishedState,
    source: ChangeSource,
    take: Callable[[], Awaitable[Snapshot]],
    pause: float,
    *,
    stays: bool = False,
) -> None:
    """Publish a snapshot after each change while the page is viewed, and record costs, until cancelled.

    With `stays`, a final snapshot is published on cancellation, because the page stays open.
    """
    shown: int | None = None
    idle, unrecorded = 0, 0.0  # pauses without a publication, and seconds without a snapshot
    try:
        while True:
            revision, missing = source.revision, source.unsynced()
            due = shown is None or (published_state.wanted and (revision != shown or idle >= STALE_PAUSES))
            idle, unrecorded = idle + 1, unrecorded + pause
            if missing:
                if published_state.latest.missing != missing:
                    published_state.publish(None, missing)
            elif due or unrecorded >= SAMPLE_SECONDS:
                unrecorded = 0.0
                try:
                    snapshot = await take()
                    _record_cost(published_state, source, snapshot)
                    if due:
                        published_state.publish(snapshot)
                except Exception:  # the page keeps the previous snapshot, and the next attempt may succeed
                    log.exception("no snapshot for the page")
                if due:
                    shown, idle = revision, 0
            await asyncio.sleep(pause)
    finally:
        if stays and not source.unsynced():
            last = await take()
            _record_cost(published_state, source, last)
            published_state.still = True
            published_state.publish(last)


def _record_cost(published_state: PublishedState, source: ChangeSource, snapshot: Snapshot) -> None:
    if source.stale():
        published_state.cost_history.interrupt()
    else:
        published_state.cost_history.record(snapshot)


Plain = dict[str, Any]
KEPT = 64  # frames


class EventStream:
    """The current tiles and the last frames. Used on the event loop of the page."""

    def __init__(self) -> None:
        self.run = uuid4().hex[:8]
        self.number = 0
        self.tiles: dict[str, Plain] = {}
        self.summary: Plain = {}
        self.missing: tuple[str, ...] = ()
        self.ended = False
        self._frames: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._next_frame = asyncio.Event()

    @property
    def mark(self) -> str:
        """The identifier of the latest frame."""
        return f"{self.run}-{self.number}"

    def show(self, tiles: dict[str, Plain], summary: Plain, missing: tuple[str, ...] = ()) -> None:
        """Replace the tiles and the summary; adds a frame if anything changed."""
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
        """End the stream: wake all clients that wait for a frame."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._next_frame = self._next_frame, asyncio.Event()
        waiting.set()

    def full_state(self) -> Plain:
        """All tiles and the summary, as of the latest frame."""
        nodes = sorted(self.tiles.values(), key=lambda tile: (tile["pool"], tile["name"]))
        return {"mark": self.mark, "nodes": nodes, "summary": self.summary, "missing": self.missing}

    def since(self, mark: str) -> list[tuple[int, bytes]] | None:
        """The frames after a mark; None if they are no longer kept or the mark is not of this run."""
        run, _, number = mark.rpartition("-")
        if run != self.run or not (number.isascii() and number.isdigit() and len(number) < 19):
            return None
        seen = int(number)
        oldest = self._frames[0][0] if self._frames else self.number + 1
        if seen > self.number or seen + 1 < oldest:
            return None
        return [frame for frame in self._frames if frame[0] > seen]

    async def wait_for_frame(self, seconds: float) -> bool:
        """Wait for the next frame; returns False after so many seconds without one."""
        try:
            async with asyncio.timeout(seconds):
                await self._next_frame.wait()
        except TimeoutError:
            return False
        return True
