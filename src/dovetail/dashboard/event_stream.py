"""What the page shows, as numbered frames: whoever missed a few gets those, whoever missed too many begins anew.

A frame holds the tiles that changed and the names of nodes that are gone. The name of this run stands before every
number, so that a page that outlived the process it spoke to notices.
"""

import asyncio
from collections import deque
from typing import Any
from uuid import uuid4

import msgspec

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
