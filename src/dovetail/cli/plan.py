"""`dovetail plan`: what the next disruption pass would do, and why it leaves the other nodes alone. Read-only."""

from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.settings_options import DECIDING, with_few_settings
from dovetail.cli.snapshot_source import ContextOption, KubeconfigOption, OutputFormat, OutputOption, SnapshotOption
from dovetail.cli.watch import WatchOption, follow_answers, require_live
from dovetail.settings import Settings

if TYPE_CHECKING:
    from datetime import datetime

    from dovetail.cli.simulation.until_stable import StableState
    from dovetail.cli.view.plan_selection import PlanSelection
    from dovetail.model.snapshot import Snapshot

SummaryOption = Annotated[
    bool, typer.Option("--summary", help="Only the totals: nodes, cost, what leaves, what blocks the rest, drift.")
]
NodePoolOption = Annotated[
    list[str],
    typer.Option("--nodepool", metavar="NAME", help="Show only this NodePool; repeatable.", show_default=False),
]
ReasonOption = Annotated[
    list[str],
    typer.Option(
        "--reason",
        metavar="REASON",
        help="Show only this reason: Expired, Drifted, Empty or Underutilized; repeatable.",
        show_default=False,
    ),
]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TIME", help="Plan as if it were that time: 2026-01-05T17:10:00Z, or +2h after the snapshot."
    ),
]
UntilStableOption = Annotated[
    bool,
    typer.Option(
        "--until-stable", help="Play passes on a simulated copy until nothing more changes; show moves and end state."
    ),
]


@with_few_settings(*DECIDING)
def plan(  # noqa: PLR0913 - one parameter an option
    *,
    snapshot: SnapshotOption = None,
    summary: SummaryOption = False,
    nodepool: NodePoolOption = [],  # noqa: B006 - typer copies it
    reason: ReasonOption = [],  # noqa: B006 - typer copies it
    at: AtOption = None,
    until_stable: UntilStableOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = OutputFormat.TEXT,
    watch: WatchOption = False,
    settings: Settings,
) -> None:
    """Show which nodes the next disruption pass would remove or replace, and what prevents it for every other node.

    The plan is computed by the controller's own code, including budgets and the second check of consolidation. The
    provider of each NodePool follows from its nodeClassRef; instance types and prices of EC2 need AWS credentials.
    Without them the nodes are listed without prices, and the exit code is 2. Needs only get and list, writes nothing.

    [bold]Examples[/bold]
      dovetail plan                                    the current context
      dovetail plan --watch                            again after every change
      dovetail plan --snapshot cluster.json.gz -o json
      dovetail plan --summary                          the totals in a few lines
      dovetail plan --nodepool general --reason Drifted
      dovetail plan --at +2h                           as if two hours later
      dovetail plan --until-stable                     every move, and the end
    """
    from dovetail.cli.snapshot_source import context_of, fail_without_catalogs, read_snapshot
    from dovetail.cli.view.plan import plan_document, print_plan
    from dovetail.cli.view.plan_selection import restrict
    from dovetail.cli.view.plan_summary import print_summary
    from dovetail.cli.view.until_stable import print_stable_state
    from dovetail.core.disruption.planner import plan_pass

    if summary and (until_stable or reason):
        raise typer.BadParameter("cannot be combined with --summary", param_hint="--until-stable / --reason")
    if watch and until_stable:
        raise typer.BadParameter("cannot be combined with --until-stable", param_hint="--watch")

    def answer(read: "Snapshot") -> None:
        selection = _selection(read, nodepool, reason)
        later, notes = _moved(read, at)
        if until_stable:
            print_stable_state(play(later, settings), selection, notes, output)
            return
        planned = plan_pass(context_of(later, settings), thorough=True)
        if summary:
            print_summary(planned, later, selection, notes, output)
        else:
            document = plan_document(planned, later)
            print_plan(restrict({**document, "notes": notes}, planned, selection), output)

    require_live(watch, snapshot=snapshot)
    if watch:
        read = follow_answers(answer, (kubeconfig, context), settings)
    else:
        read = read_snapshot(snapshot, kubeconfig, context, settings)
        answer(read)
    if not until_stable:
        fail_without_catalogs(read, nodepool or None)


def _selection(read: "Snapshot", nodepools: list[str], reasons: list[str]) -> "PlanSelection":
    """Read the options that restrict the output; unknown names end the command."""
    from dovetail.cli.snapshot_source import fail_unknown
    from dovetail.cli.view.plan_selection import PlanSelection
    from dovetail.core.disruption.methods import METHODS

    known = {str(method.reason): method.reason for method in METHODS}
    by_lower = {name.lower(): found for name, found in known.items()}
    for name in nodepools:
        if name not in read.nodepools:
            fail_unknown("nodepool", name, read.nodepools)
    for name in reasons:
        if name.lower() not in by_lower:
            fail_unknown("disruption reason", name, known)
    return PlanSelection(tuple(dict.fromkeys(nodepools)), tuple(dict.fromkeys(by_lower[n.lower()] for n in reasons)))


def _moved(read: "Snapshot", at: str | None) -> "tuple[Snapshot, list[str]]":
    """The snapshot as if it were another time, and what that assumes."""
    from dataclasses import replace

    from dovetail.cli.view.plan_summary import names
    from dovetail.cli.view.printing import counted, stamp
    from dovetail.core.lifecycle.expiration import expires_at

    if at is None:
        return read, []
    later = _instant(at, read.at)
    if later < read.at:
        raise typer.BadParameter(f"{stamp(later)} is before the snapshot, {stamp(read.at)}", param_hint="--at")
    notes = [f"The cluster is that of {stamp(read.at)}: pods and nodes are assumed unchanged until then."]
    claims = [(node, node.claim) for node in read.nodes if node.claim is not None]
    due = [(node.name, expires_at(claim, read.nodepools.get(node.nodepool_name))) for node, claim in claims]
    expired = [name for name, end in due if end is not None and read.at < end <= later]
    if expired:
        number = counted(len(expired), "node")
        notes.append(f"{number} will have reached expireAfter and be deleted by then: {names(expired)}.")
    # Nominations last for seconds, and only a running controller knows them.
    return replace(read, at=later, nominated=frozenset() if later > read.at else read.nominated), notes


def _instant(text: str, start: "datetime") -> "datetime":
    from datetime import datetime

    from dovetail.model.instants import add, to_utc
    from dovetail.sim.scenario.parsing import parse_span

    try:
        if text.startswith("+"):
            return add(start, parse_span(text[1:]))
        return to_utc(datetime.fromisoformat(text))
    except (TypeError, ValueError) as error:
        about = f" ({error})" if text.startswith("+") else ""
        problem = f"{text!r} is not a time{about}; write 2026-01-05T17:10:00Z, with its zone, or +2h"
        raise typer.BadParameter(problem, param_hint="--at") from None


def play(start: "Snapshot", settings: Settings) -> "StableState":
    """Play passes on a simulated copy until nothing more changes; failures end the command."""
    from dovetail.cli.progress import progress_bar
    from dovetail.cli.simulation.runner import SimulationFailed
    from dovetail.cli.simulation.until_stable import LONGEST, play_until_stable
    from dovetail.cli.snapshot_source import fail, fail_unless_playable

    fail_unless_playable(start)
    try:
        with progress_bar() as show:
            return play_until_stable(
                start, settings, lambda passed, moves: show(f"playing, {moves} moves so far", passed / LONGEST)
            )
    except SimulationFailed as error:
        fail(str(error))
