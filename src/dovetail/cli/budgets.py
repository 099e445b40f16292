"""`dovetail budgets`: the number of nodes that the budgets of a NodePool allow to be disrupted, hour by hour.

The NodePool comes from a cluster, a snapshot or a manifest. Percentages refer to the current nodes of the NodePool, or
to `--nodes`. Read-only.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.completion import complete_nodepool
from dovetail.cli.resource_names import ResourceKind, strip_kind
from dovetail.cli.settings_options import with_few_settings
from dovetail.cli.snapshot_source import (
    ContextOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    SnapshotOption,
    fail,
    fail_unknown,
    read_snapshot,
)
from dovetail.cli.watch import WatchOption, follow_answers, require_live
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.model.nodepool import NodePool
    from dovetail.model.snapshot import Snapshot

MOST_DAYS = 366


@dataclass(frozen=True, slots=True)
class SizedPool:
    """A NodePool, the number of nodes that its percentages refer to, and the time of that count."""

    pool: "NodePool"
    total: int
    at: datetime


@with_few_settings("provider")
def budgets(  # noqa: PLR0913 - one parameter an option
    nodepool: Annotated[
        str,
        typer.Argument(
            help="The name of the NodePool; nodepool/NAME and np/NAME are accepted.",
            show_default=False,
            autocompletion=complete_nodepool,
        ),
    ],
    *,
    snapshot: SnapshotOption = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read the NodePool from a manifest; - reads standard input."),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            min=0,
            help="The number of nodes that percentages refer to.",
            show_default="those of the NodePool",
        ),
    ] = None,
    start: Annotated[
        datetime | None,
        typer.Option(
            "--from", metavar="DATE", formats=["%Y-%m-%d"], help="The first day to show, in UTC.", show_default="today"
        ),
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=MOST_DAYS, help="The number of days to show.")] = 7,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = OutputFormat.TEXT,
    watch: WatchOption = False,
    settings: Settings,
) -> None:
    """Show how many nodes of a NodePool may be disrupted at once, for each action, hour by hour.

    The budgets come from a cluster, a snapshot, or a manifest that is not applied yet. All times are in UTC.

    [bold]Examples[/bold]
      dovetail budgets general
      dovetail budgets general --snapshot cluster.json.gz --from 2026-12-20 --days 14
      dovetail budgets general -f nodepool.yaml --nodes 40
    """
    from dovetail.cli.view.budgets import print_calendar
    from dovetail.core.explain.budget_calendar import draw_calendar

    nodepool = strip_kind(nodepool, ResourceKind.NODEPOOL)
    require_live(watch, snapshot=snapshot, file=file)

    def show(sized: SizedPool) -> None:
        first = (start or sized.at).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
        total = sized.total if nodes is None else nodes
        at = sized.at if file is None else None  # a manifest is not of any time
        print_calendar(nodepool, draw_calendar(sized.pool, total, first, days * 24, at), output)

    if file is not None:
        if snapshot is not None or kubeconfig is not None or context is not None:
            raise typer.BadParameter(
                "cannot be combined with --snapshot, --kubeconfig or --context", param_hint="--file"
            )
        show(_from_manifest(nodepool, file, nodes))
    elif watch:
        follow_answers(lambda read: show(_from_cluster(nodepool, read)), (kubeconfig, context), settings)
    else:
        show(_from_cluster(nodepool, read_snapshot(snapshot, kubeconfig, context, settings)))


def _from_cluster(name: str, snapshot: "Snapshot") -> SizedPool:
    from dovetail.core.disruption.budgets import count_nodes

    if name not in snapshot.nodepools:
        fail_unknown("nodepool", name, snapshot.nodepools)
    total = count_nodes(snapshot.nodes_by_pool.get(name, ())).total
    return SizedPool(snapshot.nodepools[name], total, snapshot.at)


def _from_manifest(name: str, source: str, nodes: int | None) -> SizedPool:
    pools = _pools_in(source)
    if name not in pools:
        fail_unknown("nodepool", name, pools)
    pool = pools[name]
    if nodes is None and (share := _first_percentage(pool)):
        fail(f"a budget of {share} needs a number of nodes, and a manifest has none; add --nodes")
    return SizedPool(pool, nodes or 0, datetime.now(UTC))


def _first_percentage(pool: "NodePool") -> str:
    """Return the first percentage among the budgets, as written; empty if there is none."""
    return next((str(each.spec.nodes) for each in pool.budgets if each.percent is not None), "")


def _pools_in(source: str) -> "dict[str, NodePool]":
    from dovetail.manifest.codec import from_plain
    from dovetail.manifest.documents import read_documents
    from dovetail.manifest.input_file import InputUnreadable, read_text
    from dovetail.manifest.schema_check import as_stored
    from dovetail.manifest.validation import scope_of
    from dovetail.model.kinds import NODE_POOL
    from dovetail.model.kube_object import UnreadableObject

    try:
        text = read_text(source)
    except InputUnreadable as error:
        fail(f"{source}: {error}")
    pools: dict[str, NodePool] = {}
    for document in read_documents(text, source):
        if document.faults:
            fail(f"{source}: {document.faults[0]}")
        content = document.content
        if not isinstance(content, dict) or content.get("kind") != NODE_POOL.name:
            continue
        scope = scope_of(str(content.get("apiVersion")), NODE_POOL.name)
        read = from_plain(NODE_POOL, as_stored(scope, content) if scope is not None else content)
        if isinstance(read, UnreadableObject):
            fail(f"{source}: NodePool {read.metadata.name}: {read.faults[0]}; dovetail validate lists all faults")
        pools[read.name] = read
    return pools
