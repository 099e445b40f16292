"""Keeps what is shown of a cluster up to date, for whoever shows it: the page, or a terminal.

Nodes are drawn at once; what they wait for comes as often as thinking about it allows. Both get their values here, so
that they cannot differ.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor

from dovetail.dashboard.answers import Terms
from dovetail.dashboard.board import Board
from dovetail.dashboard.tiles import Plain, Tiles, planned_in, summary_of
from dovetail.dashboard.waits import waits_in
from dovetail.model.snapshot import Snapshot

log = logging.getLogger(__name__)
SHORTEST_REST = 0.25  # seconds between two frames
RESTS_PER_THOUGHT = 4  # at most a fifth of one core goes into plans that are only shown

Show = Callable[[dict[str, Plain], Plain, tuple[str, ...]], object]
"""Takes the tiles by name, the summary, and what is not known yet."""
Think = Callable[[], tuple[Plain, dict[str, Plain]]]
"""The plan, and what every node waits for."""


def draw_once(snapshot: Snapshot, plan: Plain, terms: Terms, *, still: bool) -> tuple[dict[str, Plain], Plain]:
    """Tiles and summary of one snapshot with its plan."""
    tiles = Tiles().of(snapshot, waits_in(plan, snapshot, terms.repair(snapshot)))
    return tiles, {**summary_of(snapshot, tiles.values()), "still": still, "planned": planned_in(plan)}


class Showing:
    """Shows one sight of the board after the other. `thinker` runs the plans, one at a time."""

    def __init__(self, board: Board, show: Show, think: Think, thinker: Executor) -> None:
        self._board = board
        self._show = show
        self._think = think
        self._thinker = thinker
        self._tiles = Tiles()
        self._said: dict[str, Plain] = {}
        self._extra: Plain = {}
        self._to_draw, self._to_think = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Draw whatever comes at once; think of it in between, as long as that takes."""
        self._board.listen(asyncio.get_running_loop(), self._heard)
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
        sight = self._board.latest
        if sight.snapshot is None:
            self._show({}, {}, sight.missing)
            return
        snapshot, still = sight.snapshot, self._board.still

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
            if self._board.latest.snapshot is not None:
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
