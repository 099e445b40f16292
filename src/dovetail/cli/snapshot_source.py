"""The options and functions that read-only commands share: where their snapshot comes from, and how they fail.

A snapshot comes from a file, from standard input or from a live cluster.
"""

import asyncio
import difflib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dovetail.cli.safe_output import echo
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.core.disruption.pass_context import PassContext
    from dovetail.model.snapshot import Snapshot


class OutputFormat(StrEnum):
    """The output format."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


SnapshotOption = Annotated[
    str | None,
    typer.Option("--snapshot", metavar="FILE", help="Read a snapshot in place of a cluster; - reads standard input."),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="Path to a kubeconfig. Default: $KUBECONFIG, the pod's service account or ~/.kube/config.",
    ),
]
ContextOption = Annotated[str | None, typer.Option("--context", help="The kubeconfig context to use.")]
OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="The output format.")]

_MOST_SUGGESTIONS = 3


def read_snapshot(source: str | None, kubeconfig: Path | None, context: str | None, settings: Settings) -> "Snapshot":
    """Read the snapshot that the options select; a failure ends the command with exit code 2."""
    from dovetail.cloud.kwok.catalog import InstanceTypesInvalid
    from dovetail.manifest.snapshot_file import SnapshotInvalid, read_snapshot_file
    from dovetail.ports.errors import WorldError
    from dovetail.wiring.live import take_snapshot

    if source is not None and (kubeconfig is not None or context is not None):
        raise typer.BadParameter("cannot be combined with --snapshot", param_hint="--kubeconfig / --context")
    try:
        if source is not None:
            return read_snapshot_file(Path(source))
        return asyncio.run(take_snapshot(kubeconfig, context, settings))
    except SnapshotInvalid as error:
        name = "standard input" if source == "-" else str(source)
        fail("\n".join(line if line.startswith(name) else f"{name}: {line}" for line in str(error).splitlines()))
    except (InstanceTypesInvalid, WorldError) as error:
        fail(str(error))


def context_of(snapshot: "Snapshot", settings: Settings) -> "PassContext":
    """Make the context of a disruption pass over the snapshot, with the options of the controllers."""
    from dovetail.core.disruption.pass_context import PassContext

    return PassContext(snapshot, settings.options)


def fail(why: str) -> NoReturn:
    """End the command with an error and exit code 2."""
    echo(f"Error: {why}", err=True)
    raise typer.Exit(2)


def fail_unknown(kind: str, name: str, known: Iterable[str]) -> NoReturn:
    """End the command because no object has that name; the error suggests similar names."""
    names = sorted(set(known))
    within = [each for each in names if name and name in each]
    close = [*within, *(each for each in difflib.get_close_matches(name, names) if each not in within)]
    if close:
        offered = " or ".join(repr(each) for each in close[:_MOST_SUGGESTIONS])
        fail(f"there is no {kind} {name!r}; did you mean {offered}?")
    shown = ", ".join(names[:_MOST_SUGGESTIONS]) + (" ..." if len(names) > _MOST_SUGGESTIONS else "")
    fail(f"there is no {kind} {name!r}; " + (f"there are {shown}" if names else f"there are no {kind}s"))
