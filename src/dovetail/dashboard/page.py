"""The page, served by a thread of its own: neither a long computation nor a slow browser keeps a controller waiting.

It also keeps the shown cluster up to date: tiles at once, what they wait for as often as thinking about it allows.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from aiohttp import web

from dovetail.dashboard.access import Access
from dovetail.dashboard.answers import Answers, Documents, Terms
from dovetail.dashboard.board import Board
from dovetail.dashboard.site import Site
from dovetail.dashboard.tiles import Plain, Tiles, said_in, summary_of
from dovetail.observe.endpoints import PortUnusable

log = logging.getLogger(__name__)
SHORTEST_REST = 0.25  # seconds between two frames
RESTS_PER_THOUGHT = 4  # at most a fifth of one core goes into plans that are only shown


@dataclass(frozen=True, kw_only=True)
class Page:
    """What to serve, and where. Port 0 takes any that is free."""

    board: Board
    documents: Documents
    terms: Terms
    access: Access
    port: int

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve while inside; the address is what to open. `PortUnusable` if that cannot be."""
        running = _Running(self)
        thread = threading.Thread(target=running.run, name="dashboard", daemon=True)
        thread.start()
        running.settled.wait()
        if running.trouble is not None:
            thread.join()
            raise running.trouble
        log.info("serving the page", extra={"address": running.address})
        try:
            yield running.address
        finally:
            running.stop()
            thread.join()


class _Running:
    """One life of the server, on its own loop."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self.settled = threading.Event()
        self.trouble: Exception | None = None
        self.address = ""

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # raised where the page was asked for; later, the page is gone and the rest goes on
            if self.settled.is_set():
                log.exception("the page ended")
            self.trouble = error
        finally:
            self.settled.set()

    def stop(self) -> None:
        """From any thread."""
        if self._loop is not None and self._stopped is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self) -> None:
        page = self._page
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        thinker = ThreadPoolExecutor(1, "dashboard-thinking")
        answers = Answers(page.board, page.documents, page.terms)
        site = Site(page.access, page.board, answers, thinker)
        runner = web.AppRunner(site.application(), access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._listen(runner)
            self.settled.set()
            if self.trouble is None:
                showing = asyncio.create_task(_Showing(page.board, site, answers, thinker).run())
                await self._stopped.wait()
                showing.cancel()
                await asyncio.wait([showing])
                site.close()
        finally:
            await runner.cleanup()
            thinker.shutdown(wait=False, cancel_futures=True)

    async def _listen(self, runner: web.AppRunner) -> None:
        address, port = self._page.access.address, self._page.port
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            remedy = "choose another with --dashboard-port (DOVETAIL_DASHBOARD_PORT), or 0 to serve no page"
            why = f"port {port} on {address} cannot be used: {error.strerror or error}; {remedy}"
            self.trouble = PortUnusable(why)
            return
        host = f"[{address}]" if ":" in address else address
        self.address = f"http://{host}:{runner.addresses[0][1]}/"


class _Showing:
    """Keeps the feed up to date with the board."""

    def __init__(self, board: Board, site: Site, answers: Answers, thinker: ThreadPoolExecutor) -> None:
        self._board = board
        self._feed = site.feed
        self._answers = answers
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
            except Exception:  # the page goes on with what it has
                log.exception("page not brought up to date")
            await asyncio.sleep(SHORTEST_REST)

    async def _draw(self) -> None:
        sight = self._board.latest
        if sight.snapshot is None:
            self._feed.show({}, {}, sight.missing)
            return
        snapshot, still = sight.snapshot, self._board.still

        def draw() -> tuple[dict[str, Plain], Plain]:
            tiles = self._tiles.of(snapshot, self._said)
            return tiles, {**summary_of(snapshot, tiles.values()), "still": still, **self._extra}

        self._feed.show(*await asyncio.to_thread(draw))

    async def _keep_thinking(self) -> None:
        """What every node waits for."""
        while True:
            await self._to_think.wait()
            self._to_think.clear()
            began = time.monotonic()
            if self._board.latest.snapshot is not None:
                try:
                    self._note(
                        await asyncio.get_running_loop().run_in_executor(self._thinker, self._answers.plan), began
                    )
                except Exception:  # the page goes on with the plan it has
                    log.exception("no plan for the page")
            await asyncio.sleep((time.monotonic() - began) * RESTS_PER_THOUGHT)

    def _note(self, plan: Plain, began: float) -> None:
        self._said = said_in(plan)
        self._extra = {
            "planned": {
                "commands": len(plan["commands"]),
                "nodes": sum(len(each["nodes"]) for each in plan["commands"]),
                "savingPerMonth": plan["savingPerMonth"],
                "at": plan["at"],
                "tookSeconds": round(time.monotonic() - began, 3),
            }
        }
        self._to_draw.set()
