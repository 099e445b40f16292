"""`dovetail drain`: previews the drain of a node, deletes the node and follows the drain until the node is gone.

The preview simulates the drain on a snapshot: the eviction tier of every pod, what blocks its eviction and where it
would be scheduled. The command then deletes the Node; the termination controller does the rest. Before it deletes, it
checks that the termination finalizer is on the Node: without it the Node would disappear without a drain.
"""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.completion import complete_node
from dovetail.cli.resource_names import ResourceKind, strip_kind
from dovetail.cli.safe_output import echo
from dovetail.cli.settings_options import SCHEDULING, SUPPLY, with_few_settings
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
    from contextlib import AbstractAsyncContextManager

    from dovetail.core.explain.drain import DrainView
    from dovetail.core.scheduling.solver import Placement
    from dovetail.model.snapshot import ClusterNode, Snapshot
    from dovetail.wiring.live import OpenCluster


@with_few_settings("dry_run", "manual_deletion", *SCHEDULING, *SUPPLY)
def drain(  # noqa: PLR0913 - one parameter an option
    node: Annotated[
        str,
        typer.Argument(
            help="The name of the node or of its NodeClaim.", show_default=False, autocompletion=complete_node
        ),
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="DURATION", help="Stop following after this time; the drain continues."),
    ] = None,
    snapshot: SnapshotOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = OutputFormat.TEXT,
    settings: Settings,
) -> None:
    """Drain and terminate a node: show the effect, ask, delete the node, and follow it until it is gone.

    The controllers do the work, as after kubectl delete node: they evict pods tier by tier, and launch nodes for pods
    that fit nowhere else. PodDisruptionBudgets are respected. do-not-disrupt is not, unless a terminationGracePeriod
    limits the drain (see --manual-deletion). With --dry-run or --snapshot the command only shows the effect, and get
    and list are enough. Exit code 1: the drain would never end, you answered no, or the timeout expired.

    [bold]Examples[/bold]
      dovetail drain ip-10-0-3-17 --dry-run
      dovetail drain ip-10-0-3-17 --yes --timeout 15m -o json
    """
    node = strip_kind(node, ResourceKind.NODE, ResourceKind.NODECLAIM)
    seconds = _timeout_seconds(timeout)
    read = read_snapshot(snapshot, kubeconfig, context, settings)
    found = _find(node, read)
    preview = _preview(_marked_deleted(found, settings), read, settings)
    preview_only = settings.dry_run or snapshot is not None
    if preview_only or output in {OutputFormat.TEXT, OutputFormat.WIDE} or read.missing_catalogs:
        _print_preview(*preview, output)
    fail_without_catalogs(read)  # where its pods would be scheduled is not known; kubectl delete node still works
    if preview_only:
        raise typer.Exit(1 if preview[0].stuck or preview[1].refusals else 0)
    _check_finalizer(found)
    if not found.deleting and not yes:
        _confirm(found.name)
    from dovetail.wiring.live import open_cluster

    raise typer.Exit(asyncio.run(_drain(found, open_cluster(kubeconfig, context, settings), seconds, output)))


def _timeout_seconds(written: str | None) -> float | None:
    from dovetail.model.duration import Duration

    if written is None:
        return None
    try:
        seconds = Duration.parse(written).span.total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--timeout") from None
    if seconds <= 0:
        raise typer.BadParameter(f"must be longer than 0s, got {written!r}", param_hint="--timeout")
    return seconds


def _find(name: str, snapshot: "Snapshot") -> "ClusterNode":
    found = next((each for each in snapshot.nodes if name in (each.name, each.claim.name if each.claim else "")), None)
    if found is None:
        fail_unknown("node", name, (node.name for node in snapshot.nodes))
    if found.claim is None:
        fail(f"node {name!r} has no NodeClaim, so Dovetail does not manage it. Use:  kubectl drain {name}")
    if found.node is None:
        fail(f"nodeclaim {name!r} has no node yet. Use:  kubectl delete nodeclaim {found.claim.name}")
    return found


def _check_finalizer(node: "ClusterNode") -> None:
    """Fail for a Node without the termination finalizer: deleting it would remove its pods without a drain."""
    from dovetail.model.labels import TERMINATION_FINALIZER

    assert node.node is not None
    assert node.claim is not None
    if TERMINATION_FINALIZER not in node.node.metadata.finalizers:
        remedy = f"Use:  kubectl delete nodeclaim {node.claim.name}"
        fail(f"node {node.name!r} has not registered and has no termination finalizer to drain it. {remedy}")


