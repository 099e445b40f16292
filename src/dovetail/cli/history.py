"""`dovetail history`: every decision the controllers wrote down, long after its events are gone. Reads only."""

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.safe_output import echo

if TYPE_CHECKING:
    from collections.abc import Callable


class HistoryFormat(StrEnum):
    """How to print."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def history(  # noqa: PLR0913 - one parameter an option
    decision: Annotated[
        str,
        typer.Argument(
            metavar="DECISION", help="Only this one, whole: its id, or how the id begins.", show_default=False
        ),
    ] = "",
    *,
    node: Annotated[str, typer.Option("--node", metavar="NAME", help="Only about this node or NodeClaim.")] = "",
    nodepool: Annotated[str, typer.Option("--nodepool", metavar="NAME", help="Only about nodes of this pool.")] = "",
    reason: Annotated[
        str, typer.Option("--reason", metavar="REASON", help="Only for this reason, such as Drifted or Manual.")
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Not older than this: 7d, 36h, a date or an instant in UTC.")
    ] = "",
    until: Annotated[
        str, typer.Option("--until", metavar="WHEN", help="Older than this: 7d, 36h, a date or an instant in UTC.")
    ] = "",
    ledger: Annotated[
        str,
        typer.Option(
            "--ledger",
            metavar="PATH",
            envvar="DOVETAIL_LEDGER",
            help="The file `dovetail run` writes.",
            show_default="dovetail/ledger.db in the state directory",
        ),
    ] = "",
    output: Annotated[
        HistoryFormat, typer.Option("--output", "-o", help="How to print; wide adds ids, pods and notes.")
    ] = (HistoryFormat.TEXT),
) -> None:
    """Say who took a node, when, why, what moved, what it cost before and after, and how it ended.

    With the id of one decision: its plan, everything else that was looked at and why it was left alone, and how it
    ended. Reads the ledger that `dovetail run` keeps; needs no cluster. In a pod: kubectl exec into the controller.

    [bold]Examples[/bold]
      dovetail history --node ip-10-0-3-7          who took my node
      dovetail history --nodepool batch --since 7d
      dovetail history --reason Manual -o json
      dovetail history 3f9c                        one decision, with what was refused
    """
    import os

    from dovetail.cli.view.history import print_decision, print_history
    from dovetail.observe.ledger import find_place
    from dovetail.observe.ledger_query import LedgerMissing, LedgerQuery, NoSuchDecision, read_decision, read_history

    place = find_place(ledger, os.environ)
    if place is None:
        echo("Error: the ledger is off (DOVETAIL_LEDGER=off); name a file with --ledger", err=True)
        raise typer.Exit(2)
    if decision and any((node, nodepool, reason, since, until)):
        raise typer.BadParameter("is for many decisions, not for one", param_hint="--node / --nodepool / --reason ...")
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
    """A span back from now, a date, or an instant; a date without a time zone is in UTC."""
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
    except (ValueError, OverflowError):  # no instant, or one that is in no year of UTC
        remedy = "write a span such as 7d or 36h, a date such as 2026-01-31, or an instant such as 2026-01-31T09:00:00Z"
        raise typer.BadParameter(f"{text!r} is not a time; {remedy}", param_hint=option) from None
