"""The page of a story: served by a thread of its own while virtual time goes by, and after it if asked to stay."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from dovetail.cli.dashboard_api import make_page
from dovetail.cli.demo.run import DemoOptions, Stage
from dovetail.cli.safe_output import echo
from dovetail.dashboard.published_state import PublishedState, keep_publishing
from dovetail.observe.endpoints import PortUnusable
from dovetail.settings import Settings

_PAUSE_SECONDS = 5.0  # virtual


@dataclass(frozen=True)
class DemoPage:
    """Where the page is; nothing of it, if the address is empty."""

    ledger: str
    address: str = ""
    published_state: PublishedState | None = None
    stays: bool = False
    showing: "list[asyncio.Task[None]]" = field(default_factory=list)  # a task nobody holds may vanish

    def opened(self, stage: Stage) -> None:
        """Show this stage from now on. On the loop of the story."""
        if self.published_state is not None:
            showing = keep_publishing(
                self.published_state, stage.parts.manager.state, stage.look, _PAUSE_SECONDS, stays=True
            )
            self.showing.append(asyncio.get_running_loop().create_task(showing, name="page"))

    def stay(self) -> None:
        """Go on until Ctrl-C, if that was asked for."""
        if not self.stays:
            return
        echo(f"The page stays at {self.address} until Ctrl-C.", err=True)
        ended = threading.Event()
        before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while not ended.wait(0.2):  # a wait without an end would not hear signals everywhere
                pass
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def demo_page(options: DemoOptions, port: int | None, *, live: bool) -> Iterator[DemoPage]:
    """Serve the page: always when it was asked for, and with a live view unless it was refused."""
    if port == 0 or (port is None and not live):
        yield DemoPage(options.ledger)
        return
    settings, published_state = Settings(), PublishedState()
    with TemporaryDirectory(prefix="dovetail-demo-") as place:
        ledger = options.ledger or str(Path(place) / "ledger.db")
        page = make_page(published_state, settings, Path(ledger), port or settings.dashboard_port)
        try:
            with page.served() as address:
                yield DemoPage(ledger, address, published_state, stays=port is not None)
                return
        except PortUnusable as error:
            echo(f"{'Error: ' * (port is not None)}{error}", err=True)
            if port is not None:
                raise typer.Exit(2) from None
    yield DemoPage(options.ledger)
