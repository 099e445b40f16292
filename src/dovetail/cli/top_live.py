"""The live view of `dovetail top`: draws the published state of the cluster and handles keys, until q or Ctrl-C.

The view uses the publisher of the dashboard, in process and without HTTP: it computes plan and node summaries in a
thread whenever the published state changes, and calls `Top.show`. Keys come from /dev/tty in cbreak mode.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from dovetail.cli.dashboard import wait_until_stopped, watch
from dovetail.cli.dashboard_api import documents
from dovetail.cli.safe_output import make_console
from dovetail.cli.view.top import ORDERS, TopView, page_size, top_document, top_screen, waiting_screen
from dovetail.dashboard.api import PageApi
from dovetail.dashboard.published_state import PublishedState
from dovetail.dashboard.publisher import Publisher
from dovetail.settings import Settings

INTEREST = 5.0  # seconds; a published state without interest is no longer computed
_HEAD = 5  # approximate number of rows above the nodes

Plain = dict[str, Any]
_ESCAPES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
}


def follow(
    published_state: PublishedState, choice: TopView, where: tuple[Path | None, str | None], settings: Settings
) -> None:
    """Show the cluster until q or Ctrl-C."""
    console = make_console()
    api = PageApi(published_state, documents(None), settings.options)
    executor = ThreadPoolExecutor(1, "top-publisher")

    async def live() -> None:
        with Live(console=console, screen=True, auto_refresh=False) as view:
            top = Top(choice, console, lambda shown: view.update(shown, refresh=True))
            await _follow(
                top, published_state, Publisher(published_state, top.show, api.waits, executor), (where, settings)
            )

    try:
        asyncio.run(live())
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


class Top:
    """The state of the view: the latest data, the chosen order and NodePool, and the scroll position."""

    def __init__(self, choice: TopView, console: Console, draw: Callable[[Any], object]) -> None:
        self.choice = choice
        self.stopped = asyncio.Event()
        self._console = console
        self._draw = draw
        self._seen: tuple[dict[str, Plain], Plain, tuple[str, ...]] = ({}, {}, ())

    def show(self, tiles: dict[str, Plain], summary: Plain, missing: tuple[str, ...]) -> None:
        """Show new data."""
        self._seen = (tiles, summary, missing)
        self.draw()

    def draw(self) -> None:
        """Draw for the current size of the terminal."""
        tiles, summary, missing = self._seen
        if not summary:
            self._draw(waiting_screen(missing))
            return
        document = top_document(tiles.values(), summary, self.choice)
        shown, self.choice = top_screen(document, self.choice, self._console)
        self._draw(shown)

    def press(self, key: str) -> None:
        """Handle a key; unknown keys do nothing."""
        page = page_size(self._console.height, _HEAD)
        steps = {"down": 1, "up": -1, "j": 1, "k": -1, " ": page, "page down": page, "b": -page, "page up": -page}
        ends = {"g": 0, "home": 0, "G": 10**9, "end": 10**9}
        if key in {"q", "Q", "\x03", "\x04"}:
            self.stopped.set()
        elif key == "s":
            self.choice = TopView(_next(self.choice.order, list(ORDERS)), self.choice.nodepool)
        elif key == "n":
            pools = ["", *(pool["name"] for pool in self._seen[1].get("pools", ()))]
            self.choice = TopView(self.choice.order, _next(self.choice.nodepool, pools))
        elif key in steps:
            self.choice = replace(self.choice, first=max(0, self.choice.first + steps[key]))
        elif key in ends:
            self.choice = replace(self.choice, first=ends[key])
        self.draw()


def _next(value: str, values: list[str]) -> str:
    return values[(values.index(value) + 1) % len(values)] if value in values else values[0]


async def _follow(
    top: Top,
    published_state: PublishedState,
    publisher: Publisher,
    source: tuple[tuple[Path | None, str | None], Settings],
) -> None:
    (kubeconfig, context), settings = source
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, top.stopped.set)
    loop.add_signal_handler(signal.SIGWINCH, top.draw)
    tasks = [asyncio.create_task(publisher.run()), asyncio.create_task(_renew_interest(published_state))]
    if published_state.latest.snapshot is None:
        tasks.append(asyncio.create_task(watch(published_state, kubeconfig, context, settings)))
    with keyboard(loop, top.press):
        await wait_until_stopped(top.stopped, tasks)


async def _renew_interest(published_state: PublishedState) -> None:
    while True:
        published_state.ask()
        await asyncio.sleep(INTEREST)


def keys_of(text: str) -> Iterator[str]:
    """Split terminal input into keys; input after an unknown escape sequence is dropped."""
    at = 0
    while at < len(text):
        found = next((escape for escape in _ESCAPES if text.startswith(escape, at)), None)
        if found is not None:
            yield _ESCAPES[found]
            at += len(found)
        elif text[at] == "\x1b":
            return
        else:
            yield text[at]
            at += 1


@contextmanager
def keyboard(loop: asyncio.AbstractEventLoop, press: Callable[[str], object]) -> Iterator[None]:
    """Call `press` for every key inside the context, then restore the terminal. No terminal, no keys."""
    import termios
    import tty

    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        yield
        return

    def read() -> None:
        with suppress(OSError):
            for key in keys_of(os.read(terminal, 1024).decode(errors="ignore")):
                press(key)

    try:
        before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal)
        loop.add_reader(terminal, read)
        try:
            yield
        finally:
            loop.remove_reader(terminal)
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    finally:
        os.close(terminal)
