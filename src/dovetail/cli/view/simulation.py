"""Prints the report of one simulation run: summary, days, NodePools and, on request, the timeline of nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from dovetail.cli.simulation.report import budget_use, length
from dovetail.cli.view.printing import counted, document_type, dollars, plain_table, print_document, saved

Report = dict[str, Any]


def print_report(report: Report, output: str, *, timeline: bool = False) -> None:
    """Print the report of one run; with `timeline`, also when each node was launched, disrupted and removed."""
    document = {**document_type("SimulationReport"), **report}
    print_document(document, output, lambda console: _report(console, report, timeline=timeline))


def _report(console: Console, report: Report, *, timeline: bool) -> None:
    console.print(
        Text.assemble(
            (report["scenario"], "bold"),
            f": {length(report['simulatedSeconds'])} from {report['start']}, seed {report['seed']}",
        )
    )
    console.print()
    _summary(console, report)
    console.print()
    _days(console, report["days"])
    console.print()
    _pools(console, report["nodePools"])
    if timeline:
        console.print()
        _timeline(console, report["timeline"])
    for line in report["missed"]:
        console.print(Text(f"Note: {line}", style="yellow"))


def _summary(console: Console, report: Report) -> None:
    cost, pending, nodes = report["cost"], report["pending"], report["nodes"]
    over = "" if cost["overLowerBound"] is None else f" ({cost['overLowerBound']:.1%} above it)"
    floor = "not known" if cost["lowerBound"] is None else dollars(cost["lowerBound"])
    reasons = ", ".join(f"{number} {reason}" for reason, number in report["disruptions"].items()) or "none"
    table = plain_table("", "")
    table.show_header = False
    table.add_row("Cost", f"{dollars(cost['total'])}; lower bound {floor}{over}")
    table.add_row("Savings", savings_text(report))
    table.add_row("Nodes", f"{nodes['launched']} launched, {nodes['removed']} removed, at most {nodes['most']} at once")
    table.add_row("Disrupted", reasons)
    table.add_row("Evictions", f"{report['evictions']:,}")
    mean, p95, most = (f"{pending[key]:g} s" for key in ("meanSeconds", "p95Seconds", "mostSeconds"))
    waits = f"{mean} on average, p95 {p95}, at most {most}; {pending['podHours']:,.1f} pod hours in total"
    table.add_row("Pending pods", f"{waits}; {pending['stillWaiting']} still pending")
    table.add_row("API calls", f"{report['apiCalls']:,}")
    console.print(table)


def savings_text(report: Report) -> str:
    """Say what the commands of a run saved, in total and by reason."""
    savings = report["savings"]
    text = f"{counted(savings['commands'], 'command')} {saved(savings['total'])}"
    if len(savings["byReason"]) > 1:
        text += f" ({', '.join(f'{reason} {dollars(amount)}' for reason, amount in savings['byReason'].items())})"
    if savings["notCounted"]:
        text += f"; the saving of {counted(savings['notCounted'], 'command')} is not known"
    return text if savings["commands"] or savings["notCounted"] else "no commands"


def _days(console: Console, days: Sequence[Mapping[str, Any]]) -> None:
    table = plain_table("DAY", "COST", "FLOOR", "OVER", "EVICTIONS", "LAUNCHED", "REMOVED", "PENDING")
    for each in days:
        floor = each["lowerBound"]
        table.add_row(
            str(each["day"]),
            dollars(each["cost"]),
            "-" if floor is None else dollars(floor),
            "-" if not floor else f"{each['cost'] / floor - 1:.0%}",
            str(each["evictions"]),
            str(each["nodesLaunched"]),
            str(each["nodesRemoved"]),
            f"{each['pendingPodHours']:,.1f} h",
        )
    console.print(table)


def _pools(console: Console, pools: Mapping[str, Mapping[str, Any]]) -> None:
    heads = ("COST", "LAUNCHED", "REMOVED", "MOST", "EVICTIONS", "PENDING", "LEAVING", "BUDGET USED", "DISRUPTED")
    table = plain_table("NODEPOOL", *heads)
    for name, pool in pools.items():
        reasons = ", ".join(f"{number} {reason}" for reason, number in pool["disruptions"].items()) or "-"
        numbers = [str(pool[key]) for key in ("nodesLaunched", "nodesRemoved", "mostNodes", "evictions")]
        waited, leaving = f"{pool['pendingPodHours']:,.1f} h", str(pool["mostLeavingAtOnce"])
        table.add_row(name, dollars(pool["cost"]), *numbers, waited, leaving, budget_use(pool["budgets"]), reasons)
    console.print(table)


def _timeline(console: Console, moments: Sequence[Mapping[str, Any]]) -> None:
    table = plain_table("TIME", "EVENT", "NODE", "NODEPOOL", "REASON")
    for each in moments:
        table.add_row(_after(each["at"]), each["what"], each["node"], each["nodePool"], each["reason"] or "-")
    console.print(table)


def _after(seconds: float) -> str:
    days, rest = divmod(round(seconds), 86400)
    return (f"{days}d " if days else "") + f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
