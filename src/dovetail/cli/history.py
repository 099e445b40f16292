"""`dovetail history`: past decisions from the ledger, which outlive the events in the cluster. Read-only."""

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.safe_output import echo

if TYPE_CHECKING:
    from collections.abc import Callable


class HistoryFormat(StrEnum):
    """The output format."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def history(  # noqa: PLR0913 - one parameter an option
    decision: Annotated[
        str,
        typer.Argument(
            metavar="DECISION", help="Show this decision in full. An id or the beginning of an id.", show_default=False
        ),
    ] = "",
    *,
    node: Annotated[
        str, typer.Option("--node", metavar="NAME", help="Only decisions about this node or NodeClaim.")
    ] = "",
    nodepool: Annotated[
        str, typer.Option("--nodepool", metavar="NAME", help="Only decisions about nodes of this NodePool.")
    ] = "",
    reason: Annotated[
        str,
        typer.Option("--reason", metavar="REASON", help="Only decisions with this reason, such as Drifted or Manual."),
    ] = "",
    since: Annotated[
        str,
        typer.Option("--since", metavar="WHEN", help="Only decisions since then: 7d, 36h, a date or a time in UTC."),
    ] = "",
    until: Annotated[
        str,
        typer.Option("--until", metavar="WHEN", help="Only decisions before then: 7d, 36h, a date or a time in UTC."),
    ] = "",
    ledger: Annotated[
        str,
        typer.Option(
            "--ledger",
            metavar="PATH",
            envvar="DOVETAIL_LEDGER",
            help="The ledger file of `dovetail run`.",
            show_default="dovetail/ledger.db in the state directory",
        ),
    ] = "",
    output: Annotated[
        HistoryFormat,
        typer.Option("--output", "-o", help="The output format; wide adds ids, replacements and end times."),
    ] = (HistoryFormat.TEXT),
) -> None:
    """Show past decisions: which nodes were launched or removed, when, why, at what cost and with what outcome.

    With the id of a decision: its plan, why the other nodes were left alone, and its outcome. Reads the ledger that
    `dovetail run` writes; needs no cluster. For a controller in a pod, use kubectl exec.

    [bold]Examples[/bold]
      dovetail history --node ip-10-0-3-7          why a node was removed
      dovetail history --nodepool batch --since 7d
      dovetail history --reason Manual -o json
      dovetail history 3f9c                        one decision in full
    """
    import os

    from dovetail.cli.view.history import print_decision, print_history
    from dovetail.observe.ledger import resolve_ledger_path
    from dovetail.observe.ledger_query import LedgerMissing, LedgerQuery, NoSuchDecision, read_decision, read_history

    place = resolve_ledger_path(ledger, os.environ)
    if place is None:
        echo("Error: the ledger is disabled (DOVETAIL_LEDGER=off); name a file with --ledger", err=True)
        raise typer.Exit(2)
    if decision and any((node, nodepool, reason, since, until)):
        raise typer.BadParameter(
            "cannot be combined with the id of a decision", param_hint="--node / --nodepool / --reason ..."
        )
    question = LedgerQuery(
        node=node,
        nodepool=nodepool,
        reason=reason,
        since=instant("--since", since, _now),
        until=instant("--until", until, _now),
    )
    try:
        if decision:
            print_decision(read_decision(place, decision), output.value)
        else:
            print_history(read_history(place, question), output.value, node)
    except (LedgerMissing, NoSuchDecision) as error:
        echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


def _now() -> datetime:
    from datetime import UTC

    return datetime.now(UTC)


def instant(option: str, text: str, now: "Callable[[], datetime]") -> datetime | None:
    """Parse a duration before now, a date or a time; without a time zone, UTC."""
    from datetime import UTC, timedelta

    from dovetail.model.duration import Duration

    if not text:
        return None
    if text.endswith("d") and text[:-1].isascii() and text[:-1].isdigit() and len(text) < 7:
        return now() - timedelta(days=int(text[:-1]))
    try:
        return now() - Duration.parse(text).span
    except (ValueError, OverflowError):
        pass
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # not a time, or one outside the years of datetime
        remedy = "write a duration such as 7d or 36h, a date such as 2026-01-31, or a time such as 2026-01-31T09:00:00Z"
        raise typer.BadParameter(f"{text!r} is not a time; {remedy}", param_hint=option) from None
