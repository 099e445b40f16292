"""Notices that wait to be written: warnings before the rest, each lane in the order it was said, and never too many.

When there is no room left, the oldest notice that is no warning makes way for a warning; anything else is turned away.
A thousand nodes that go at once have about seven things to say each, and all of it fits.
"""

import asyncio
from collections import deque
from datetime import datetime

from dovetail.ports.cluster import Notice

ROOM = 8192

Said = tuple[Notice, datetime]


class EventBacklog:
    """A bounded queue with two lanes, for one writer."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._warnings: deque[Said] = deque()
        self._others: deque[Said] = deque()
        self._open = 0  # said, and neither written nor given up
        self._news = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._warnings) + len(self._others)

    def put(self, notice: Notice, at: datetime) -> Notice | None:
        """Take a notice in; what was dropped for want of room, this one or an older one, if anything was."""
        dropped = None
        if len(self) >= self._room:
            if not (notice.warning and self._others):
                return notice
            dropped, _ = self._others.popleft()
            self.done()
        (self._warnings if notice.warning else self._others).append((notice, at))
        self._open += 1
        self._news.set()
        self._empty.clear()
        return dropped

    async def take(self) -> Said:
        """The next notice to write; call `done` when that is over."""
        while not len(self):
            self._news.clear()
            await self._news.wait()
        return (self._warnings or self._others).popleft()

    def done(self) -> None:
        """One notice less is waited for."""
        self._open -= 1
        if not self._open:
            self._empty.set()

    async def join(self) -> None:
        """Wait until everything is written or given up."""
        await self._empty.wait()