def _marked_deleted(node: "ClusterNode", settings: Settings) -> "ClusterNode":
    """Return the node with its NodeClaim marked as the controller marks it when a user deletes the Node."""
    from dataclasses import replace

    from dovetail.core.lifecycle.termination import mark_manual_deletion

    assert node.claim is not None
    if node.deleting:
        return node
    return replace(node, claim=mark_manual_deletion(node.claim, settings.options.manual_deletion))


def _preview(node: "ClusterNode", snapshot: "Snapshot", settings: Settings) -> "tuple[DrainView, Placement]":
    from dovetail.core.explain.drain import explain_drain, place_drained_pods

    return explain_drain(node, snapshot.pdbs, snapshot.at), place_drained_pods(node, snapshot, settings.options)


def _print_preview(view: "DrainView", placement: "Placement", output: str) -> None:
    from rich.console import Console

    from dovetail.cli.view.drain import drain_document, draw_drain, draw_placement, outcome, placement_document, summary
    from dovetail.cli.view.printing import document_type, print_document, stamp

    def draw(console: Console) -> None:
        console.print(
            f"Drain of node {view.node.name} at {stamp(view.at)} {outcome(view)}: {summary(view)}", style="bold"
        )
        draw_drain(console, view)
        draw_placement(console, placement)

    document = {
        **document_type("DrainPreview"),
        "node": view.node.name,
        "at": stamp(view.at),
        **drain_document(view),
        "homes": placement_document(placement),
    }
    print_document(document, output, draw)


def _confirm(name: str) -> None:
    if not sys.stdin.isatty():
        fail(
            "standard input is not a terminal, so there is no confirmation; add --yes to drain or --dry-run to preview"
        )
    if not typer.confirm(f"Drain node {name} and terminate its instance?", err=True):
        raise typer.Exit(1)


async def _drain(
    node: "ClusterNode",
    opening: "AbstractAsyncContextManager[OpenCluster]",
    seconds: float | None,
    output: str,
) -> int:
    """Delete the node and follow its drain; progress goes to standard error, the outcome to standard output."""
    from dovetail.cli.drain_follower import DrainingNode, follow
    from dovetail.kube.endpoint import AccessFault
    from dovetail.model.kinds import NODE
    from dovetail.ports.cluster import Deletion
    from dovetail.ports.errors import WorldError

    assert node.node is not None
    assert node.claim is not None
    progress = _Progress()
    try:
        async with opening as opened:
            if not node.node.deleting:
                await opened.cluster.delete(NODE, node.node.key, Deletion(uid=node.node.metadata.uid))
            began_at = opened.clock.now()
            try:
                async with asyncio.timeout(seconds):
                    await follow(opened.cluster, opened.clock, DrainingNode(node.node, node.claim), progress.report)
            except TimeoutError:
                progress.end(node.name, gone=False, output=output)
                return 1
            progress.seconds = (opened.clock.now() - began_at).total_seconds()
    except (AccessFault, WorldError) as error:
        echo(f"Error: {error}", err=True)
        return 2
    progress.end(node.name, gone=True, output=output)
    return 0


class _Progress:
    """Reports the progress of a drain and drops repetitions."""

    def __init__(self) -> None:
        self.last: DrainView | None = None
        self.seconds = 0.0
        self._reported = ""

    def report(self, view: "DrainView") -> None:
        """Print the state of the drain and the pods that block it, if either has changed."""
        from dovetail.cli.view.drain import blocked_pods, summary

        self.last = view
        line = summary(view)
        for each in blocked_pods(view):
            line += f"\n  {each}"
        if line != self._reported:
            self._reported = line
            echo(f"{view.at:%H:%M:%S} {line}", err=True)

    def end(self, name: str, *, gone: bool, output: str) -> None:
        """Print the outcome."""
        from dovetail.cli.view.drain import drain_document
        from dovetail.cli.view.printing import document_type, print_document

        left = drain_document(self.last) if self.last is not None and not gone else None
        document = {
            **document_type("Drain"),
            "node": name,
            "gone": gone,
            "seconds": round(self.seconds, 1),
            "draining": left,
        }
        text = (
            f"Node {name} is gone after {self.seconds:.0f} s."
            if gone
            else f"Node {name} is still draining; the drain continues."
        )
        print_document(document, output, lambda console: console.print(text, style="green" if gone else "yellow"))
