"""The dashboard of the demo: a thread serves it while the demo runs and, with --dashboard-port, until Ctrl-C."""

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
    """The dashboard of a demo; without an address it is not served."""

    ledger: str
    address: str = ""
    published_state: PublishedState | None = None
    stays: bool = False
    publishing: "list[asyncio.Task[None]]" = field(default_factory=list)  # asyncio keeps only weak references

    def opened(self, stage: Stage) -> None:
        """Publish this demo; called on its event loop."""
        if self.published_state is not None:
            publishing = keep_publishing(
                self.published_state, stage.parts.manager.state, stage.look, _PAUSE_SECONDS, stays=True
            )
            self.publishing.append(asyncio.get_running_loop().create_task(publishing, name="page"))

    def stay(self) -> None:
        """Wait for Ctrl-C if the dashboard is to stay after the demo."""
        if not self.stays:
            return
        echo(f"Dashboard: {self.address} (Ctrl-C to stop)", err=True)
        ended = threading.Event()
        before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while not ended.wait(0.2):  # an endless wait would block signals on some platforms
                pass
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def demo_page(options: DemoOptions, port: int | None, *, live: bool) -> Iterator[DemoPage]:
    """Serve the dashboard if a port is given, or with a live view unless the port is 0."""
    if port == 0 or (port is None and not live):
        yield DemoPage(options.ledger)
        return
    settings, published_state = Settings(), PublishedState()
    with TemporaryDirectory(prefix="dovetail-demo-") as folder:
        ledger = options.ledger or str(Path(folder) / "ledger.db")
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
