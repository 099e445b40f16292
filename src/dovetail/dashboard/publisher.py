"""Keeps the tiles and the summary of a cluster up to date, for the page and for `dovetail top`.

Two tasks run side by side: one draws the tiles of each published view at once, the other computes the plan and what
each node waits for, which takes longer and is limited to a fifth of one core. Page and terminal get the same values.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor

from dovetail.core.lifecycle.repair import RepairTerms
from dovetail.dashboard.nodes import NodeSummaries, Plain, planned_in, summary_of
from dovetail.dashboard.published_state import PublishedState
from dovetail.dashboard.waiting_for import waits_in
from dovetail.model.snapshot import Snapshot
from dovetail.settings import DecisionOptions

log = logging.getLogger(__name__)
FRAME_INTERVAL = 0.25  # least seconds between two frames
PAUSE_PER_PLAN = 4  # pause after each plan, in multiples of its duration: plans use at most a fifth of one core

Show = Callable[[dict[str, Plain], Plain, tuple[str, ...]], object]
"""Takes the tiles by name, the summary, and what has not been read yet."""
ComputePlan = Callable[[], tuple[Plain, dict[str, Plain]]]
"""Returns the plan, and what each node waits for."""


def draw_once(
    snapshot: Snapshot, plan: Plain, options: DecisionOptions, *, still: bool
) -> tuple[dict[str, Plain], Plain]:
    """The tiles and the summary of one snapshot with its plan."""
    tiles = NodeSummaries().of(snapshot, waits_in(plan, snapshot, RepairTerms(snapshot.repair_statements, options)))
    return tiles, {**summary_of(snapshot, tiles.values()), "still": still, "planned": planned_in(plan)}


class Publisher:
    """Calls `show` for each published view. `executor` computes the plans, one at a time."""

    def __init__(
        self, published_state: PublishedState, show: Show, compute_plan: ComputePlan, executor: Executor
    ) -> None:
        self._published_state = published_state
        self._show = show
        self._compute_plan = compute_plan
        self._executor = executor
        self._tiles = NodeSummaries()
        self._waits: dict[str, Plain] = {}
        self._planned: Plain = {}
        self._draw_needed, self._plan_needed = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Draw each view and compute its plan until cancelled."""
        self._published_state.listen(asyncio.get_running_loop(), self._on_publish)
        self._on_publish()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_drawing())
            tasks.create_task(self._keep_planning())

    def _on_publish(self) -> None:
        self._draw_needed.set()
        self._plan_needed.set()

    async def _keep_drawing(self) -> None:
        while True:
            await self._draw_needed.wait()
            self._draw_needed.clear()
            try:
                await self._draw()
            except Exception:  # the previous view stays
                log.exception("view not updated")
            await asyncio.sleep(FRAME_INTERVAL)

    async def _draw(self) -> None:
        published_view = self._published_state.latest
        if published_view.snapshot is None:
            self._show({}, {}, published_view.missing)
            return
        snapshot, still = published_view.snapshot, self._published_state.still

        def draw() -> tuple[dict[str, Plain], Plain]:
            tiles = self._tiles.of(snapshot, self._waits)
            return tiles, {**summary_of(snapshot, tiles.values()), "still": still, **self._planned}

        tiles, summary = await asyncio.to_thread(draw)
        self._show(tiles, summary, ())

    async def _keep_planning(self) -> None:
        while True:
            await self._plan_needed.wait()
            self._plan_needed.clear()
            began = time.monotonic()
            if self._published_state.latest.snapshot is not None:
                try:
                    await self._plan(began)
                except Exception:  # the previous plan stays
                    log.exception("no plan for the page")
            await asyncio.sleep((time.monotonic() - began) * PAUSE_PER_PLAN)

    async def _plan(self, began: float) -> None:
        plan, self._waits = await asyncio.get_running_loop().run_in_executor(self._executor, self._compute_plan)
        took = time.monotonic() - began
        self._planned = {"planned": {**planned_in(plan), "tookSeconds": round(took, 3)}}
        self._draw_needed.set()
