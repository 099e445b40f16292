"""Prints what nodes have in common: the PodDisruptionBudgets and pods that block them, and what they drifted for."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console

from dovetail.cli.view.printing import counted, plain_table
from dovetail.cli.view.verdict import drift_document, group_document
from dovetail.core.verdict_wording import pool_lines
from dovetail.model.verdict import DriftedNodes, HeldNodes, PoolVerdict

MOST_ROWS = 10
_MOST_NAMES = 3


def blockers_document(held: Iterable[HeldNodes], now: datetime) -> list[dict[str, Any]]:
    """Build the document of obstacles that nodes share."""
    found = []
    for each in held:
        document = group_document(each.obstacle, now)
        del document["methods"]
        found.append({**document, "nodes": list(each.nodes)})
    return found


def drifted_document(drifted: Iterable[DriftedNodes]) -> list[dict[str, Any]]:
    """Build the document of drifted nodes by cause."""
    return [{**drift_document(each.cause), "nodes": list(each.nodes)} for each in drifted]


def pool_verdict_document(verdict: PoolVerdict, now: datetime) -> dict[str, Any]:
    """Build the document of the verdict on a NodePool."""
    return {
        "lines": pool_lines(verdict, now),
        "outcomes": {str(outcome): number for outcome, number in verdict.outcomes},
        "heldByBudgets": blockers_document(verdict.budgets, now),
        "blockers": blockers_document(verdict.pods, now),
        "drifted": drifted_document(verdict.drifted),
    }


def draw_shared_causes(console: Console, document: Mapping[str, Any]) -> None:
    """Draw the drifted nodes and the blockers of a plan, most nodes first."""
    if document["drifted"]:
        table = plain_table("DRIFTED", "WHAT CHANGED")
        for each in document["drifted"]:
            table.add_row(_named(each["nodes"]), each["message"])
        console.print()
        console.print(table)
    blockers = document["blockers"]
    if blockers:
        table = plain_table("BLOCKED", "BY")
        for each in blockers[:MOST_ROWS]:
            table.add_row(_named(each["nodes"]), each["message"])
        console.print()
        console.print(table)
    if len(blockers) > MOST_ROWS:
        console.print(f"and {len(blockers) - MOST_ROWS} more; -o json lists all", style="dim")


def _named(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) if len(nodes) <= _MOST_NAMES else counted(len(nodes), "node")


def print_no_plan(console: Console, at: str, causes: Iterable[str]) -> None:
    """Print that nothing can be planned, because instance types and prices are not known."""
    console.print(f"No plan at {at}: {'; '.join(causes)}.", style="bold red")
