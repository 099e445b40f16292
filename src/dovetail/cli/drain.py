"""`dovetail drain`: take one node away by choice, after a look at what that means, and follow it to its end."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.safe_output import echo
from dovetail.cli.settings_options import SUPPLY, with_few_settings
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
    from contextlib import AbstractAsyncContextManager

    from dovetail.core.explain.drain import DrainView
    from dovetail.core.scheduling.solver import Placement
    from dovetail.model.snapshot import ClusterNode, Snapshot
    from dovetail.wiring.live import Reach


@with_few_settings("dry_run", "manual_deletion", "preference_policy", *SUPPLY)
def drain(  # noqa: PLR0913 - one parameter an option
    node: Annotated[str, typer.Argument(help="The node, or its NodeClaim.", show_default=False)],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout", metavar="DURATION", help="Stop following after this long; the drain goes on. Else never."
        ),
    ] = None,
    snapshot: SnapshotOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = OutputFormat.TEXT,
    settings: Settings,
) -> None:
    """Take a node away: say what would happen, ask, delete it, and follow it until it is gone.

    The controllers do the work, as after kubectl delete node: pods are evicted tier by tier, and nodes are launched
    where they are needed. PodDisruptionBudgets hold; do-not-disrupt does not, unless a terminationGracePeriod bounds
    the drain (see --manual-deletion). Exit code 1: something permanent is in the way, the answer was no, or the time
    ran out. With --dry-run, which needs only get and list, and of a snapshot, it only says what would happen.

    [bold]Examples[/bold]
      dovetail drain ip-10-0-3-17 --dry-run
      dovetail drain ip-10-0-3-17 --yes --timeout 15m -o json
    """
    patience = _patience(timeout)
    read = read_snapshot(snapshot, kubeconfig, context, settings)
    found = _find(node, read)
    preview = _preview(_as_deleted(found, settings), read, settings)
    looking = settings.dry_run or snapshot is not None
    if looking or output == OutputFormat.TEXT:
        _print_preview(*preview, output)
    if looking:
        raise typer.Exit(1 if preview[0].stuck or preview[1].refusals else 0)
    _check_held(found)
    if not found.deleting and not yes:
        _confirm(found.name)
    from dovetail.wiring.live import reach

    raise typer.Exit(asyncio.run(_carry_out(found, reach(kubeconfig, context, settings), patience, output)))


def _patience(written: str | None) -> float | None:
    from dovetail.model.duration import Duration

    if written is None:
        return None
    try:
        seconds = Duration.parse(written).span.total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--timeout") from None
    if seconds <= 0:
        raise typer.BadParameter(f"must be longer than nothing, got {written!r}", param_hint="--timeout")
    return seconds


def _find(name: str, snapshot: "Snapshot") -> "ClusterNode":
    found = next((each for each in snapshot.nodes if name in (each.name, each.claim.name if each.claim else "")), None)
    if found is None:
        unknown("node", name, (node.name for node in snapshot.nodes))
    if found.claim is None:
        fail(f"no NodeClaim belongs to node {name!r}: somebody else's node. Use:  kubectl drain {name}")
    if found.node is None:
        fail(f"nodeclaim {name!r} has no node yet. Use:  kubectl delete nodeclaim {found.claim.name}")
    return found


def _check_held(node: "ClusterNode") -> None:
    """A Node that no finalizer holds would be gone at once, and its pods with it."""
    from dovetail.model.labels import TERMINATION_FINALIZER

    assert node.node is not None
    assert node.claim is not None
    if TERMINATION_FINALIZER not in node.node.metadata.finalizers:
        remedy = f"Use:  kubectl delete nodeclaim {node.claim.name}"
        fail(f"node {node.name!r} has not registered, so nothing holds it while it drains. {remedy}")


def _as_deleted(node: "ClusterNode", settings: Settings) -> "ClusterNode":
    """The node with what the controller writes on its claim when the Node is deleted first."""
    from dataclasses import replace

    from dovetail.core.lifecycle.termination import mark_manual_deletion

    assert node.claim is not None
    if node.deleting:
        return node
    return replace(node, claim=mark_manual_deletion(node.claim, settings.options.manual_deletion))


def _preview(node: "ClusterNode", snapshot: "Snapshot", settings: Settings) -> "tuple[DrainView, Placement]":
    from dovetail.core.explain.drain import explain_drain, find_homes

    return explain_drain(node, snapshot.pdbs, snapshot.at), find_homes(node, snapshot, settings.options)


def _print_preview(view: "DrainView", homes: "Placement", output: OutputFormat) -> None:
    from rich.console import Console

    from dovetail.cli.view.drain import drain_document, draw_drain, draw_homes, homes_document, summary
    from dovetail.cli.view.printing import print_document, stamp

    def draw(console: Console) -> None:
        console.print(f"Drain of node {view.node.name} at {stamp(view.at)}: {summary(view)}", style="bold")
        draw_drain(console, view)
        draw_homes(console, homes)

    document = {"node": view.node.name, "at": stamp(view.at), **drain_document(view), "homes": homes_document(homes)}
    print_document(document, output, draw)


def _confirm(name: str) -> None:
    if not sys.stdin.isatty():
        fail("nobody is there to ask; say --yes to drain, or --dry-run to look")
    if not typer.confirm(f"Drain node {name} and terminate its instance?", err=True):
        raise typer.Exit(1)


async def _carry_out(
    node: "ClusterNode", reach: "AbstractAsyncContextManager[Reach]", patience: float | None, output: OutputFormat
) -> int:
    """Delete the node and follow it. What it waits for is told on standard error, the end on standard output."""
    from dovetail.cli.drain_follower import Watched, follow
    from dovetail.kube.endpoint import AccessFault
    from dovetail.model.kinds import NODE
    from dovetail.ports.cluster import Deletion
    from dovetail.ports.errors import WorldError

    assert node.node is not None
    assert node.claim is not None
    progress = _Progress()
    try:
        async with reach as reached:
            if not node.node.deleting:
                await reached.cluster.delete(NODE, node.node.key, Deletion(uid=node.node.metadata.uid))
            began_at = reached.clock.now()
            watched = Watched(node.node, node.claim)
            try:
                async with asyncio.timeout(patience):
                    await follow(reached.cluster, reached.clock, watched, progress.tell)
            except TimeoutError:
                progress.end(node.name, gone=False, output=output)
                return 1
            progress.seconds = (reached.clock.now() - began_at).total_seconds()
    except (AccessFault, WorldError) as error:
        echo(f"Error: {error}", err=True)
        return 2
    progress.end(node.name, gone=True, output=output)
    return 0


class _Progress:
    """What was told last, so that it is told once."""

    def __init__(self) -> None:
        self.last: DrainView | None = None
        self.seconds = 0.0
        self._said = ""

    def tell(self, view: "DrainView") -> None:
        """Say how the drain stands, if that is news; of what holds it, the pods."""
        from dovetail.cli.view.drain import held, summary

        self.last = view
        line = summary(view)
        for each in held(view):
            line += f"\n  {each}"
        if line != self._said:
            self._said = line
            echo(f"{view.at:%H:%M:%S} {line}", err=True)

    def end(self, name: str, *, gone: bool, output: OutputFormat) -> None:
        """The outcome."""
        from dovetail.cli.view.drain import drain_document
        from dovetail.cli.view.printing import print_document

        left = drain_document(self.last) if self.last is not None and not gone else None
        document = {"node": name, "gone": gone, "seconds": round(self.seconds, 1), "draining": left}
        words = f"Node {name} is gone after {self.seconds:.0f} s." if gone else f"Node {name} still drains; it goes on."
        print_document(document, output, lambda console: console.print(words, style="green" if gone else "yellow"))
