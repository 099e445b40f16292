"""Computes the cost floor of the published cluster in its own thread, because a large cluster takes a while.

A request waits at most `PATIENCE_SECONDS`. If the result for the current view is not ready by then, it gets the
previous one, with the time of its snapshot.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from dovetail.core.cost_floor.floor import lower_bound
from dovetail.core.cost_floor.linear_program import BoundUnavailable
from dovetail.dashboard.nodes import Plain, stamp
from dovetail.dashboard.published_state import PublishedView
from dovetail.model.snapshot import Snapshot

PATIENCE_SECONDS = 3.0


class CostFloorWorker:
    """Computes floors on one worker thread, for one view at a time. Used on the event loop of the page."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(1, "dashboard-floor")
        self._number = -1
        self._known: Plain = {"lowerBoundPerHour": None, "lowerBoundAt": None}
        self._working: asyncio.Task[None] | None = None

    async def of(self, published_view: PublishedView, patience: float = PATIENCE_SECONDS) -> Plain:
        """The floor of a view, or the latest known floor if it takes longer than `patience` seconds."""
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
        """Cancel the computation."""
        if self._working is not None:
            self._working.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)


def _floor(snapshot: Snapshot) -> float | None:
    try:
        return round(lower_bound(snapshot), 6)
    except BoundUnavailable:
        return None
