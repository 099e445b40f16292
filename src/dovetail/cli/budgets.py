"""`dovetail budgets`: what a NodePool allows, action by action and hour by hour. Reads only."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.settings_options import with_few_settings
from dovetail.cli.snapshot_source import (
    ContextOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    SnapshotOption,
    fail,
    read_snapshot,
    unknown,
)
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.model.nodepool import NodePool

MOST_DAYS = 366


@dataclass(frozen=True, slots=True)
class Measured:
    """A pool, how many nodes its percentages are of, and when it was looked at."""

    pool: "NodePool"
    total: int
    at: datetime


@with_few_settings("provider")
def budgets(  # noqa: PLR0913 - one parameter an option
    nodepool: Annotated[str, typer.Argument(help="The NodePool.", show_default=False)],
    *,
    snapshot: SnapshotOption = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Read the NodePool from a manifest, or - for standard input."
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", min=0, help="How many nodes percentages are of.", show_default="those of the pool"),
    ] = None,
    start: Annotated[
        datetime | None,
        typer.Option(
            "--from", metavar="DATE", formats=["%Y-%m-%d"], help="The first day, in UTC.", show_default="today"
        ),
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=MOST_DAYS, help="How many days.")] = 7,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = OutputFormat.TEXT,
    settings: Settings,
) -> None:
    """Show how many nodes of a NodePool its budgets let go at once, for each action, hour by hour.

    Budgets are read from a cluster, a snapshot, or a manifest that is nowhere applied yet. All times are in UTC.

    [bold]Examples[/bold]
      dovetail budgets general
      dovetail budgets general --snapshot cluster.json.gz --from 2026-12-20 --days 14
      dovetail budgets general -f nodepool.yaml --nodes 40
    """
    from dovetail.cli.view.budgets import print_calendar
    from dovetail.core.explain.budget_calendar import draw_calendar

    if file is not None:
        if snapshot is not None or kubeconfig is not None or context is not None:
            raise typer.BadParameter("is for a manifest; leave the snapshot or the cluster out", param_hint="--file")
        measured = _from_manifest(nodepool, file, nodes)
    else:
        measured = _from_cluster(nodepool, snapshot, (kubeconfig, context), settings)
    first = (start or measured.at).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    total = measured.total if nodes is None else nodes
    print_calendar(nodepool, draw_calendar(measured.pool, total, first, days * 24), output)


def _from_cluster(
    name: str, source: str | None, access: tuple[Path | None, str | None], settings: Settings
) -> Measured:
    from dovetail.core.disruption.budgets import count_nodes

    snapshot = read_snapshot(source, *access, settings)
    if name not in snapshot.nodepools:
        unknown("nodepool", name, snapshot.nodepools)
    total = count_nodes(snapshot.nodes_by_pool.get(name, ())).total
    return Measured(snapshot.nodepools[name], total, snapshot.at)


def _from_manifest(name: str, source: str, nodes: int | None) -> Measured:
    pools = _pools_in(source)
    if name not in pools:
        unknown("nodepool", name, pools)
    pool = pools[name]
    if nodes is None and (share := _first_share(pool)):
        fail(f"{share} of how many nodes? A manifest does not say; add --nodes")
    return Measured(pool, nodes or 0, datetime.now(UTC))


def _first_share(pool: "NodePool") -> str:
    """The first percentage among the budgets in use, as it is written; empty if there is none."""
    return next((str(each.spec.nodes) for each in pool.budgets if each.percent is not None), "")


def _pools_in(source: str) -> "dict[str, NodePool]":
    from dovetail.manifest.codec import from_plain
    from dovetail.manifest.documents import read_documents
    from dovetail.manifest.input_file import InputUnreadable, read_text
    from dovetail.manifest.schema import schema_of
    from dovetail.manifest.schema_check import with_defaults
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
        read = from_plain(NODE_POOL, with_defaults(schema_of(scope), content) if scope is not None else content)
        if isinstance(read, UnreadableObject):
            fail(f"{source}: NodePool {read.metadata.name}: {read.faults[0]}; dovetail validate says more")
        pools[read.name] = read
    return pools
