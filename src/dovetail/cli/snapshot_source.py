"""The options and functions that read-only commands share: their snapshot, their output format, and how they fail.

A snapshot comes from a file, from standard input or from a live cluster. The output formats are those of kubectl.
"""

import asyncio
import difflib
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dovetail.cli.completion import complete_context
from dovetail.cli.safe_output import echo
from dovetail.settings import Settings

if TYPE_CHECKING:
    from dovetail.core.disruption.pass_context import PassContext
    from dovetail.model.snapshot import Snapshot


JSONPATH = "jsonpath="


class OutputFormat(StrEnum):
    """The output formats, apart from `jsonpath=TEMPLATE`."""

    TEXT = "text"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


_DOCUMENTS = (OutputFormat.TEXT, OutputFormat.JSON, OutputFormat.YAML)


def parse_output(text: str) -> str:
    """Return the output format; checks the template of `jsonpath=TEMPLATE`."""
    return _parse_output(text, tuple(OutputFormat))


def parse_document_output(text: str) -> str:
    """Return the output format of a command whose answer has no names and no wide form."""
    return _parse_output(text, _DOCUMENTS)


def _parse_output(text: str, formats: tuple[OutputFormat, ...]) -> str:
    from dovetail.cli.jsonpath import TemplateInvalid, compile_template

    if text in formats:
        return OutputFormat(text)
    if not text.startswith(JSONPATH):
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(formats)}, {JSONPATH}TEMPLATE")
    try:
        compile_template(text.removeprefix(JSONPATH))
    except TemplateInvalid as error:
        raise typer.BadParameter(f"the template is invalid: {error}") from None
    return text


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
ContextOption = Annotated[
    str | None,
    typer.Option("--context", help="The kubeconfig context to use.", autocompletion=complete_context),
]
OutputOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        parser=parse_output,
        help="One of text, wide (not truncated), name, json, yaml, jsonpath=TEMPLATE.",
    ),
]
DocumentOutputOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        parser=parse_document_output,
        help="One of text, json, yaml, jsonpath=TEMPLATE.",
    ),
]

_MOST_SUGGESTIONS = 3
_MOST_LISTED = 5


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
            taken = read_snapshot_file(Path(source))
        else:
            taken = asyncio.run(take_snapshot(kubeconfig, context, settings))
        return replace(taken, relax_min_values=settings.relax_min_values)
    except SnapshotInvalid as error:
        name = "standard input" if source == "-" else str(source)
        fail("\n".join(line if line.startswith(name) else f"{name}: {line}" for line in str(error).splitlines()))
    except (InstanceTypesInvalid, WorldError) as error:
        fail(str(error))


def context_of(snapshot: "Snapshot", settings: Settings) -> "PassContext":
    """Make the context of a disruption pass over the snapshot, with the options of the controllers."""
    from dovetail.core.disruption.pass_context import PassContext

    return PassContext(snapshot, settings.options)


def fail_without_catalogs(snapshot: "Snapshot | None", pools: Iterable[str] | None = None) -> None:
    """End the command with exit code 2 if instance types and prices of NodePools, or of these, are not known."""
    from dovetail.core.explain.missing_catalogs import missing_catalogs

    found = missing_catalogs(snapshot, pools) if snapshot is not None else ()
    if found:
        fail("\n".join(map(str, found)))


def fail_unless_playable(snapshot: "Snapshot") -> None:
    """End the command if the cluster cannot be simulated: prices are not known, or objects cannot be read."""
    fail_without_catalogs(snapshot)
    for bad in snapshot.unreadable:
        fail(f"{bad}, so the nodes it concerns cannot be simulated; correct or delete it")


def fail(why: str) -> NoReturn:
    """End the command with an error and exit code 2."""
    echo(f"Error: {why}", err=True)
    raise typer.Exit(2)


def fail_unknown(kind: str, name: str, known: Iterable[str], looked: str = "") -> NoReturn:
    """End the command because no object has that name; the error suggests similar names, and where else it looked."""
    more = f"\n{looked[:1].upper()}{looked[1:]}." if looked else ""
    names = sorted(set(known))
    within = [each for each in names if name and name in each]
    close = [*within, *(each for each in difflib.get_close_matches(name, names) if each not in within)]
    if close:
        offered = " or ".join(repr(each) for each in close[:_MOST_SUGGESTIONS])
        fail(f"there is no {kind} {name!r}; did you mean {offered}?{more}")
    shown = ", ".join(names[:_MOST_LISTED]) + (" ..." if len(names) > _MOST_LISTED else "")
    fail(f"there is no {kind} {name!r}; " + (f"there are {shown}" if names else f"there are no {kind}s") + more)
