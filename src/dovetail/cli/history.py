"""`dovetail history`: past decisions from the ledger, which outlive the events in the cluster. Read-only."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.completion import complete_node, complete_nodepool
from dovetail.cli.history_source import NAMESPACE_VARIABLE, HistoryPlace, HistoryUnavailable, find_source
from dovetail.cli.resource_names import ResourceKind, strip_kind
from dovetail.cli.settings_options import with_few_settings
from dovetail.cli.snapshot_source import ContextOption, KubeconfigOption, OutputFormat, OutputOption, fail
from dovetail.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable


@with_few_settings("ledger", "leader_election_name", "leader_election_namespace", "dashboard_port")
def history(  # noqa: PLR0913 - one parameter an option
    decision: Annotated[
        str,
        typer.Argument(
            metavar="DECISION",
            help="Show this decision in full. An id, its beginning, or node/NAME as --node.",
            show_default=False,
        ),
    ] = "",
    *,
    node: Annotated[
        str,
        typer.Option(
            "--node",
            metavar="NAME",
            help="Only decisions about this node or NodeClaim.",
            autocompletion=complete_node,
        ),
    ] = "",
    nodepool: Annotated[
        str,
        typer.Option(
            "--nodepool",
            metavar="NAME",
            help="Only decisions about nodes of this NodePool.",
            autocompletion=complete_nodepool,
        ),
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
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAMESPACE",
            envvar=NAMESPACE_VARIABLE,
            help="The namespace of the controller.",
            show_default="dovetail",
        ),
    ] = "",
    pod: Annotated[
        str, typer.Option("--pod", metavar="NAME", help="Ask this pod of the controller in place of the leader.")
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="A file with a token, if the dashboard of the controller requires one."),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = OutputFormat.TEXT,
    settings: Settings,
) -> None:
    """Show past decisions: which nodes were launched or removed, when, why, at what cost and with what outcome.

    What commands saved is money up to now, or up to --until.

    With the id of a decision: its plan, why the other nodes were left alone, and its outcome. Asks the controller that
    leads, through the API server: get on its Lease, and get and create on pods/portforward are enough. With --ledger
    (DOVETAIL_LEDGER) it reads a file in place of that. -o wide adds ids, replacements and end times.

    [bold]Examples[/bold]
      dovetail history --node ip-10-0-3-7          why a node was removed
      dovetail history --nodepool batch --since 7d
      dovetail history --reason Manual -o json
      dovetail history 3f9c                        one decision in full
    """
    from dovetail.cli.view.history import print_decision, print_history

    decision = decision.removeprefix("decision/")
    if "/" in decision and not node:
        decision, node = "", decision
    node = strip_kind(node, ResourceKind.NODE, ResourceKind.NODECLAIM)
    nodepool = strip_kind(nodepool, ResourceKind.NODEPOOL)
    if decision and any((node, nodepool, reason, since, until)):
        raise typer.BadParameter(
            "cannot be combined with the id of a decision", param_hint="--node / --nodepool / --reason ..."
        )
    limits = {"since": instant("--since", since, _now), "until": instant("--until", until, _now)}
    filters = {"node": node, "nodepool": nodepool, "reason": reason}
    filters |= {name: at.isoformat() for name, at in limits.items() if at is not None}
    place = HistoryPlace(kubeconfig=kubeconfig, context=context, namespace=namespace, pod=pod, token_file=token_file)
    try:
        source = find_source(place, settings)
        if decision:
            print_decision(source.decision(decision), output)
        else:
            print_history(source.history({name: text for name, text in filters.items() if text}), output, node)
    except HistoryUnavailable as error:
        fail(str(error))


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
