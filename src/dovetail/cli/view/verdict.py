"""Prints the verdict on a node: as a document for scripts, and as the short form of `dovetail explain node`.

The short form is the verdict in one line, each obstacle that stops several methods once, and one line for each method.
"""

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dovetail.cli.view.printing import moment, plain_table, stamp
from dovetail.core.disruption.methods.multi_node import MultiNode
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.explain.node import NodeExplanation
from dovetail.core.explain.obstacles import MethodView
from dovetail.core.explain.verdict import group_obstacles
from dovetail.core.verdict_wording import because_of, change_words, clause, drift_words, verdict_line
from dovetail.core.wording import sentence
from dovetail.model.refusal import RefusalCode
from dovetail.model.verdict import DriftCause, NodeVerdict, ObstacleGroup, Outcome

_COLOURS = {Outcome.LEAVES: "bold green", Outcome.LEAVING: "bold magenta", Outcome.CAN_LEAVE: "bold yellow"}
_SHARED = frozenset({RefusalCode.POD_DISRUPTION_BUDGET, RefusalCode.DO_NOT_DISRUPT_POD, RefusalCode.BUDGET})
"""Obstacles that are not of a method: they are listed above the methods even if they stop only one."""
_MOST_PODS = 10
_CONSOLIDATION = frozenset({MultiNode.name, SingleNode.name})


def verdict_document(verdict: NodeVerdict, now: datetime) -> dict[str, Any]:
    """Build the document of a verdict."""
    return {
        "line": verdict_line(verdict, now),
        "outcome": str(verdict.outcome),
        "method": verdict.method or None,
        "reason": str(verdict.reason) if verdict.reason is not None else None,
        "at": stamp(verdict.at) if verdict.at is not None else None,
        "permanent": verdict.permanent,
        "expiresAt": stamp(verdict.expires_at) if verdict.expires_at is not None else None,
        "obstacles": [group_document(each, now) for each in verdict.obstacles],
    }


def group_document(group: ObstacleGroup, now: datetime) -> dict[str, Any]:
    """Build the document of an obstacle with all its pods and methods."""
    refusal = group.refusal
    return {
        "code": str(refusal.code),
        "message": clause(group, now),
        "until": stamp(refusal.until) if refusal.until is not None else None,
        "permanent": refusal.permanent,
        "pods": [str(each) for each in group.pods],
        "podDisruptionBudgets": [str(each) for each in refusal.pdbs],
        "methods": list(group.methods),
    }


def drift_document(drift: DriftCause) -> dict[str, Any]:
    """Build the document of what drifted."""
    return {
        "reason": drift.reason,
        "message": drift_words(drift),
        "changes": [{"field": each.field, "old": each.old or None, "new": each.new or None} for each in drift.changes],
    }


def left_alone_document(verdict: NodeVerdict, now: datetime) -> dict[str, Any]:
    """Build the part of a plan about a node without a command: the soonest way it can leave."""
    return {
        "because": because_of(verdict, now),
        "code": str(verdict.code),
        "until": stamp(verdict.at) if verdict.at is not None else None,
        "permanent": verdict.permanent,
        "by": verdict.method or None,
        "verdict": verdict_document(verdict, now),
    }


def draw_verdict(console: Console, verdict: NodeVerdict, now: datetime) -> None:
    """Draw the verdict in one line."""
    colour = _COLOURS.get(verdict.outcome, "bold red" if verdict.permanent else "bold")
    console.print(Text(f"{sentence(verdict_line(verdict, now))}.", style=colour))


def shared_obstacles(explained: NodeExplanation) -> tuple[ObstacleGroup, ...]:
    """Return the obstacles of pods and budgets, and those that stop several methods, each once."""
    groups = group_obstacles((view.method, each) for view in explained.methods for each in view.obstacles)
    groups = tuple(each for each in groups if each.refusal.code in _SHARED or len(each.methods) > 1)
    return tuple(each for each in groups if each.refusal.code in _SHARED or not _CONSOLIDATION.issuperset(each.methods))


def draw_methods(console: Console, explained: NodeExplanation) -> None:
    """Draw what drifted, the shared obstacles, then one line for each method."""
    now, shared = explained.at, shared_obstacles(explained)
    if explained.drift is not None:
        console.print(f"\nDrifted: {explained.drift.reason}", style="yellow")
        for line in [change_words(each) for each in explained.drift.changes] or [explained.drift.detail]:
            console.print(f"  {line}" if line else "")
    if shared:
        table = plain_table("OBSTACLE", "STOPS")
        for each in shared:
            stops = "all methods" if len(each.methods) == len(explained.methods) else ", ".join(each.methods)
            table.add_row(_obstacle_text(each, now), stops)
        console.print()
        console.print(table)
    console.print()
    console.print(_methods_table(explained, shared))


def _obstacle_text(group: ObstacleGroup, now: datetime) -> Text:
    refusal = group.refusal
    lasting = "" if refusal.until is not None else " (permanent: needs a manual change)" if refusal.permanent else ""
    colour = "yellow" if refusal.until is not None else "red" if refusal.permanent else ""
    named = ", ".join(map(str, group.pods[:_MOST_PODS])) if len(group.pods) > 1 else ""
    more = f" and {len(group.pods) - _MOST_PODS} more" if len(group.pods) > _MOST_PODS else ""
    return Text(f"{clause(group, now)}{lasting}{': ' * bool(named)}{named}{more}", style=colour)


def _methods_table(explained: NodeExplanation, shared: tuple[ObstacleGroup, ...]) -> Table:
    table = plain_table("METHOD", "CAN LEAVE", "BECAUSE")
    seen = {clause(each, explained.at) for each in shared}
    for view in explained.methods:
        groups = group_obstacles((view.method, each) for each in view.obstacles)
        own = [text for each in groups if (text := clause(each, explained.at)) not in seen]
        above = ["obstacles above"] if len(own) < len(groups) else []
        command = [str(view.command.decision)] if view.command is not None else []
        found = explained.in_set or view.method != MultiNode.name
        table.add_row(view.method, _when(view, explained.at) if found else "-", "; ".join(command + own + above))
    return table


def _when(view: MethodView, now: datetime) -> Text:
    if view.command is not None:
        return Text("later pass" if view.after else "now", style="green")
    hard = (each.until for each in view.obstacles if each.code is RefusalCode.NEVER)
    at = next((until for until in hard if until is not None), view.lifts_at)
    if at is not None:
        return Text(moment(at, now), style="yellow")
    return Text("-", style="red" if any(each.permanent for each in view.obstacles) else "dim")
