"""What repair makes of an unhealthy node, for people and scripts.

Explanations of nodes, NodePools and pods as people and scripts read them.
"""

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from dovetail.cli.view.drain import drain_document, draw_drain
from dovetail.cli.view.plan import refusal_document
from dovetail.cli.view.printing import counted, moment, plain_table, print_document, stamp, worth
from dovetail.core.disruption.command import HOURS_PER_MONTH
from dovetail.core.explain.budget_calendar import ACTION_BY_REASON
from dovetail.core.explain.node import MethodView, NodeExplanation, RepairView
from dovetail.core.explain.nodepool import BudgetView, PoolExplanation
from dovetail.core.explain.pod import PodExplanation
from dovetail.core.pdbs import never_allows
from dovetail.core.wording import message, obstacle
from dovetail.model.duration import Duration
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.reason import VOLUNTARY, Reason
from dovetail.model.refusal import Refusal


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


def print_node(told: NodeExplanation, output: str) -> None:
    """What stands between a node and each method."""
    print_document(node_document(told), output, lambda console: _node_text(console, told))


def node_document(told: NodeExplanation) -> dict[str, Any]:
    """What every method makes of a node, as plain data."""
    return {
        "node": told.node.name,
        "nodepool": told.node.nodepool_name,
        "at": stamp(told.at),
        "methods": [_method_document(view) for view in told.methods],
        **({"draining": drain_document(told.draining)} if told.draining is not None else {}),
        **({"repair": repair_document(told.repair)} if told.repair is not None else {}),
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


def _node_text(console: Console, told: NodeExplanation) -> None:
    labels = told.node.labels
    facts = ", ".join(filter(None, (labels.get(key, "") for key in (INSTANCE_TYPE, CAPACITY_TYPE, ZONE))))
    pool = f" of nodepool {told.node.nodepool_name}" if told.node.nodepool_name else ""
    console.print(f"Node {told.node.name}{pool} at {stamp(told.at)}", style="bold")
    console.print(f"{facts}{', ' if facts else ''}{counted(len(told.node.pods), 'pod')}", style="dim")
    if told.repair is not None:
        console.print()
        draw_repair(console, told.repair, told.at)
    if told.draining is not None:
        console.print()
        draw_drain(console, told.draining)
        return
    for view in told.methods:
        console.print()
        console.print(Text.assemble((f"{view.method}", "bold cyan"), (f" ({view.reason})", "dim")))
        if view.command is not None:
            _would_go(console, view)
        for number, each in enumerate(view.obstacles, start=1):
            console.print(Text.assemble(f"  {number}. {obstacle(each)}", lifting(each, told.at)))
        if view.lifts_at is not None and len(view.obstacles) > 1:
            console.print(f"  All of it lifts by {moment(view.lifts_at, told.at)}.", style="green")


def _would_go(console: Console, view: MethodView) -> None:
    command = view.command
    assert command is not None
    when = f"could go once {view.after} has nothing to do" if view.after else "goes in the next pass"
    console.print(f"  {when}: {command.decision} {counted(len(command.candidates), 'node')}", style="green", end="")
    bought = f", {counted(len(command.replacements), 'replacement')}" if command.replacements else ""
    console.print(f"{bought}, {worth(command.saving * HOURS_PER_MONTH)}", style="green")


def lifting(refusal: Refusal, now: datetime) -> tuple[str, str]:
    """When an obstacle lifts, and the colour of that."""
    if refusal.until is not None:
        return f" until {moment(refusal.until, now)}", "yellow"
    return (" (permanent: somebody has to change it)", "red") if refusal.permanent else (" (may change)", "dim")


def print_pool(told: PoolExplanation, output: str) -> None:
    """What a NodePool allows now."""
    print_document(pool_document(told), output, lambda console: _pool_text(console, told))


def pool_document(told: PoolExplanation) -> dict[str, Any]:
    """What a NodePool allows now, as plain data."""
    return {
        "nodepool": told.pool.name,
        "at": stamp(told.at),
        "consolidationPolicy": told.pool.consolidation_policy,
        "nodes": {"total": told.counts.total, "disrupting": told.counts.disrupting},
        "fault": told.fault or None,
        "unreadable": told.unreadable or None,
        "allowed": [_allowed_document(reason, told) for reason in told.allowances],
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
            for each in told.budgets
        ],
        "limits": {each.resource: {"limit": str(each.limit), "used": str(each.used)} for each in told.limits},
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in told.pool.status.conditions
        ],
        "members": [node.name for node in told.nodes],
    }


def _allowed_document(reason: Reason, told: PoolExplanation) -> dict[str, Any]:
    if reason is Reason.EXPIRED and told.expires:
        return {"reason": str(reason), "limit": None, "left": None, "changesAt": None, "note": told.expires}
    allowed, change = told.allowances[reason], _stamp(told.changes_at[reason])
    return {"reason": str(reason), "limit": allowed.limit, "left": allowed.left, "changesAt": change, "note": None}


def _stamp(instant: datetime | None) -> str | None:
    return None if instant is None else stamp(instant)


