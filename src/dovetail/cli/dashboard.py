"""`dovetail dashboard`: the page, for a live cluster or a snapshot. Reads only."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.safe_output import echo
from dovetail.cli.settings_options import with_settings
from dovetail.cli.snapshot_source import ContextOption, KubeconfigOption, SnapshotOption, fail, read_snapshot
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.dashboard.published_state import PublishedState


@with_settings
def dashboard(
    *,
    snapshot: SnapshotOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    settings: Settings,
) -> None:
    """Serve a page that shows every node, what it costs, how full it is and what it waits for.

    Live for a cluster, with permission to get, list and watch; or for a snapshot. Nothing is ever written. Only this
    machine can see it, unless there is a token. `dovetail run` and `dovetail demo` serve the same page.

    [bold]Examples[/bold]
      dovetail dashboard                             the current context
      dovetail dashboard --snapshot cluster.json.gz
      dovetail dashboard --dashboard-port 9000 --open
    """
    from dovetail.cli.dashboard_api import make_page
    from dovetail.cloud.kwok.catalog import InstanceTypesInvalid
    from dovetail.dashboard.address import AddressUnsafe
    from dovetail.dashboard.published_state import PublishedState
    from dovetail.observe.endpoints import PortUnusable
    from dovetail.observe.ledger import find_place
    from dovetail.observe.log import LogSettings, configure
    from dovetail.ports.errors import WorldError

    configure(LogSettings(level="warning", form="text"), sys.stderr)
    published_state = PublishedState(still=snapshot is not None)
    if snapshot is not None:
        published_state.publish(read_snapshot(snapshot, kubeconfig, context, settings))
    try:
        # the ledger of this machine has nothing to do with a snapshot, unless it is named
        kept = settings.ledger or ("off" if snapshot is not None else "")
        place, where = find_place(kept, os.environ), (kubeconfig, context)
        page = make_page(published_state, settings, place, settings.dashboard_port, where)
        with page.served() as address:
            echo(f"The page is at {address} until Ctrl-C.", err=True)
            if browser:
                typer.launch(address)
            asyncio.run(_until_stopped(published_state, kubeconfig, context, settings))
    except (AddressUnsafe, PortUnusable, InstanceTypesInvalid, WorldError, OSError, ValueError) as error:
        fail(str(error))


async def _until_stopped(
    published_state: "PublishedState", kubeconfig: Path | None, context: str | None, settings: Settings
) -> None:
    """A snapshot stays as it is; a cluster is watched."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    looked_at = published_state.latest.snapshot is not None
    watching = [] if looked_at else [asyncio.create_task(watch(published_state, kubeconfig, context, settings))]
    await until_over(stopped, watching)


async def until_over(stopped: asyncio.Event, beside: "list[asyncio.Task[None]]") -> None:
    """Wait until stopped, or until one of these tasks fails; raises why it did."""
    waiting = asyncio.create_task(stopped.wait())
    await asyncio.wait([waiting, *beside], return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, *beside):
        task.cancel()
    await asyncio.wait([waiting, *beside])
    for task in beside:
        if not task.cancelled():
            task.result()


async def watch(
    published_state: "PublishedState", kubeconfig: Path | None, context: str | None, settings: Settings
) -> None:
    """Keep the board up to date with a live cluster."""
    from dovetail.cli.dashboard_api import PAUSE_SECONDS
    from dovetail.dashboard.published_state import keep_publishing
    from dovetail.wiring.live import watched

    async with watched(kubeconfig, context, settings) as (state, take), asyncio.TaskGroup() as tasks:
        for informer in (*state.informers, state.switch):
            tasks.create_task(informer.run(), name=f"informer:{informer.kind.plural}")
        tasks.create_task(keep_publishing(published_state, state, take, PAUSE_SECONDS))
