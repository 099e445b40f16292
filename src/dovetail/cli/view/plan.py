"""Prints a plan: its commands with savings and budget use, then every other node with the reason it is left alone."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dovetail.cli.view.printing import counted, document_type, moment, plain_table, print_document, stamp, worth
from dovetail.cli.view.shared_causes import blockers_document, draw_shared_causes, drifted_document, print_no_plan
from dovetail.cli.view.verdict import left_alone_document
from dovetail.core.disruption.command import HOURS_PER_MONTH, Command
from dovetail.core.disruption.delays import budgets_apply
from dovetail.core.disruption.events import unreadable_consequence
from dovetail.core.disruption.planner import PassPlan
from dovetail.core.explain.missing_catalogs import ignored_because, ignored_nodepools, known_obstacles, missing_catalogs
from dovetail.core.explain.node import find_verdicts, refusals_by_node
from dovetail.core.explain.shared_causes import find_drifted, find_pod_blocks
from dovetail.core.wording import message
from dovetail.model.annotated_fields import dropped_fields
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.refusal import Refusal
from dovetail.model.snapshot import ClusterNode, Snapshot

_NO_EDGE = 1000  # wide enough for any table


def print_plan(document: Mapping[str, Any], output: str) -> None:
    """Print the document of a plan in an output format."""
    print_document(document, output, lambda console: draw_plan(console, document))


def plan_document(plan: PassPlan, snapshot: Snapshot) -> dict[str, Any]:
    """Build the document of a plan."""
    managed = [node for node in snapshot.nodes if node.managed]
    return {
        **document_type("Plan"),
        "at": stamp(plan.at),
        "notes": [],  # what an option such as --at assumes
        "nodes": len(managed),
        "savingPerMonth": round(plan.saving * HOURS_PER_MONTH, 2),
        "unpricedNodes": sum(command.unpriced for command in plan.commands),  # not in the saving
        "wakeupAt": stamp(plan.wakeup_at) if plan.wakeup_at is not None else None,
        "commands": [_command(command, plan) for command in plan.commands],
        "budgets": list(_budgets(plan, snapshot)),
        "leftAlone": list(_left_alone(plan, managed)),
        **_causes(plan, managed),
        "unreadable": [
            {"kind": each.kind, "name": str(each.key), "message": unreadable_consequence(each)}
            for each in snapshot.unreadable
        ],
        "dropped": [
            {"nodepool": pool.name, "message": str(fault)}
            for pool in snapshot.nodepools.values()
            for fault in dropped_fields(pool)
        ],
        **_unknown_document(snapshot),
    }


def _causes(plan: PassPlan, managed: Sequence[ClusterNode]) -> dict[str, Any]:
    """Build the part about what nodes have in common: what drifted, and the PDBs and pods that block them."""
    assert plan.context is not None, "plan_pass records its context"
    return {
        "drifted": drifted_document(find_drifted(managed, plan.context.snapshot)),
        "blockers": blockers_document(find_pod_blocks(managed, plan.context), plan.at),
    }


def _unknown_document(snapshot: Snapshot) -> dict[str, Any]:
    """Build the part about NodePools without a plan: why there is none, and what is known of their nodes."""
    return {
        "ignoredNodePools": [
            {"nodepool": name, "nodeClass": kind} for name, kind in ignored_nodepools(snapshot).items()
        ],
        "missingCatalogs": [
            {"nodepools": list(each.nodepools), "message": str(each)} for each in missing_catalogs(snapshot)
        ],
        "withoutPrices": [
            {
                "node": node.name,
                "nodepool": node.nodepool_name,
                "instanceType": node.labels.get(INSTANCE_TYPE, ""),
                "capacityType": node.labels.get(CAPACITY_TYPE, ""),
                "zone": node.labels.get(ZONE, ""),
                "pods": sum(not pod.terminal for pod in node.pods),
                "obstacles": [refusal_document(each) for each in obstacles],
            }
            for node, obstacles in known_obstacles(snapshot)
        ],
    }


def _command(command: Command, plan: PassPlan) -> dict[str, Any]:
    return {
        "method": command.method,
        "reason": str(command.reason),
        "decision": str(command.decision),
        "nodes": [each.name for each in command.candidates],
        "podsMoved": command.pods,
        "savingPerMonth": round(command.saving * HOURS_PER_MONTH, 2),
        "unpricedNodes": command.unpriced,
        "replacements": [
            {"nodepool": draft.pool_name, "instanceTypes": [choice.type.name for choice in draft.choices]}
            for draft in command.replacements
        ],
        "budgetUsed": list(_used(command, plan)),
    }


def _used(command: Command, plan: PassPlan) -> Iterable[dict[str, Any]]:
    """Yield the budget use of each NodePool of the command, including the earlier commands of the plan."""
    going = Counter(each.pool.name for each in command.candidates)
    for earlier in plan.commands[: plan.commands.index(command)]:
        going.update(each.pool.name for each in earlier.candidates if each.pool.name in going)
    for pool, nodes in sorted(going.items()):
        allowed = plan.allowances[pool, command.reason]
        yield {"nodepool": pool, "used": allowed.disrupting + nodes, "limit": allowed.limit}


def _budgets(plan: PassPlan, snapshot: Snapshot) -> Iterable[dict[str, Any]]:
    for (pool, reason), allowed in sorted(plan.allowances.items()):
        if not budgets_apply(snapshot.nodepools[pool], reason):
            continue
        yield {
            "nodepool": pool,
            "reason": str(reason),
            "limit": allowed.limit,
            "disrupting": allowed.disrupting,
            **({"fault": allowed.fault} if allowed.fault else {}),
        }


def _left_alone(plan: PassPlan, managed: Iterable[ClusterNode]) -> Iterable[dict[str, Any]]:
    """Yield every node without a command, with the soonest way it can leave and the refusals of all methods."""
    disrupted = {each.name for command in plan.commands for each in command.candidates}
    refused = refusals_by_node(plan)
    verdicts = find_verdicts(plan, [node for node in managed if node.name not in disrupted])
    pools = {node.name: node.nodepool_name for node in managed}
    for name, verdict in sorted(verdicts.items()):
        by_method = {method: refusal_document(each) for method, each in refused.get(name, {}).items()}
        yield {"node": name, "nodepool": pools[name], **left_alone_document(verdict, plan.at), "why": by_method}


def refusal_document(refusal: Refusal, words: Callable[[Refusal], str] = message) -> dict[str, Any]:
    """Build the document of a refusal; `words` turns it into a message."""
    return {
        "code": str(refusal.code),
        "message": words(refusal),
        "until": stamp(refusal.until) if refusal.until is not None else None,
        "permanent": refusal.permanent,
    }


def draw_plan(console: Console, document: Mapping[str, Any]) -> None:
    """Draw the commands, then every node that is left alone."""
    _print_head(console, document)
    for note in document.get("notes", ()):
        console.print(note, style="yellow")
    console.print()
    if document["commands"]:
        _print_commands(console, document["commands"])
        console.print()
        verdict = worth(document["savingPerMonth"], document["unpricedNodes"])
        console.print(f"{verdict[0].upper()}{verdict[1:]}.", style="bold green")
    elif not document["missingCatalogs"]:
        others = document.get("hidden", {}).get("commands", 0)
        console.print("Nothing of this would be disrupted." if others else "Nothing would be disrupted.")
    unpriced = {each["node"] for each in document["withoutPrices"]}
    planned = [each for each in document["leftAlone"] if each["node"] not in unpriced]
    if planned:
        console.print()
        console.print(_left_alone_table(planned, datetime.fromisoformat(document["at"])))
    draw_shared_causes(console, document)
    if document["withoutPrices"]:
        console.print()
        console.print(_unpriced_table(document["withoutPrices"]))
    for each in document["ignoredNodePools"]:
        console.print(f"\nNodePool {each['nodepool']} is ignored: {ignored_because(each['nodeClass'])}.")
    for each in document["unreadable"]:
        console.print(f"\n{each['kind']} {each['name']}: {each['message']}", style="red")
    for each in document["dropped"]:
        console.print(f"\nNodePool {each['nodepool']}: {each['message']}", style="yellow")


def _print_head(console: Console, document: Mapping[str, Any]) -> None:
    """Print what the plan is for, and for which nodes there is none."""
    missing = document["missingCatalogs"]
    if missing and len(document["withoutPrices"]) == document["nodes"]:
        print_no_plan(console, document["at"], [each["message"] for each in missing])
        return
    console.print(f"Plan for {counted(document['nodes'], 'node')} at {document['at']}", style="bold")
    for each in missing:
        names = ", ".join(each["nodepools"])
        console.print(f"No plan for the nodes of {names}: {each['message']}.", style="red")


def _print_commands(console: Console, commands: Sequence[Mapping[str, Any]]) -> None:
    """Print the commands as a table, or as paragraphs if the terminal is too narrow."""
    table = _commands_table(commands)
    if console.measure(table, options=console.options.update(width=_NO_EDGE)).maximum <= console.width:
        console.print(table)
        return
    for each in commands:
        nodes, pods = counted(len(each["nodes"]), "node"), counted(each["podsMoved"], "pod")
        console.print(f"{each['decision']} {nodes}: {each['reason']} ({each['method']})", style="cyan")
        console.print(f"  {worth(each['savingPerMonth'], each['unpricedNodes'])}, {pods} moved")
        console.print(f"  nodes: {', '.join(each['nodes'])}")
        console.print(
            f"  replaced by: {'; '.join(_replacement_text(one) for one in each['replacements']) or 'nothing'}"
        )
        console.print(f"  budget used: {', '.join(_budget_text(one) for one in each['budgetUsed'])}")


def _commands_table(commands: Iterable[Mapping[str, Any]]) -> Table:
    table = plain_table("COMMAND", "REASON", "NODES", "PODS MOVED", "$/MONTH", "REPLACED BY", "BUDGET USED")
    for each in commands:
        table.add_row(
            Text(f"{each['decision']} ({each['method']})", style="cyan" if each["replacements"] else "magenta"),
            each["reason"],
            "\n".join(each["nodes"]),
            str(each["podsMoved"]),
            "not known" if each["unpricedNodes"] else f"{each['savingPerMonth']:,.2f}",
            "\n".join(_replacement_text(one) for one in each["replacements"]) or "nothing",
            "\n".join(_budget_text(one) for one in each["budgetUsed"]),
        )
    return table


def _replacement_text(replacement: Mapping[str, Any]) -> str:
    types = replacement["instanceTypes"]
    more = f" or {counted(len(types) - 1, 'other')}" if len(types) > 1 else ""
    return f"{types[0] if types else 'a node'}{more} of {replacement['nodepool']}"


def _budget_text(budget: Mapping[str, Any]) -> str:
    limit = "no limit" if budget["limit"] is None else f"of {budget['limit']}"
    return f"{budget['nodepool']}: {budget['used']} {limit}"


def _left_alone_table(nodes: Iterable[Mapping[str, Any]], now: datetime) -> Table:
    table = plain_table("LEFT ALONE", "LASTS", "LEAVES BY", "BECAUSE")
    for each in nodes:
        table.add_row(each["node"], lasts(each, now), each["by"] or "-", each["because"])
    return table


def _unpriced_table(nodes: Iterable[Mapping[str, Any]]) -> Table:
    table = plain_table("NODE", "NODEPOOL", "TYPE", "CAPACITY", "ZONE", "PODS", "KNOWN OBSTACLES")
    for each in nodes:
        known = "; ".join(obstacle["message"] for obstacle in each["obstacles"]) or "none"
        where = (each["instanceType"], each["capacityType"], each["zone"])
        table.add_row(each["node"], each["nodepool"], *where, str(each["pods"]), known)
    return table


def lasts(left: Mapping[str, Any], now: datetime) -> Text:
    """Describe until when a refusal lasts."""
    if left["until"] is not None:
        return Text(f"until {moment(datetime.fromisoformat(left['until']), now)}", style="yellow")
    return Text("permanent", style="red") if left["permanent"] else Text("may change", style="dim")
