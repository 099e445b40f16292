"""Keeps what is shown of a cluster up to date, for whoever shows it: the page, or a terminal.

Nodes are drawn at once; what they wait for comes as often as thinking about it allows. Both get their values here, so
that they cannot differ.
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
SHORTEST_REST = 0.25  # seconds between two frames
RESTS_PER_THOUGHT = 4  # at most a fifth of one core goes into plans that are only shown

Show = Callable[[dict[str, Plain], Plain, tuple[str, ...]], object]
"""Takes the tiles by name, the summary, and what is not known yet."""
Think = Callable[[], tuple[Plain, dict[str, Plain]]]
"""The plan, and what every node waits for."""


def draw_once(
    snapshot: Snapshot, plan: Plain, options: DecisionOptions, *, still: bool
) -> tuple[dict[str, Plain], Plain]:
    """Tiles and summary of one snapshot with its plan."""
    tiles = NodeSummaries().of(snapshot, waits_in(plan, snapshot, RepairTerms(snapshot.repair_statements, options)))
    return tiles, {**summary_of(snapshot, tiles.values()), "still": still, "planned": planned_in(plan)}


class Publisher:
    """Shows one sight of the board after the other. `thinker` runs the plans, one at a time."""

    def __init__(self, published_state: PublishedState, show: Show, think: Think, thinker: Executor) -> None:
        self._published_state = published_state
        self._show = show
        self._think = think
        self._thinker = thinker
        self._tiles = NodeSummaries()
        self._said: dict[str, Plain] = {}
        self._extra: Plain = {}
        self._to_draw, self._to_think = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Draw whatever comes at once; think of it in between, as long as that takes."""
        self._published_state.listen(asyncio.get_running_loop(), self._heard)
        self._heard()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_drawing())
            tasks.create_task(self._keep_thinking())

    def _heard(self) -> None:
        self._to_draw.set()
        self._to_think.set()

    async def _keep_drawing(self) -> None:
        while True:
            await self._to_draw.wait()
            self._to_draw.clear()
            try:
                await self._draw()
            except Exception:  # what is shown stays as it is
                log.exception("view not brought up to date")
            await asyncio.sleep(SHORTEST_REST)

    async def _draw(self) -> None:
        published_view = self._published_state.latest
        if published_view.snapshot is None:
            self._show({}, {}, published_view.missing)
            return
        snapshot, still = published_view.snapshot, self._published_state.still

        def draw() -> tuple[dict[str, Plain], Plain]:
            tiles = self._tiles.of(snapshot, self._said)
            return tiles, {**summary_of(snapshot, tiles.values()), "still": still, **self._extra}

        tiles, summary = await asyncio.to_thread(draw)
        self._show(tiles, summary, ())

    async def _keep_thinking(self) -> None:
        """What every node waits for."""
        while True:
            await self._to_think.wait()
            self._to_think.clear()
            began = time.monotonic()
            if self._published_state.latest.snapshot is not None:
                try:
                    told = await asyncio.get_running_loop().run_in_executor(self._thinker, self._think)
                    self._note(*told, time.monotonic() - began)
                except Exception:  # the plan that is shown stays
                    log.exception("no plan to show")
            await asyncio.sleep((time.monotonic() - began) * RESTS_PER_THOUGHT)

    def _note(self, plan: Plain, waits: dict[str, Plain], took: float) -> None:
        self._said = waits
        self._extra = {"planned": {**planned_in(plan), "tookSeconds": round(took, 3)}}
        self._to_draw.set()
