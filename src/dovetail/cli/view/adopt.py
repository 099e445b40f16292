"""Prints the report of `dovetail adopt`: the verdict first, what to fix, the first hour, the comparison, the steps.

Text is wrapped at 80 columns, except commands, which are meant to be copied.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from dovetail.cli.view.printing import counted, document_type, dollars, plain_table, print_document, stamp
from dovetail.core.adoption.comparison import MarkTotal, NodeComparison
from dovetail.core.adoption.facts import FirstHour, PermissionChecks
from dovetail.core.adoption.findings import FindingLevel
from dovetail.core.adoption.report import AdoptionReport
from dovetail.core.adoption.steps import Step

COLUMNS = 80
MOST_NODES = 20
_HEADINGS = {
    "fix": ("To fix before the switch", "red"),
    "note": ("Different with Dovetail, or worth knowing", "yellow"),
    "not checked": ("Not checked", "yellow"),
    "ok": ("Checked and fine", "green"),
}
_VERDICT_STYLES = {True: "bold green", False: "bold red", None: "bold yellow"}
_MINUTES = 60
_ASSUMED = (
    "By default, disruption is off.",
    "Assumed: workloads do not change, no instance is interrupted, and nodes that are being deleted now stay.",
    "Drift that only AWS shows (AMI, subnets, security groups) is that of Karpenter's Drifted condition.",
)
_HOURS = {"off": "by default", "on": "--disruption=on"}


def print_adoption(report: AdoptionReport, output: str) -> None:
    """Print the report in an output format."""
    document = adoption_document(report)
    print_document(document, output, lambda console: draw_adoption(console, document))


def adoption_document(report: AdoptionReport) -> dict[str, Any]:
    """Build the document of a report."""
    karpenter, facts = report.facts.karpenter, report.facts
    return {
        **document_type("AdoptionReport"),
        "ready": report.ready,
        "toFix": len(report.at_level(FindingLevel.FIX)),
        "notChecked": len(report.at_level(FindingLevel.UNCHECKED)),
        "at": stamp(facts.snapshot.at),
        "karpenter": None
        if karpenter is None
        else {"namespace": karpenter.namespace, "deployment": karpenter.name, "image": karpenter.image},
        "findings": [
            {"level": str(each.level), "area": each.area, "message": each.message, "remedy": each.remedy}
            for each in report.findings
        ],
        "missingPermissions": {
            "thisAccount": _lacking(facts.steps_rbac),
            "dovetailRun": _lacking(facts.run_rbac),
        },
        "firstHour": [_hour(each) for each in facts.first_hours],
        "unpricedNodes": sum(each.price is None for each in report.nodes),
        "marks": [_total(each) for each in report.totals],
        "nodes": [_node(each) for each in report.nodes],
        "switch": [_step(each) for each in report.switch],
        "back": [_step(each) for each in report.back],
    }


def _lacking(checks: PermissionChecks | None) -> list[str] | None:
    """The missing permissions; None if they were not checked."""
    return None if checks is None else [str(each) for each in checks.lacking]


def _hour(hour: FirstHour) -> dict[str, Any]:
    return {
        "disruption": hour.disruption,
        "minutes": hour.minutes,
        "costPerHourBefore": round(hour.cost_before, 4),
        "costPerHourAfter": round(hour.cost_after, 4),
        "nodesLaunched": hour.launched,
        "nodesRemoved": hour.removed,
        "evictions": hour.evictions,
        "podsPendingBefore": hour.pending_before,
        "podsPending": hour.pending,
        "events": [
            {
                "minute": round(each.at / 60, 1),
                "what": each.what,
                "nodeClaim": each.node,
                "nodepool": each.nodepool,
                "reason": each.reason,
            }
            for each in hour.moments
        ],
    }


def _total(total: MarkTotal) -> dict[str, Any]:
    return {
        "karpenter": str(total.mark),
        "nodes": total.nodes,
        "costPerHour": round(total.price, 4),
        "unpriced": total.unpriced,
        "removedByDovetail": total.acted_on,
        "removedCostPerHour": round(total.acted_on_price, 4),
    }


def _node(node: NodeComparison) -> dict[str, Any]:
    return {
        "node": node.node,
        "nodepool": node.nodepool,
        "costPerHour": node.price,
        "karpenter": str(node.mark),
        "karpenterDetail": node.detail,
        "dovetail": node.dovetail,
        "dovetailActs": node.acts,
        "differs": node.differs,
    }


def _step(step: Step) -> dict[str, Any]:
    return {"title": step.title, "commands": list(step.commands), "check": step.check}


def draw_adoption(console: Console, document: Mapping[str, Any]) -> None:
    """Draw the report."""
    console.print(f"Ready to switch: {_verdict(document)}", style=_VERDICT_STYLES[document["ready"]])
    unpriced = document["unpricedNodes"]
    short = (_in_short(hour, unpriced) for hour in document["firstHour"])
    _print_lines(console, (line for each in short for line in _wrapped(each, "", "  ")))
    for level, (heading, style) in _HEADINGS.items():
        found = [each for each in document["findings"] if each["level"] == level]
        if found:
            console.print(f"\n{heading}", style=f"bold {style}")
            _print_lines(console, (line for each in _merged(found) for line in _finding_lines(each)))
    _draw_first_hour(console, document)
    _draw_comparison(console, document)
    guessed = "" if document["karpenter"] else ", with the names of Karpenter's Helm chart"
    _draw_steps(console, f"Steps to switch{guessed}", document["switch"])
    _draw_steps(console, "Steps back", document["back"])


def _verdict(document: Mapping[str, Any]) -> str:
    if document["ready"] is None:
        return "not known, because instance types are missing"
    unchecked = document["notChecked"]
    ready = "yes, as far as it could be checked" if unchecked else "yes"
    verdict = ready if document["ready"] else f"no, {counted(document['toFix'], 'thing')} to fix"
    return verdict + (f" ({unchecked} not checked, see below)" if unchecked else "")


def _in_short(hour: Mapping[str, Any], unpriced: int) -> str:
    """One sentence about an hour: what moves, and what it costs."""
    when = {"off": "By default", "on": "With disruption on"}[hour["disruption"]]
    before, after = dollars(hour["costPerHourBefore"]), dollars(hour["costPerHourAfter"])
    launched, removed, evictions = (hour[name] for name in ("nodesLaunched", "nodesRemoved", "evictions"))
    moves = f"launches {counted(launched, 'node')}, removes {removed}, and evicts {counted(evictions, 'pod')}"
    if not (launched or removed or evictions):
        moves = "launches, removes and evicts nothing"
    cost = f"{before} an hour" if before == after else f"{before} -> {after} an hour"
    without = f", without {counted(unpriced, 'node')} of unknown price" if unpriced else ""
    return f"{when}, the first hour {moves} ({cost}{without})."


def _merged(findings: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """One finding for all areas with the same message."""
    areas: dict[tuple[str, str], list[str]] = {}
    for each in findings:
        areas.setdefault((each["message"], each["remedy"]), []).append(each["area"])
    for (text, remedy), names in areas.items():
        yield {"area": ", ".join(names), "message": text, "remedy": remedy}


def _finding_lines(finding: Mapping[str, Any]) -> Iterator[str]:
    yield from _wrapped(f"{finding['area']}: {finding['message']}.".replace("..", "."), "  ", "    ")
    if finding["remedy"]:
        yield from _wrapped(f"-> {finding['remedy']}", "    ", "       ")


def _draw_first_hour(console: Console, document: Mapping[str, Any]) -> None:
    if not document["firstHour"]:
        return
    minutes = document["firstHour"][0]["minutes"]
    span = "hour" if minutes == _MINUTES else f"{minutes} minutes"
    console.print(f"\nThe first {span} of Dovetail, simulated on a copy of the cluster", style="bold")
    table = plain_table("", "$/H NOW", "$/H AFTER", "LAUNCHED", "REMOVED", "EVICTIONS", "PENDING")
    for hour in document["firstHour"]:
        table.add_row(
            f"  {_HOURS[hour['disruption']]}",
            dollars(hour["costPerHourBefore"]),
            dollars(hour["costPerHourAfter"]),
            str(hour["nodesLaunched"]),
            str(hour["nodesRemoved"]),
            str(hour["evictions"]),
            f"{hour['podsPendingBefore']} -> {hour['podsPending']}",
        )
    console.print(table)
    notes = list(_ASSUMED)
    if minutes < _MINUTES:
        notes.append("Less than an hour is simulated, because the cluster is large: later changes are not shown.")
    if unpriced := document["unpricedNodes"]:
        notes.append(f"The prices of {counted(unpriced, 'node')} are unknown: the cost above is without them.")
    for hour in document["firstHour"]:
        gone = [each for each in hour["events"] if each["what"] == "disrupted"]
        notes += [
            f"After {each['minute']:g} min: removes {each['nodeClaim']} ({each['reason']})"
            for each in gone[:MOST_NODES]
        ]
        if len(gone) > MOST_NODES:
            notes.append(f"and {len(gone) - MOST_NODES} more nodes: -o json lists them")
    _print_lines(console, (line for note in notes for line in _wrapped(note, "  ", "    ")))


def _draw_comparison(console: Console, document: Mapping[str, Any]) -> None:
    if not document["nodes"]:
        return
    console.print("\nWhat Karpenter marks, and what Dovetail does in that time with disruption on", style="bold")
    table = plain_table("  KARPENTER", "NODES", "$/H", "DOVETAIL REMOVES", "$/H OF THESE")
    for each in document["marks"]:
        table.add_row(
            f"  {each['karpenter']}",
            str(each["nodes"]),
            _price(each["costPerHour"], each["unpriced"] == each["nodes"]),
            str(each["removedByDovetail"]),
            _price(each["removedCostPerHour"], each["unpriced"] == each["nodes"]),
        )
    console.print(table)
    explanation = (
        "Karpenter publishes no plan. Consolidatable only means that consolidateAfter has passed; whether it would"
        " remove such a node is not known."
    )
    _print_lines(console, _wrapped(explanation, "  ", "  "))
    differing = [each for each in document["nodes"] if each["differs"]]
    if differing:
        console.print("\n  Nodes on which the two differ")
        _print_lines(console, (line for each in differing[:MOST_NODES] for line in _node_lines(each)))
    if len(differing) > MOST_NODES:
        console.print(f"  and {len(differing) - MOST_NODES} more: -o json lists them")


def _node_lines(node: Mapping[str, Any]) -> Iterator[str]:
    price = _price(node["costPerHour"] or 0.0, node["costPerHour"] is None)
    detail = f" ({node['karpenterDetail']})" if node["karpenterDetail"] else ""
    yield from _wrapped(f"{node['node']} of {node['nodepool']}, {price}/h", "  ", "    ")
    yield from _wrapped(f"Karpenter: {node['karpenter']}{detail}", "    ", "      ")
    yield from _wrapped(f"Dovetail:  {node['dovetail']}", "    ", "      ")


def _price(amount: float, unknown: bool) -> str:
    return "unknown" if unknown else dollars(amount)


def _draw_steps(console: Console, heading: str, steps: Sequence[Mapping[str, Any]]) -> None:
    if steps:
        console.print(f"\n{heading}", style="bold")
    for number, step in enumerate(steps, start=1):
        _print_lines(console, _wrapped(f"{number}. {step['title']}", "  ", "     "))
        _print_lines(console, (f"     {each}" for each in step["commands"]))
        if step["check"]:
            _print_lines(console, _wrapped(f"Check: {step['check']}.", "     ", "     "))


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, COLUMNS, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)
