"""What repair makes of an unhealthy node, for people and scripts."""

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from dovetail.cli.view.printing import moment, stamp
from dovetail.core.explain.repair import RepairView
from dovetail.model.duration import Duration


def repair_document(told: RepairView) -> dict[str, Any]:
    """For scripts."""
    return {
        "conditions": [
            {
                "type": each.condition.type,
                "status": each.condition.status,
                "since": stamp(each.since),
                "toleration": str(Duration.of(each.toleration)),
                "saidBy": each.said_by,
                "dueAt": stamp(each.due_at),
            }
            for each in told.unhealthy_conditions
        ],
        "unhealthy": told.breaker.unhealthy,
        "nodes": told.breaker.total,
        "allowed": told.breaker.allowed,
        "blocked": told.breaker.open,
        "off": told.off or None,
        "dueAt": stamp(told.due_at) if told.due_at is not None else None,
    }


def draw_repair(console: Console, told: RepairView, now: datetime) -> None:
    """For people."""
    console.print(Text.assemble(("repair", "bold cyan"), (" (Unhealthy)", "dim")))
    for number, each in enumerate(told.unhealthy_conditions, start=1):
        condition = f"{each.condition.type} is {each.condition.status} since {moment(each.since, now)}"
        tolerated = f"tolerated for {Duration.of(each.toleration)} ({each.said_by})"
        console.print(f"  {number}. {condition}, {tolerated}, until {moment(each.due_at, now)}", style="yellow")
    console.print(_outcome(told, now))


def _outcome(told: RepairView, now: datetime) -> Text:
    if told.due_at is None:
        return Text(f"  Not repaired: {told.off}.", style="dim")
    if told.breaker.open:
        breaker = (
            f"{told.breaker.unhealthy} of {told.breaker.total} nodes are unhealthy, {told.breaker.allowed} allowed"
        )
        return Text(f"  Blocked: {breaker}; none is repaired until that changes.", style="red")
    when = "now" if told.due_at <= now else f"at {moment(told.due_at, now)}"
    return Text(f"  Replaced by force {when}, unless it recovers.", style="red")
