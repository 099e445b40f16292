"""Prints what happens until a cluster is stable: cost now and at the end, the moves in order, and the end state."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console

from dovetail.cli.simulation.moves import PENDING_PODS, PlayedMove
from dovetail.cli.simulation.report import length
from dovetail.cli.simulation.until_stable import LONGEST, StableState
from dovetail.cli.view.plan_selection import PlanSelection
from dovetail.cli.view.plan_summary import names
from dovetail.cli.view.printing import (
    counted,
    document_type,
    dollars,
    moment,
    plain_table,
    print_document,
    stamp,
    worth,
)
from dovetail.core.disruption.command import HOURS_PER_MONTH
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.snapshot import Snapshot

MOST_MOVES = 50
_ASSUMED = (
    "Assumed: workloads do not change, no instance is interrupted, launches succeed, and pods start and stop as quickly"
    " as in the simulation, so it takes at least this long."
)


def print_stable_state(found: StableState, selection: PlanSelection, notes: Sequence[str], output: str) -> None:
    """Print the moves and the end state in an output format."""
    document = {**document_type("StableState"), **stable_document(found, selection)}
    document["notes"] = [*notes, *document["notes"]]
    print_document(document, output, lambda console: _draw(console, document))


def stable_document(found: StableState, selection: PlanSelection) -> dict[str, Any]:
    """Build the document; `selection` restricts the moves, not the figures."""
    shown = [each for each in found.moves if selection.shows(each.nodepools, each.reason)]
    before, after = _cost(found.before), _cost(found.after)
    return {
        "at": stamp(found.before.at),
        "stable": found.stable,
        "stoppedBy": found.stopped_by,
        "stableAt": stamp(found.ended_at or found.before.at) if found.stable else None,
        "takesSeconds": round(found.takes.total_seconds()),
        "nodesBefore": _managed(found.before),
        "nodesAfter": _managed(found.after),
        "costPerHourBefore": round(before, 4),
        "costPerHourAfter": round(after, 4),
        "savingPerMonth": round((before - after) * HOURS_PER_MONTH, 2),
        "unpricedNodes": sum(found.before.price_of(node) is None for node in found.before.nodes if node.managed),
        "evictions": found.evictions,
        "pendingPodsBefore": _pending(found.before),
        "pendingPods": _pending(found.after),
        "moves": [_move(each) for each in shown],
        "hiddenMoves": len(found.moves) - len(shown),
        "unfinishedNodes": found.unfinished,
        "expiringNodes": found.expiring,
        "nodes": list(_nodes(found.after)),
        "notes": list(_notes(found, selection, len(found.moves) - len(shown))),
    }


def _managed(snapshot: Snapshot) -> int:
    return sum(node.managed for node in snapshot.nodes)


def _pending(snapshot: Snapshot) -> int:
    return sum(not pod.terminal for pod in snapshot.unbound_pods)


def _cost(snapshot: Snapshot) -> float:
    return sum(snapshot.price_of(node) or 0.0 for node in snapshot.nodes if node.managed)


def _move(move: PlayedMove) -> dict[str, Any]:
    return {
        "at": stamp(move.at),
        "reason": move.reason,
        "method": move.method,
        "nodes": list(move.nodes),
        "nodepools": list(move.nodepools),
        "launched": [{"node": name, "instanceType": type_} for name, type_ in move.launched.items()],
        "evictions": move.evictions,
        "rolledBack": move.rolled_back,
    }


def _nodes(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    for node in snapshot.nodes:
        if node.managed:
            yield {
                "node": node.name,
                "nodepool": node.nodepool_name,
                "instanceType": node.labels.get(INSTANCE_TYPE, ""),
                "capacityType": node.labels.get(CAPACITY_TYPE, ""),
                "zone": node.labels.get(ZONE, ""),
                "pods": sum(not pod.terminal for pod in node.pods),
                "costPerHour": snapshot.price_of(node),
            }


def _notes(found: StableState, selection: PlanSelection, hidden: int) -> Iterator[str]:
    if selection and hidden:
        yield f"Only moves of {selection}; {counted(hidden, 'move')} not shown. Costs are those of the whole cluster."
    if found.stable:
        until = stamp(found.before.at + LONGEST)
        yield f"No disruption pass until {until} would start another command, unless the cluster changes."
    if found.expiring:
        days = LONGEST.days
        yield f"{counted(found.expiring, 'node')} of the end state expire within {days} days and are then replaced."
    if leaving := [node.name for node in found.before.nodes if node.managed and (node.leaving or node.record)]:
        yield f"Being removed now, and played as if they were not: {names(leaving)}."
    if found.unfinished:
        yield f"Still being launched or drained at the end: {names(found.unfinished)}."
    yield _ASSUMED


def _draw(console: Console, document: Mapping[str, Any]) -> None:
    now = datetime.fromisoformat(document["at"])
    console.print(_verdict(document, now), style="bold" if document["stable"] else "bold red")
    nodes = f"{document['nodesBefore']} -> {counted(document['nodesAfter'], 'node')}"
    cost = f"{dollars(document['costPerHourBefore'])} -> {dollars(document['costPerHourAfter'])} an hour"
    console.print(f"{nodes}, {cost}: {worth(document['savingPerMonth'])}.", style="bold green")
    pending = f"{document['pendingPodsBefore']} -> {counted(document['pendingPods'], 'pending pod')}"
    console.print(f"{counted(document['evictions'], 'eviction')}; {pending}.")
    if document["unpricedNodes"]:
        console.print(f"The prices of {counted(document['unpricedNodes'], 'node')} are unknown and not in these costs.")
    if document["moves"]:
        console.print()
        _draw_moves(console, document["moves"], now)
    console.print()
    _draw_nodes(console, document["nodes"])
    console.print()
    for note in document["notes"]:
        console.print(note, style="yellow")


def _verdict(document: Mapping[str, Any], now: datetime) -> str:
    moves = len(document["moves"]) + document["hiddenMoves"]
    if not document["stable"]:
        return f"Not stable: stopped after {document['stoppedBy']} and {counted(moves, 'move')}."
    if not moves:
        return f"Stable: nothing changes within {LONGEST.days} days of {document['at']}."
    end = moment(datetime.fromisoformat(document["stableAt"]), now)
    return (
        f"Stable after {counted(moves, 'move')} at {end}, {span_text(document['takesSeconds'])} from {document['at']}."
    )


def span_text(seconds: int) -> str:
    """Format a duration in hours and minutes; below an hour in minutes and seconds."""
    if seconds < 60:
        return length(seconds)
    if seconds < 3600:
        return f"{seconds // 60} min" + (f" {seconds % 60} s" if seconds % 60 else "")
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def _draw_moves(console: Console, moves: Sequence[Mapping[str, Any]], now: datetime) -> None:
    table = plain_table("TIME", "REASON", "REMOVED", "LAUNCHED", "EVICTIONS")
    for each in moves[:MOST_MOVES]:
        reason = "pending pods" if each["reason"] == PENDING_PODS else each["reason"]
        table.add_row(
            moment(datetime.fromisoformat(each["at"]), now),
            f"{reason} (rolled back)" if each["rolledBack"] else reason,
            names(each["nodes"]) or "-",
            names([one["instanceType"] or "a node" for one in each["launched"]]) or "-",
            str(each["evictions"]),
        )
    console.print(table)
    if len(moves) > MOST_MOVES:
        console.print(f"and {counted(len(moves) - MOST_MOVES, 'more move')}: -o json lists them")


def _draw_nodes(console: Console, nodes: Sequence[Mapping[str, Any]]) -> None:
    table = plain_table("END STATE", "TYPE", "CAPACITY", "NODES", "PODS", "$/H")
    kinds = Counter((each["nodepool"], each["instanceType"], each["capacityType"]) for each in nodes)
    for kind, number in sorted(kinds.items()):
        own = [each for each in nodes if (each["nodepool"], each["instanceType"], each["capacityType"]) == kind]
        prices = [each["costPerHour"] for each in own]
        cost = "unknown" if None in prices else dollars(sum(prices))
        table.add_row(*kind, str(number), str(sum(each["pods"] for each in own)), cost)
    console.print(table)