def _pool_text(console: Console, told: PoolExplanation) -> None:
    pool, counts = told.pool, told.counts
    console.print(f"NodePool {pool.name} at {stamp(told.at)}", style="bold")
    kind = f"fixed at {counted(pool.spec.replicas or 0, 'node')}" if pool.static else pool.consolidation_policy
    console.print(f"{kind}, {counted(counts.total, 'node')} ready, {counts.disrupting} going or NotReady", style="dim")
    if told.unreadable:
        console.print(f"\nBlocked: {told.unreadable}", style="red")
    if told.fault:
        console.print(f"\nBlocked: a budget cannot be understood, so nothing is disrupted: {told.fault}", style="red")
    else:
        _allowed_text(console, told)
    if told.limits:
        table = plain_table("LIMIT", "USED", "OF")
        for limit in told.limits:
            table.add_row(limit.resource, str(limit.used), str(limit.limit))
        console.print()
        console.print(table)
    if pool.status.conditions:
        table = plain_table("CONDITION", "STATUS", "REASON", "MESSAGE")
        for each in pool.status.conditions:
            colour = "green" if each.status == "True" else "red" if each.status == "False" else "yellow"
            table.add_row(each.type, Text(each.status, style=colour), each.reason, each.message)
        console.print()
        console.print(table)


def _allowed_text(console: Console, told: PoolExplanation) -> None:
    table = plain_table("FOR", "ALLOWED", "LEFT", "NEXT CHANGE")
    for reason, allowed in told.allowances.items():
        if reason is Reason.EXPIRED and told.expires:
            table.add_row(f"{ACTION_BY_REASON[reason]} ({reason})", "-", "-", told.expires)
            continue
        change = told.changes_at[reason]
        limit = "no limit" if allowed.limit is None else str(allowed.limit)
        left = "all" if allowed.left is None else str(allowed.left)
        colour = "red" if allowed.left == 0 else "green"
        named = f"{ACTION_BY_REASON[reason]} ({reason})"
        table.add_row(named, limit, Text(left, style=colour), moment(change, told.at) if change else "never")
    console.print()
    console.print(table)
    if not told.budgets:
        return
    table = plain_table("BUDGET", "NODES", "IS", "FOR", "NOW", "WINDOW")
    for each in told.budgets:
        reasons = "everything" if each.budget.reasons == VOLUNTARY else ", ".join(sorted(each.budget.reasons))
        spec = each.budget.spec
        window = f"{spec.schedule} for {spec.duration}" if spec.schedule else "always"
        place = f"{each.number} of {len(told.budgets)}"
        table.add_row(place, str(spec.nodes), str(each.limit), reasons, _force(each, told.at), window)
    console.print()
    console.print(table)


def _force(view: BudgetView, now: datetime) -> Text:
    if view.in_force:
        until = f"in force until {moment(view.closes_at, now)}" if view.closes_at else "always in force"
        return Text(until, style="yellow")
    return Text(f"opens {moment(view.opens_at, now)}" if view.opens_at else "never opens", style="dim")


def print_pod(told: PodExplanation, output: str) -> None:
    """Where a pod is, and what keeps it there."""
    print_document(pod_document(told), output, lambda console: _pod_text(console, told))


def pod_document(told: PodExplanation) -> dict[str, Any]:
    """Where a pod is and what keeps it there, as plain data."""
    return {
        "pod": str(told.pod.key),
        "at": stamp(told.at),
        "node": told.node.name if told.node is not None else None,
        "waits": told.waits or None,
        "protection": {
            "active": told.protection.active,
            "until": _stamp(told.protection.until),
            "fault": told.protection.fault or None,
        },
        "podDisruptionBudgets": [
            {
                "name": str(each.key),
                "disruptionsAllowed": each.status.disruptions_allowed,
                "neverAllows": never_allows(each),
            }
            for each in told.pdbs
        ],
        "evictionRefused": (
            {"message": message(told.block), "permanent": told.block.permanent} if told.block is not None else None
        ),
        "unreadable": told.unreadable or None,
    }


def _pod_text(console: Console, told: PodExplanation) -> None:
    console.print(f"Pod {told.pod.key} at {stamp(told.at)}", style="bold")
    if told.node is not None:
        console.print(f"{told.pod.status.phase} on node {told.node.name}")
    else:
        console.print(f"{told.pod.status.phase} without a node: {told.waits}", style="yellow")
    console.print(_protection_text(told))
    for each in told.pdbs:
        never = ", and never will as it is written" if never_allows(each) else ""
        allowed = each.status.disruptions_allowed
        console.print(f"PodDisruptionBudget {each.key} allows {counted(allowed, 'eviction')} now{never}")
    if told.block is not None:
        lasting = "permanent: somebody has to change it" if told.block.permanent else "may change"
        console.print(f"Eviction would be refused: {message(told.block)} ({lasting})", style="red")
    elif told.pod.active and told.node is not None:
        console.print("Eviction would be allowed now.", style="green")
    if told.unreadable and told.node is not None:
        console.print(told.unreadable, style="red")


def _protection_text(told: PodExplanation) -> Text:
    protected = told.protection
    if not protected.active:
        ended = f" since {moment(protected.until, told.at)}" if protected.until is not None else ""
        return Text(f"Not protected from disruption{ended}.")
    if protected.fault:
        return Text(f"Protected for ever, as its annotation cannot be understood: {protected.fault}", style="red")
    until = f"until {moment(protected.until, told.at)}" if protected.until is not None else "for ever"
    return Text(f"Protected from disruption {until}.", style="yellow")
