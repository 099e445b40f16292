"""The least the shown cluster could cost, worked out beside everything else: for large clusters it takes a while.

Nobody waits long for it. Until the answer for what is shown is there, the one before it is told, with its instant.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from dovetail.core.cost_floor.floor import BoundUnavailable, lower_bound
from dovetail.dashboard.nodes import Plain, stamp
from dovetail.dashboard.published_state import PublishedView
from dovetail.model.snapshot import Snapshot

PATIENCE_SECONDS = 3.0


class CostFloorWorker:
    """Lives on the page's loop; works in a thread of its own, on one sight at a time."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(1, "dashboard-floor")
        self._number = -1
        self._known: Plain = {"lowerBoundPerHour": None, "lowerBoundAt": None}
        self._working: asyncio.Task[None] | None = None

    async def of(self, published_view: PublishedView, patience: float = PATIENCE_SECONDS) -> Plain:
        """The floor of a sight, or the last one known after so many seconds."""
        if published_view.snapshot is not None and self._number != published_view.number:
            if self._working is None or self._working.done():
                self._working = asyncio.create_task(self._work(published_view.number, published_view.snapshot))
            await asyncio.wait([self._working], timeout=patience)
        return self._known

    async def _work(self, number: int, snapshot: Snapshot) -> None:
        floor = await asyncio.get_running_loop().run_in_executor(self._worker, _floor, snapshot)
        self._number = number
        self._known = {"lowerBoundPerHour": floor, "lowerBoundAt": stamp(snapshot.at)}

    def close(self) -> None:
        """Wait for nothing more."""
        if self._working is not None:
            self._working.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)


def _floor(snapshot: Snapshot) -> float | None:
    try:
        return round(lower_bound(snapshot), 6)
    except BoundUnavailable:
        return None
