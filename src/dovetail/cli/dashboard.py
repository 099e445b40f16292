"""`dovetail dashboard`: serves the dashboard for a live cluster or a snapshot. Read-only.

A live cluster is watched with informers and published once a second; a snapshot file is published once.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.safe_output import echo
from dovetail.cli.settings_options import with_settings
from dovetail.cli.snapshot_source import (
    ContextOption,
    KubeconfigOption,
    SnapshotOption,
    fail,
    fail_without_catalogs,
    read_snapshot,
)
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.dashboard.published_state import PublishedState


@with_settings
def dashboard(
    *,
    snapshot: SnapshotOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the dashboard in a browser.")] = False,
    settings: Settings,
) -> None:
    """Serve a web page with every node: its price, its utilization and what it waits for.

    Shows a live cluster, which needs permission to get, list and watch, or a snapshot. Never writes. Listens on
    loopback only, unless a token is configured. `dovetail run` and `dovetail demo` serve the same dashboard.

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
    from dovetail.observe.ledger import resolve_ledger_path
    from dovetail.observe.log import LogSettings, configure
    from dovetail.ports.errors import WorldError

    configure(LogSettings(level="warning", form="text"), sys.stderr)
    published_state = PublishedState(still=snapshot is not None)
    if snapshot is not None:
        published_state.publish(read_snapshot(snapshot, kubeconfig, context, settings))
    try:
        # The default ledger does not belong to the snapshot, so use only a ledger that is named.
        ledger = settings.ledger or ("off" if snapshot is not None else "")
        place, where = resolve_ledger_path(ledger, os.environ), (kubeconfig, context)
        page = make_page(published_state, settings, place, settings.dashboard_port, where)
        with page.served() as address:
            echo(f"Dashboard: {address} (Ctrl-C to stop)", err=True)
            if browser:
                typer.launch(address)
            asyncio.run(_serve_until_stopped(published_state, kubeconfig, context, settings))
    except (AddressUnsafe, PortUnusable, InstanceTypesInvalid, WorldError, OSError, ValueError) as error:
        fail(str(error))
    fail_without_catalogs(published_state.latest.snapshot)


async def _serve_until_stopped(
    published_state: "PublishedState", kubeconfig: Path | None, context: str | None, settings: Settings
) -> None:
    """Wait for SIGINT or SIGTERM; watch the cluster meanwhile, unless a snapshot is shown."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    has_snapshot = published_state.latest.snapshot is not None
    watching = [] if has_snapshot else [asyncio.create_task(watch(published_state, kubeconfig, context, settings))]
    await wait_until_stopped(stopped, watching)


async def wait_until_stopped(stopped: asyncio.Event, tasks: "list[asyncio.Task[None]]") -> None:
    """Wait for the event or until a task ends, then cancel all tasks. Raises the exception of a failed task."""
    waiting = asyncio.create_task(stopped.wait())
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, *tasks):
        task.cancel()
    await asyncio.wait([waiting, *tasks])
    for task in tasks:
        if not task.cancelled():
            task.result()


async def watch(
    published_state: "PublishedState", kubeconfig: Path | None, context: str | None, settings: Settings
) -> None:
    """Publish snapshots of a live cluster until cancelled."""
    from dovetail.cli.dashboard_api import PAUSE_SECONDS
    from dovetail.dashboard.published_state import keep_publishing
    from dovetail.wiring.live import watch_cluster

    async with watch_cluster(kubeconfig, context, settings) as (state, take), asyncio.TaskGroup() as tasks:
        for informer in (*state.informers, state.switch):
            tasks.create_task(informer.run(), name=f"informer:{informer.kind.plural}")
        tasks.create_task(keep_publishing(published_state, state, take, PAUSE_SECONDS))
