"""`dovetail snapshot`: writes the state of a cluster to a file that `plan`, `explain`, `simulate` and others read."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.safe_output import echo
from dovetail.cli.settings_options import SUPPLY, with_few_settings
from dovetail.cli.snapshot_source import fail_without_catalogs
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.model.snapshot import Snapshot

_DEMO = "Use the demo in place of a cluster"
_AT = "1h"


@with_few_settings(*SUPPLY)
def snapshot(  # noqa: PLR0913 - one parameter an option
    *,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write: .json or .yaml, compressed with .gz added. Default: YAML on standard output.",
            show_default=False,
        ),
    ] = "",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            help="Path to a kubeconfig. Default: $KUBECONFIG, the pod's service account or ~/.kube/config.",
        ),
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="The kubeconfig context to use.")] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Take the simulated cluster of the demo.", rich_help_panel=_DEMO)
    ] = False,
    at: Annotated[
        str,
        typer.Option(
            "--at", metavar="DURATION", help="The virtual time in the demo.", show_default=_AT, rich_help_panel=_DEMO
        ),
    ] = "",
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="The random seed of the demo.", show_default="0", rich_help_panel=_DEMO),
    ] = None,
    settings: Settings,
) -> None:
    """Write the current state of a cluster to a file that plan, explain and the other commands can read.

    The file has nodes, NodeClaims, NodePools, pods, all objects that affect scheduling, and instance types with prices.
    It has no Secrets and no values of environment variables. Needs only get and list; changes nothing.

    [bold]Examples[/bold]
      dovetail snapshot -o cluster.json.gz       the current context
      dovetail snapshot --demo --at 90m          the demo after 90 minutes
    """
    form, gzipped = _form(output)
    if demo:
        if kubeconfig is not None or context is not None:
            raise typer.BadParameter("cannot be combined with --demo", param_hint="--kubeconfig / --context")
        taken = _from_demo(at or _AT, seed or 0, settings)
    else:
        if at or seed is not None:
            raise typer.BadParameter("requires --demo", param_hint="--at" if at else "--seed")
        taken = _from_cluster(kubeconfig, context, settings)
    _write(taken, output, form, gzipped)
    fail_without_catalogs(taken)


def _form(output: str) -> tuple[str, bool]:
    from dovetail.manifest.snapshot_file import file_form

    if not output or output == "-":
        return "yaml", False
    try:
        return file_form(output)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--output") from None


def _from_demo(at: str, seed: int, settings: Settings) -> "Snapshot":
    from dovetail.cli.demo.run import snapshot_at
    from dovetail.model.duration import Duration

    try:
        span = Duration.parse(at).span
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from None
    return snapshot_at(span.total_seconds(), seed, settings.catalog)


def _from_cluster(kubeconfig: Path | None, context: str | None, settings: Settings) -> "Snapshot":
    from dovetail.cloud.kwok.catalog import InstanceTypesInvalid
    from dovetail.kube.endpoint import AccessFault
    from dovetail.ports.errors import WorldError
    from dovetail.wiring.live import take_snapshot

    try:
        return asyncio.run(take_snapshot(kubeconfig, context, settings))
    except (AccessFault, InstanceTypesInvalid, WorldError) as error:
        echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


def _write(taken: "Snapshot", output: str, form: str, gzipped: bool) -> None:
    from dovetail.manifest.snapshot_file import snapshot_bytes

    content = snapshot_bytes(taken, "json" if form == "json" else "yaml", gzipped=gzipped)
    if not output or output == "-":
        typer.echo(content, nl=False)
        return
    try:
        Path(output).write_bytes(content)
    except OSError as error:
        echo(f"Error: {output} cannot be written: {error.strerror}", err=True)
        raise typer.Exit(2) from None
    echo(f"{output}: {_summary(taken)}", err=True)


def _summary(taken: "Snapshot") -> str:
    pods = sum(len(node.pods) for node in taken.nodes) + len(taken.unbound_pods)
    counts = ((len(taken.nodes), "nodes"), (pods, "pods"), (len(taken.nodepools), "NodePools"))
    return f"{', '.join(f'{number} {thing}' for number, thing in counts)} at {taken.at:%Y-%m-%d %H:%M:%S} UTC"
