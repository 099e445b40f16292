"""Prints the summary of a plan: cost now, what leaves, cost after, what blocks the rest, and what drifted."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console

from dovetail.cli.view.plan_selection import PlanSelection
from dovetail.cli.view.printing import (
    counted,
    document_type,
    dollars,
    moment,
    plain_lines,
    print_document,
    stamp,
    worth,
)
from dovetail.cli.view.shared_causes import drifted_document, print_no_plan
from dovetail.core.disruption.command import HOURS_PER_MONTH
from dovetail.core.disruption.planner import PassPlan
from dovetail.core.explain.missing_catalogs import missing_catalogs
from dovetail.core.explain.plan_summary import BlockedNodes, PlanSummary, summarize
from dovetail.model.snapshot import Snapshot

MOST_NAMES = 3
MOST_OTHERS = 5


def print_summary(
    plan: PassPlan, snapshot: Snapshot, selection: PlanSelection, notes: Sequence[str], output: str
) -> None:
    """Print the summary of a thorough plan in an output format, for all NodePools or the selected ones."""
    if selection:
        notes = [*notes, f"Only {selection}. The pass decides about all nodes together."]
    document = {**document_type("PlanSummary"), **summary_document(summarize(plan, snapshot, selection.nodepools))}
    document |= {"notes": list(notes), **unplanned_document(snapshot, selection.nodepools)}
    print_document(document, output, lambda console: _draw(console, document))


def summary_document(summary: PlanSummary) -> dict[str, Any]:
    """Build the document of a summary."""
    return {
        "at": stamp(summary.at),
        "nodes": summary.nodes,
        "unpricedNodes": summary.unpriced,
        "costPerHour": round(summary.cost, 4),
        "leaving": {
            "nodes": summary.leaving,
            "byReason": dict(summary.leaving_by_reason),
            "replacements": summary.replacements,
            "podsMoved": summary.pods_moved,
            "unpricedNodes": summary.unpriced_leaving,
        },
        "nodesAfter": summary.nodes - summary.leaving + summary.replacements,
        "costPerHourAfter": round(summary.cost - summary.saving, 4),
        "savingPerMonth": round(summary.saving * HOURS_PER_MONTH, 2),
        "blocked": [blocked_document(each) for each in summary.blocked],
        "drifted": drifted_document(summary.drifted),
    }


def unplanned_document(snapshot: Snapshot, nodepools: Collection[str] = ()) -> dict[str, Any]:
    """Build the part about the nodes for which nothing can be planned, because their instance types are not known."""
    missing = missing_catalogs(snapshot, nodepools or None)
    pools = {name for each in missing for name in each.nodepools}
    return {
        "missingCatalogs": [str(each) for each in missing],
        "unplannedNodes": sum(each.managed and each.nodepool_name in pools for each in snapshot.nodes),
    }


def blocked_document(blocked: BlockedNodes) -> dict[str, Any]:
    """Build the document of the nodes that one obstacle keeps."""
    return {
        "by": str(blocked.kind),
        "what": blocked.what,
        "nodes": list(blocked.nodes),
        "pods": list(blocked.pods),
        "until": stamp(blocked.last_until) if blocked.last_until is not None else None,
        "firstUntil": stamp(blocked.first_until) if blocked.first_until is not None else None,
        "permanent": blocked.permanent,
        "leaveAt": stamp(blocked.leave_at) if blocked.leave_at is not None else None,
    }


def _draw(console: Console, document: Mapping[str, Any]) -> None:
    cost, nodes = document["costPerHour"], counted(document["nodes"], "node")
    verb = "costs" if document["nodes"] == 1 else "cost"
    nothing_known = document["missingCatalogs"] and document["unplannedNodes"] == document["nodes"]
    if nothing_known:
        print_no_plan(console, document["at"], document["missingCatalogs"])
    else:
        console.print(f"{nodes} {verb} {dollars(cost)} an hour at {document['at']}", style="bold")
    if document["unpricedNodes"] and not nothing_known:
        console.print(f"The prices of {counted(document['unpricedNodes'], 'node')} are unknown and not in these costs.")
    for note in document["notes"]:
        console.print(note, style="yellow")
    for cause in document["missingCatalogs"] if not nothing_known else ():
        console.print(f"No plan for some nodes: {cause}.", style="red")
    if not nothing_known:
        _draw_leaving(console, document)
    now = datetime.fromisoformat(document["at"])
    staying = sum(len(each["nodes"]) for each in document["blocked"])
    if staying:
        console.print(f"{counted(staying, 'node')} stay{'s' if staying == 1 else ''}:")
        draw_blocked(console, document["blocked"], now)
    drifted = sum(len(each["nodes"]) for each in document["drifted"])
    console.print(f"Drifted: {counted(drifted, 'node')}" if drifted else "Drifted: none")
    if drifted:
        table = plain_lines(4, 0)
        for each in document["drifted"]:
            table.add_row(f"{len(each['nodes']):>4}", f"{each['message']} ({names(each['nodes'])})")
        console.print(table)


def _draw_leaving(console: Console, document: Mapping[str, Any]) -> None:
    leaving = document["leaving"]
    if not leaving["nodes"]:
        unknown = document["missingCatalogs"]
        console.print("The next pass removes none of the other nodes." if unknown else "The next pass removes nothing.")
        return
    reasons = ", ".join(f"{number} {reason}" for reason, number in leaving["byReason"].items())
    instead = (
        f"{counted(leaving['replacements'], 'replacement')} launched" if leaving["replacements"] else "none replaced"
    )
    moved = f"{counted(leaving['podsMoved'], 'pod')} moved"
    console.print(f"The next pass removes {counted(leaving['nodes'], 'node')} ({reasons}), {instead}, {moved}.")
    after = f"{counted(document['nodesAfter'], 'node')} for {dollars(document['costPerHourAfter'])} an hour"
    console.print(
        f"After it: {after}; {worth(document['savingPerMonth'], leaving['unpricedNodes'])}.", style="bold green"
    )


def draw_blocked(console: Console, blocked: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Draw a line for each obstacle, with the number of nodes it keeps; of the obstacles without a kind, a few."""
    others = [each for each in blocked if each["by"] == "other"]
    table = plain_lines(4, 0)
    for each in (*(each for each in blocked if each["by"] != "other"), *others[:MOST_OTHERS]):
        kind = "" if each["by"] == "other" else f"{each['by']} "
        pods = f", pods {names(each['pods'])}" if each["pods"] else ""
        text = f"{kind}{each['what']}{_lasting(each, now)} ({names(each['nodes'])}{pods})"
        table.add_row(f"{len(each['nodes']):>4}", text)
    if hidden := others[MOST_OTHERS:]:
        number = sum(len(each["nodes"]) for each in hidden)
        table.add_row(f"{number:>4}", f"{counted(len(hidden), 'other obstacle')}: dovetail plan lists them")
    console.print(table)


def _lasting(blocked: Mapping[str, Any], now: datetime) -> str:
    if blocked["permanent"]:
        return ", until it is changed"
    first, last = (blocked[key] and datetime.fromisoformat(blocked[key]) for key in ("firstUntil", "until"))
    if last is None:
        return ""
    leave = blocked["leaveAt"]
    then = f", can leave from {moment(datetime.fromisoformat(leave), now)}" if leave else ""
    if first == last:
        return f", until {moment(last, now)}{then}"
    return f", until {moment(first, now)} to {moment(last, now)}{then}"


def names(all_names: Sequence[str]) -> str:
    """The first few names."""
    more = len(all_names) - MOST_NAMES
    return ", ".join(all_names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
