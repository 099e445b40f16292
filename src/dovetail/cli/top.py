"""`dovetail top`: the cluster view of the dashboard in a terminal, live or once. Read-only."""

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dovetail.cli.completion import complete_nodepool
from dovetail.cli.settings_options import with_settings
from dovetail.cli.snapshot_source import (
    ContextOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    SnapshotOption,
    fail,
    fail_unknown,
    fail_without_catalogs,
    read_snapshot,
)
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.cli.view.top import TopView
    from dovetail.model.snapshot import Snapshot


class TopOrder(StrEnum):
    """The order of nodes."""

    POOL = "pool"
    PRICE = "price"
    CPU = "cpu"
    MEMORY = "memory"
    WAITS = "waits"
    AGE = "age"


@with_settings
def top(  # noqa: PLR0913 - one parameter an option
    *,
    snapshot: SnapshotOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    nodepool: Annotated[
        str,
        typer.Option(
            "--nodepool", metavar="NAME", help="Only nodes of this NodePool.", autocompletion=complete_nodepool
        ),
    ] = "",
    order: Annotated[
        TopOrder,
        typer.Option(
            "--sort", help="The order: NodePool, highest price, lowest CPU or memory use, reason to wait, or age."
        ),
    ] = TopOrder.POOL,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit. The default in a pipe.")] = False,
    output: OutputOption = OutputFormat.TEXT,
    settings: Settings,
) -> None:
    """Show every node live: its price, utilization, state and what it waits for.

    The values are those of the dashboard. Needs permission to get, list and watch; with --once, get and list are
    enough. Never writes. Keys: s changes the order, n the NodePool, q or Ctrl-C quits.

    [bold]Examples[/bold]
      dovetail top                                   the current context, live
      dovetail top --nodepool batch --sort price
      dovetail top --once -o json                    for scripts
      dovetail top --snapshot cluster.json.gz
    """
    from dovetail.cli.view.printing import print_document
    from dovetail.cli.view.top import TopView, draw_top

    choice = TopView(order.value, nodepool)
    dumb = os.environ.get("TERM", "") in {"dumb", "unknown"}
    live = output is OutputFormat.TEXT and not once and sys.stdout.isatty() and not dumb
    if not live:
        read = read_snapshot(snapshot, kubeconfig, context, settings)
        document = _document(read, choice, settings, still=snapshot is not None)
        print_document(document, output, lambda console: draw_top(console, document, choice))
        fail_without_catalogs(read)
        return
    from dovetail.cli.top_live import follow
    from dovetail.cloud.kwok.catalog import InstanceTypesInvalid
    from dovetail.dashboard.published_state import PublishedState
    from dovetail.ports.errors import WorldError

    published_state = PublishedState(still=snapshot is not None)
    if snapshot is not None:
        read = read_snapshot(snapshot, kubeconfig, context, settings)
        _require(nodepool, read)
        published_state.publish(read)
    try:
        follow(published_state, choice, (kubeconfig, context), settings)
    except (InstanceTypesInvalid, WorldError, OSError, ValueError) as error:
        fail(str(error))
    fail_without_catalogs(published_state.latest.snapshot)


def _document(read: "Snapshot", choice: "TopView", settings: Settings, *, still: bool) -> dict[str, Any]:
    from dovetail.cli.snapshot_source import context_of
    from dovetail.cli.view.plan import plan_document
    from dovetail.cli.view.top import top_document
    from dovetail.core.disruption.planner import plan_pass
    from dovetail.dashboard.publisher import draw_once

    _require(choice.nodepool, read)
    plan = plan_document(plan_pass(context_of(read, settings), thorough=True), read)
    tiles, summary = draw_once(read, plan, settings.options, still=still)
    return top_document(tiles.values(), summary, choice)


def _require(nodepool: str, read: "Snapshot") -> None:
    if nodepool and nodepool not in read.nodepools and nodepool not in read.nodes_by_pool:
        fail_unknown("nodepool", nodepool, read.nodepools)
