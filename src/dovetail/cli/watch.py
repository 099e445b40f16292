"""`--watch`: prints the answer of a command, and again whenever it changes, until Ctrl-C. Needs a live cluster.

The first answer is that of the command without `--watch`. Then the cluster is watched with informers, as by the
dashboard: a snapshot is taken after a change, at most once a second, and every ten seconds because delays expire. An
answer is printed only if its document differs from the last one in more than its time.
"""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.snapshot_source import fail, read_snapshot
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.dashboard.published_state import PublishedState
    from dovetail.model.snapshot import Snapshot

INTEREST_SECONDS = 5.0  # a published state that is not asked for is no longer computed

WatchOption = Annotated[
    bool,
    typer.Option(
        "--watch", "-w", help="Print again whenever the answer changes, until Ctrl-C. Needs get, list and watch."
    ),
]
Answer = Callable[["Snapshot"], None]
"""Prints the answer for a snapshot."""


def follow_answers(answer: Answer, where: tuple[Path | None, str | None], settings: Settings) -> "Snapshot":
    """Print answers until SIGINT or SIGTERM; returns the last snapshot. A failed first read ends the command."""
    from dovetail.cli.view.printing import only_changes
    from dovetail.ports.errors import WorldError

    with only_changes():
        first = read_snapshot(None, *where, settings)
        answer(first)
        try:
            return asyncio.run(_follow(answer, where, settings)) or first
        except WorldError as error:
            fail(str(error))


def require_live(watch: bool, **sources: object) -> None:
    """Refuse `--watch` together with an option that names another source than a live cluster."""
    given = [f"--{name}" for name, value in sources.items() if value is not None]
    if watch and given:
        raise typer.BadParameter(f"needs a live cluster and cannot be combined with {given[0]}", param_hint="--watch")


async def _follow(answer: Answer, where: tuple[Path | None, str | None], settings: Settings) -> "Snapshot | None":
    from dovetail.cli.dashboard import wait_until_stopped, watch
    from dovetail.dashboard.published_state import PublishedState

    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    published_state = PublishedState()
    watching = asyncio.create_task(watch(published_state, *where, settings))
    answering = asyncio.create_task(answer_changes(published_state, answer))
    await wait_until_stopped(stopped, [watching, answering])
    return published_state.latest.snapshot


async def answer_changes(published_state: "PublishedState", answer: Answer) -> None:
    """Answer for every published snapshot until cancelled."""
    changed = asyncio.Event()
    published_state.listen(asyncio.get_running_loop(), changed.set)
    while True:
        published_state.ask()
        try:
            async with asyncio.timeout(INTEREST_SECONDS):
                await changed.wait()
        except TimeoutError:
            continue
        changed.clear()
        if published_state.latest.snapshot is not None:
            await asyncio.to_thread(answer, published_state.latest.snapshot)
