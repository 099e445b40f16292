"""Prints the explanations of nodes, NodePools and pods, as documents for scripts or as text for a terminal.

A node: the obstacles of every disruption method in order, its repair, or the state of its drain. A NodePool: what its
budgets and limits allow now. A pod: its node or why it is pending, and what protects it from eviction.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dovetail.cli.view.drain import drain_document, draw_drain
from dovetail.cli.view.plan import refusal_document
from dovetail.cli.view.pod_verdict import draw_pod_verdict, draw_scheduling, pod_verdict_document
from dovetail.cli.view.printing import counted, document_type, moment, plain_table, print_document, stamp, worth
from dovetail.cli.view.shared_causes import pool_verdict_document
from dovetail.cli.view.verdict import (
    draw_methods,
    draw_verdict,
    drift_document,
    group_document,
    shared_obstacles,
    verdict_document,
)
from dovetail.core.disruption.command import HOURS_PER_MONTH
from dovetail.core.disruption.restraint import PoolRestraint
from dovetail.core.explain.budget_calendar import ACTION_BY_REASON
from dovetail.core.explain.node import NodeExplanation
from dovetail.core.explain.nodepool import BudgetView, PoolExplanation
from dovetail.core.explain.obstacles import MethodView
from dovetail.core.explain.pod import PodExplanation
from dovetail.core.explain.repair import RepairView
from dovetail.core.pdbs import never_allows
from dovetail.core.verdict_wording import pod_waits, pool_lines
from dovetail.core.wording import message, obstacle
from dovetail.model.duration import Duration
from dovetail.model.kube_object import Condition
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.reason import VOLUNTARY, Reason
from dovetail.model.refusal import Refusal, RefusalCode


def repair_document(repair: RepairView) -> dict[str, Any]:
    """Build the document of the repair of an unhealthy node."""
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
            for each in repair.unhealthy_conditions
        ],
        "unhealthy": repair.breaker.unhealthy,
        "nodes": repair.breaker.total,
        "allowed": repair.breaker.allowed,
        "blocked": repair.breaker.open,
        "off": repair.off or None,
        "dueAt": stamp(repair.due_at) if repair.due_at is not None else None,
    }


def draw_repair(console: Console, repair: RepairView, now: datetime) -> None:
    """Draw the unhealthy conditions of a node and when it is repaired."""
    console.print(Text.assemble(("repair", "bold cyan"), (" (Unhealthy)", "dim")))
    for number, each in enumerate(repair.unhealthy_conditions, start=1):
        condition = f"{each.condition.type} is {each.condition.status} since {moment(each.since, now)}"
        tolerated = f"tolerated for {Duration.of(each.toleration)} ({each.said_by})"
        console.print(f"  {number}. {condition}, {tolerated}, until {moment(each.due_at, now)}", style="yellow")
    console.print(_outcome(repair, now))


def _outcome(repair: RepairView, now: datetime) -> Text:
    if repair.due_at is None:
        return Text(f"  Not repaired: {repair.off}.", style="dim")
    if repair.breaker.open:
        breaker = repair.breaker
        counts = f"{breaker.unhealthy} of {breaker.total} nodes are unhealthy, {breaker.allowed} allowed"
        return Text(f"  Blocked: {counts}; none is repaired until that changes.", style="red")
    when = "now" if repair.due_at <= now else f"at {moment(repair.due_at, now)}"
    return Text(f"  Replaced by force {when} unless it recovers.", style="red")


def print_node(explained: NodeExplanation, output: str, *, full: bool = False) -> None:
    """Print the verdict on a node and what prevents each method from disrupting it; `full`: every obstacle."""
    print_document(node_document(explained), output, lambda console: draw_node(console, explained, full=full))


def node_document(explained: NodeExplanation) -> dict[str, Any]:
    """Build the document of a node: the verdict, and the obstacles or the command of every method."""
    return {
        **document_type("NodeExplanation"),
        "node": explained.node.name,
        "nodepool": explained.node.nodepool_name,
        "at": stamp(explained.at),
        "verdict": verdict_document(explained.verdict, explained.at),
        "sharedObstacles": [group_document(each, explained.at) for each in shared_obstacles(explained)],
        "drift": drift_document(explained.drift) if explained.drift is not None else None,
        "methods": [_method_document(view) for view in explained.methods],
        **({"draining": drain_document(explained.draining)} if explained.draining is not None else {}),
        **({"repair": repair_document(explained.repair)} if explained.repair is not None else {}),
    }


def _method_document(view: MethodView) -> dict[str, Any]:
    command = view.command
    return {
        "method": view.method,
        "reason": str(view.reason),
        "obstacles": [refusal_document(each, obstacle) for each in view.obstacles],
        "command": str(command) if command is not None else None,
        "after": view.after or None,
        "liftsAt": stamp(view.lifts_at) if view.lifts_at is not None else None,
    }


def draw_node(console: Console, explained: NodeExplanation, *, full: bool) -> None:
    """Draw the verdict on a node, then its obstacles; `full`: all of each method."""
    draw_verdict(console, explained.verdict, explained.at)
    labels = explained.node.labels
    facts = ", ".join(filter(None, (labels.get(key, "") for key in (INSTANCE_TYPE, CAPACITY_TYPE, ZONE))))
    pool = f" of NodePool {explained.node.nodepool_name}" if explained.node.nodepool_name else ""
    console.print(f"Node {explained.node.name}{pool} at {stamp(explained.at)}", style="bold")
    console.print(f"{facts}{', ' if facts else ''}{counted(len(explained.node.pods), 'pod')}", style="dim")
    if explained.repair is not None:
        console.print()
        draw_repair(console, explained.repair, explained.at)
    if explained.draining is not None:
        console.print()
        draw_drain(console, explained.draining)
    elif full:
        _all_obstacles(console, explained)
    else:
        draw_methods(console, explained)


def _all_obstacles(console: Console, explained: NodeExplanation) -> None:
    for view in explained.methods:
        console.print()
        console.print(Text.assemble((f"{view.method}", "bold cyan"), (f" ({view.reason})", "dim")))
        if view.command is not None:
            _draw_command(console, view)
        for number, each in enumerate(view.obstacles, start=1):
            line = Table.grid()  # wraps below its text
            line.add_row(f"  {number}. ", Text.assemble(obstacle(each), lifting(each, explained.at)))
            console.print(line)
        if view.lifts_at is not None and len(view.obstacles) > 1:
            console.print(f"  All obstacles end by {moment(view.lifts_at, explained.at)}.", style="green")


def _draw_command(console: Console, view: MethodView) -> None:
    command = view.command
    assert command is not None
    when = f"once {view.after} has nothing to do" if view.after else "in the next pass"
    console.print(f"  {when}: {command.decision} {counted(len(command.candidates), 'node')}", style="green", end="")
    replacements = f", {counted(len(command.replacements), 'replacement')}" if command.replacements else ""
    console.print(f"{replacements}, {worth(command.saving * HOURS_PER_MONTH, command.unpriced)}", style="green")


def lifting(refusal: Refusal, now: datetime) -> tuple[str, str]:
    """Describe when an obstacle ends, with the color of that text."""
    if refusal.until is not None:
        lead = ", at" if refusal.code is RefusalCode.NEVER else " until"
        return f"{lead} {moment(refusal.until, now)}", "yellow"
    return (" (permanent: needs a manual change)", "red") if refusal.permanent else (" (may change)", "dim")


def print_pool(explained: PoolExplanation, output: str) -> None:
    """Print what the budgets and limits of a NodePool allow now."""
    print_document(pool_document(explained), output, lambda console: _pool_text(console, explained))


def pool_document(explained: PoolExplanation) -> dict[str, Any]:
    """Build the document of a NodePool."""
    return {
        **document_type("NodePoolExplanation"),
        "nodepool": explained.pool.name,
        "at": stamp(explained.at),
        "verdict": pool_verdict_document(explained.verdict, explained.at),
        "consolidationPolicy": explained.pool.consolidation_policy,
        "minSavings": _restraint_document(explained.restraint),
        "nodes": {"total": explained.counts.total, "disrupting": explained.counts.disrupting},
        "fault": explained.fault or None,
        "unreadable": explained.unreadable or None,
        "noCatalog": explained.no_catalog or None,
        "dropped": [str(each) for each in explained.dropped],
        "allowed": [_allowed_document(reason, explained) for reason in explained.allowances],
        "budgets": [
            {
                "number": each.number,
                "nodes": str(each.budget.spec.nodes),
                "limit": each.limit,
                "reasons": sorted(map(str, each.budget.reasons)),
                "inForce": each.in_force,
                "closesAt": _stamp(each.closes_at),
                "opensAt": _stamp(each.opens_at),
            }
            for each in explained.budgets
        ],
        "limits": {each.resource: {"limit": str(each.limit), "used": str(each.used)} for each in explained.limits},
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in explained.pool.status.conditions
        ],
        "members": [node.name for node in explained.nodes],
    }


def _restraint_document(restraint: PoolRestraint | None) -> dict[str, Any] | None:
    if restraint is None:
        return None
    return {
        "percentage": str(restraint.min_savings),
        "turnover": round(restraint.turnover, 3),
        "dollarsPerHourAndEviction": round(restraint.per_eviction, 6),
    }


def _allowed_document(reason: Reason, explained: PoolExplanation) -> dict[str, Any]:
    if reason is Reason.EXPIRED and explained.expires:
        return {"reason": str(reason), "limit": None, "left": None, "changesAt": None, "note": explained.expires}
    allowed, change = explained.allowances[reason], _stamp(explained.changes_at[reason])
    return {"reason": str(reason), "limit": allowed.limit, "left": allowed.left, "changesAt": change, "note": None}


def _stamp(instant: datetime | None) -> str | None:
    return None if instant is None else stamp(instant)


def _pool_text(console: Console, explained: PoolExplanation) -> None:
    pool, counts = explained.pool, explained.counts
    first, *lines = pool_lines(explained.verdict, explained.at)
    console.print(Text(f"{first}.", style="bold yellow"))
    for line in lines:
        console.print(Text(line))
    console.print(f"NodePool {pool.name} at {stamp(explained.at)}", style="bold")
    kind = f"fixed at {counted(pool.spec.replicas or 0, 'node')}" if pool.static else pool.consolidation_policy
    console.print(
        f"{kind}, {counted(counts.total, 'initialized node')}, {counts.disrupting} disrupting or NotReady", style="dim"
    )
    if explained.restraint is not None:
        console.print(_restraint_text(explained.restraint), style="dim")
    if explained.unreadable:
        console.print(f"\nBlocked: {explained.unreadable}", style="red")
    if explained.no_catalog:
        console.print(f"\nBlocked: {explained.no_catalog}", style="red")
    for fault in explained.dropped:
        console.print(f"\nNot in effect: {fault}", style="yellow")
    if explained.fault:
        console.print(f"\nBlocked: a budget is invalid, so nothing is disrupted: {explained.fault}", style="red")
    else:
        _allowed_text(console, explained)
    if explained.limits:
        table = plain_table("LIMIT", "USED", "OF")
        for limit in explained.limits:
            table.add_row(limit.resource, str(limit.used), str(limit.limit))
        console.print()
        console.print(table)
    if pool.status.conditions:
        _conditions_text(console, pool.status.conditions)


def _conditions_text(console: Console, conditions: Iterable[Condition]) -> None:
    table = plain_table("CONDITION", "STATUS", "REASON", "MESSAGE")
    for each in conditions:
        colour = "green" if each.status == "True" else "red" if each.status == "False" else "yellow"
        table.add_row(each.type, Text(each.status, style=colour), each.reason, each.message)
    console.print()
    console.print(table)


def _restraint_text(restraint: PoolRestraint) -> str:
    required = f"${restraint.per_eviction:.4f}/h for each pod that it evicts (turnover {restraint.turnover:.0%})"
    return f"minSavings {restraint.min_savings}: consolidation must save {required}"


def _allowed_text(console: Console, explained: PoolExplanation) -> None:
    table = plain_table("FOR", "ALLOWED", "LEFT", "NEXT CHANGE")
    for reason, allowed in explained.allowances.items():
        if reason is Reason.EXPIRED and explained.expires:
            table.add_row(f"{ACTION_BY_REASON[reason]} ({reason})", "-", "-", explained.expires)
            continue
        change = explained.changes_at[reason]
        limit = "no limit" if allowed.limit is None else str(allowed.limit)
        left = "all" if allowed.left is None else str(allowed.left)
        colour = "red" if allowed.left == 0 else "green"
        named = f"{ACTION_BY_REASON[reason]} ({reason})"
        table.add_row(named, limit, Text(left, style=colour), moment(change, explained.at) if change else "never")
    console.print()
    console.print(table)
    if not explained.budgets:
        return
    table = plain_table("BUDGET", "NODES", "LIMIT", "FOR", "NOW", "WINDOW")
    for each in explained.budgets:
        reasons = "everything" if each.budget.reasons == VOLUNTARY else ", ".join(sorted(each.budget.reasons))
        spec = each.budget.spec
        window = f"{spec.schedule} for {spec.duration}" if spec.schedule else "always"
        place = f"{each.number} of {len(explained.budgets)}"
        table.add_row(place, str(spec.nodes), str(each.limit), reasons, _force(each, explained.at), window)
    console.print()
    console.print(table)


def _force(view: BudgetView, now: datetime) -> Text:
    if view.in_force:
        until = f"in force until {moment(view.closes_at, now)}" if view.closes_at else "always in force"
        return Text(until, style="yellow")
    return Text(f"opens {moment(view.opens_at, now)}" if view.opens_at else "never opens", style="dim")


def print_pod(explained: PodExplanation, output: str) -> None:
    """Print the node of a pod and what protects the pod from eviction."""
    print_document(pod_document(explained), output, lambda console: _pod_text(console, explained))


def pod_document(explained: PodExplanation) -> dict[str, Any]:
    """Build the document of a pod."""
    return {
        **document_type("PodExplanation"),
        "pod": str(explained.pod.key),
        "at": stamp(explained.at),
        "node": explained.node.name if explained.node is not None else None,
        "verdict": pod_verdict_document(explained.verdict, explained.at),
        "waits": pod_waits(explained.verdict) or None,
        "protection": {
            "active": explained.protection.active,
            "until": _stamp(explained.protection.until),
            "fault": explained.protection.fault or None,
        },
        "podDisruptionBudgets": [
            {
                "name": str(each.key),
                "disruptionsAllowed": each.status.disruptions_allowed,
                "neverAllows": never_allows(each),
            }
            for each in explained.pdbs
        ],
        "evictionRefused": (
            {"message": message(explained.block), "permanent": explained.block.permanent}
            if explained.block is not None
            else None
        ),
        "unreadable": explained.unreadable or None,
    }


def _pod_text(console: Console, explained: PodExplanation) -> None:
    draw_pod_verdict(console, explained.verdict, explained.at)
    console.print(f"Pod {explained.pod.key} at {stamp(explained.at)}", style="bold")
    if explained.node is not None:
        console.print(f"{explained.pod.status.phase} on node {explained.node.name}")
    elif explained.verdict.refusal is None or explained.verdict.refusal.scheduling is None:
        waits = pod_waits(explained.verdict)
        console.print(f"{explained.pod.status.phase} without a node: {waits}", style="yellow")
    else:
        draw_scheduling(console, explained.verdict)
        return
    console.print(_protection_text(explained))
    for each in explained.pdbs:
        never = ", and never will unless it is changed" if never_allows(each) else ""
        allowed = each.status.disruptions_allowed
        console.print(f"PodDisruptionBudget {each.key} allows {counted(allowed, 'eviction')} now{never}")
    if explained.block is not None:
        lasting = "permanent: needs a manual change" if explained.block.permanent else "may change"
        console.print(f"Eviction would be refused: {message(explained.block)} ({lasting})", style="red")
    elif explained.pod.active and explained.node is not None and not explained.verdict.static:
        console.print("Eviction would be allowed now.", style="green")
    if explained.unreadable and explained.node is not None:
        console.print(explained.unreadable, style="red")


def _protection_text(explained: PodExplanation) -> Text:
    protected = explained.protection
    if not protected.active:
        ended = f" since {moment(protected.until, explained.at)}" if protected.until is not None else ""
        return Text(f"Not protected from disruption{ended}.")
    if protected.fault:
        return Text(f"Protected permanently, because its annotation is invalid: {protected.fault}", style="red")
    until = f"until {moment(protected.until, explained.at)}" if protected.until is not None else "permanently"
    return Text(f"Protected from disruption {until}.", style="yellow")
