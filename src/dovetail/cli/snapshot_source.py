"""Where a command that looks gets its snapshot from: a file, standard input, or a live cluster. Nothing is written."""

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
    """How to print."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


SnapshotOption = Annotated[
    str | None,
    typer.Option(
        "--snapshot", metavar="FILE", help="Look at a snapshot, or - for standard input, in place of a cluster."
    ),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", help="Path to a kubeconfig. Else KUBECONFIG, the pod's service account, ~/.kube/config."
    ),
]
ContextOption = Annotated[str | None, typer.Option("--context", help="The kubeconfig context to use.")]
OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="How to print it.")]

_MOST_SUGGESTIONS = 3


def read_snapshot(source: str | None, kubeconfig: Path | None, context: str | None, settings: Settings) -> "Snapshot":
    """The snapshot a user asked for; what cannot be had ends the command with exit code 2 and the reason."""
    from dovetail.cloud.kwok.catalog import InstanceTypesInvalid
    from dovetail.manifest.snapshot_file import SnapshotInvalid, read_snapshot_file
    from dovetail.ports.errors import WorldError
    from dovetail.wiring.live import take_snapshot

    if source is not None and (kubeconfig is not None or context is not None):
        raise typer.BadParameter("is for a cluster, not for a snapshot", param_hint="--kubeconfig / --context")
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
    """A pass over the snapshot with the options the controllers would have."""
    from dovetail.core.disruption.pass_context import PassContext

    return PassContext(snapshot, settings.options)


def fail(why: str) -> NoReturn:
    """End the command: it could not do its work."""
    echo(f"Error: {why}", err=True)
    raise typer.Exit(2)


def unknown(kind: str, name: str, known: Iterable[str]) -> NoReturn:
    """End the command: there is nothing of that name. Names close to it, or with it in them, are offered."""
    names = sorted(set(known))
    within = [each for each in names if name and name in each]
    close = [*within, *(each for each in difflib.get_close_matches(name, names) if each not in within)]
    if close:
        offered = " or ".join(repr(each) for each in close[:_MOST_SUGGESTIONS])
        fail(f"there is no {kind} {name!r}; did you mean {offered}?")
    shown = ", ".join(names[:_MOST_SUGGESTIONS]) + (" ..." if len(names) > _MOST_SUGGESTIONS else "")
    fail(f"there is no {kind} {name!r}; " + (f"there are {shown}" if names else "there is none at all"))
