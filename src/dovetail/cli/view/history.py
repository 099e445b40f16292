"""The ledger's answer as people and scripts read it."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from dovetail.cli.view.printing import counted, plain_table, print_document, stamp
from dovetail.core.disruption.command import HOURS_PER_MONTH
from dovetail.observe.ledger_query import LedgerDecision
from dovetail.ports.ledger import LedgerNode

NAMED = 3  # nodes in one cell
_VERBS = {"launch": "launched", "disrupt": "disrupted", "remove": "removed"}


def print_history(decisions: Sequence[LedgerDecision], output: str, node: str = "") -> None:
    """Print them, newest first, in the form asked for."""
    document = history_document(decisions)
    form = "text" if output == "wide" else output
    print_document(document, form, lambda console: draw_history(console, decisions, wide=output == "wide", node=node))


def history_document(decisions: Iterable[LedgerDecision]) -> dict[str, Any]:
    """The decisions as plain data."""
    return {"decisions": [_plain(each) for each in decisions]}


def _plain(decision: LedgerDecision) -> dict[str, Any]:
    return {
        "id": decision.id,
        "at": decision.at,
        "act": decision.act,
        "reason": decision.reason,
        "why": decision.why,
        "method": decision.method,
        "nodes": [_facts(each) for each in decision.nodes],
        "made": [_facts(each) for each in decision.made],
        "replacements": decision.replacements,
        "podsMoved": decision.pods,
        "pods": list(decision.pod_names),
        "costPerHourBefore": round(decision.cost_before, 6),
        "costPerHourAfter": round(decision.cost_after, 6),
        "savingPerMonth": round((decision.cost_before - decision.cost_after) * HOURS_PER_MONTH, 2),
        "outcome": decision.outcome,
        "endedAt": decision.ended_at or None,
        "note": decision.note,
        "cluster": decision.cluster,
    }


def decision_document(decision: LedgerDecision) -> dict[str, Any]:
    """One decision with its plan and refusals; both are null where nothing was weighed, or nobody kept it."""
    weighed = decision.considered
    return {
        **_plain(decision),
        "plan": None
        if weighed is None
        else {
            "replacements": [
                {
                    "nodepool": each.nodepool,
                    "instanceTypes": list(each.instance_types),
                    "choices": each.choices,
                    "pricePerHour": None if each.price is None else round(each.price, 6),
                }
                for each in weighed.purchases
            ],
            "budgetUsed": [
                {"nodepool": each.nodepool, "used": each.used, "limit": each.limit} for each in weighed.budgets
            ],
        },
        "refusals": None
        if weighed is None
        else {
            "counts": [{"method": each.method, "code": each.code, "nodes": each.nodes} for each in weighed.counts],
            "named": [
                {
                    "method": each.method,
                    "node": each.node,
                    "code": each.code,
                    "message": each.message,
                    "until": stamp(each.until) if each.until is not None else None,
                    "permanent": each.permanent,
                }
                for each in weighed.refusals
            ],
        },
    }


def _facts(facts: LedgerNode) -> dict[str, Any]:
    return {
        "nodeClaim": facts.nodeclaim,
        "node": facts.node,
        "nodePool": facts.nodepool,
        "instanceType": facts.instance_type,
        "capacityType": facts.capacity_type,
        "zone": facts.zone,
        "pricePerHour": facts.price,
    }


def draw_history(console: Console, decisions: Sequence[LedgerDecision], *, wide: bool, node: str = "") -> None:
    """As a table for people."""
    if not decisions:
        console.print(f"The ledger knows nothing about {node}." if node else "The ledger has no such decision.")
        return
    headings = ["WHEN (UTC)", "WHAT", "REASON", "NODES", "NODEPOOL", "PODS", "$/HOUR", "OUTCOME", "WHY"]
    table = plain_table(*headings, *(["MADE", "ENDED", "DECISION"] if wide else []))
    for each in decisions:
        pools = sorted({facts.nodepool for facts in (*each.nodes, *each.made) if facts.nodepool})
        row = [
            _when(each.at),
            _VERBS.get(each.act, each.act),
            each.reason,
            _names(each.made if each.act == "launch" else each.nodes, most=1000 if wide else NAMED),
            ", ".join(pools),
            str(each.pods),
            f"{each.cost_before:.3f} -> {each.cost_after:.3f}",
            f"{each.outcome}: {each.note}" if each.note else each.outcome,
            each.why,
        ]
        table.add_row(*row, *(_more(each) if wide else ()))
    console.print(table)
    saved = sum(each.cost_before - each.cost_after for each in decisions if each.act == "disrupt" and _ended(each))
    commands = sum(each.act == "disrupt" for each in decisions)
    if commands:
        worth = f"${saved * HOURS_PER_MONTH:,.2f} a month"
        console.print(f"\n{counted(len(decisions), 'decision')}; {counted(commands, 'command')} saved {worth}.")


def _ended(decision: LedgerDecision) -> bool:
    return decision.outcome == "done"


def _more(decision: LedgerDecision) -> Iterable[str]:
    made = () if decision.act == "launch" else decision.made
    return _names(made, most=1000), _when(decision.ended_at), decision.id


def _names(nodes: Sequence[LedgerNode], most: int) -> str:
    names = [each.node or f"nodeclaim/{each.nodeclaim}" for each in nodes]
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _when(written: str) -> str:
    return written[:19].replace("T", " ")
