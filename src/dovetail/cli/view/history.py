"""Prints decisions from the ledger: a list of many, or one with its plan, its refusals and its outcome."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from dovetail.cli.view.plan import lasts
from dovetail.cli.view.printing import counted, document_type, plain_table, print_document, saved, stamp
from dovetail.core.explain.obstacles import NOT_APPLICABLE
from dovetail.core.savings import DRY_RUN, CommandSaving
from dovetail.observe.ledger_query import LedgerDecision
from dovetail.ports.ledger import LedgerNode

Plain = Mapping[str, Any]
SHOWN = 20  # refusals of one method in text output; the document has more
NO_PLAN = {
    "remove": "This was not decided by a disruption pass, so there is no plan.",
    "": "The plan was not recorded.",
}


@dataclass(frozen=True, slots=True)
class HistorySavings:
    """What commands saved until an instant, by id."""

    until: datetime
    by_id: Mapping[str, CommandSaving]


def print_decision(document: Plain, output: str) -> None:
    """Print one decision in an output format."""
    print_document(document, output, lambda console: draw_decision(console, document, everything=output == "wide"))


def draw_decision(console: Console, document: Plain, *, everything: bool = False) -> None:
    """Draw one decision; `everything` lists all recorded refusals."""
    console.print(f"Decision {document['id']}: {document['act']}, {document['reason']}", style="bold")
    console.print(document["why"])
    console.print()
    _draw_outcome(console, document)
    _draw_nodes(console, "REMOVED", document["nodes"])
    _draw_nodes(console, "LAUNCHED", document["made"])
    if document["plan"] is None:
        console.print(f"\n{NO_PLAN.get(document['act'], NO_PLAN[''])}", style="dim")
        return
    _draw_plan(console, document["plan"])
    _draw_refusals(console, document, everything=everything)


def _draw_outcome(console: Console, document: Plain) -> None:
    ended = document["endedAt"]
    table = plain_table("", "")
    table.show_header = False
    table.add_row("decided", _instant(document["at"]))
    table.add_row("ended", _instant(ended) if ended else "not yet")
    table.add_row("outcome", f"{document['outcome']}: {document['note']}" if document["note"] else document["outcome"])
    if document["method"]:
        table.add_row("method", document["method"])
    cost = f"${document['costPerHourBefore']:.3f} -> ${document['costPerHourAfter']:.3f} an hour"
    table.add_row("cost", cost)
    if document["act"] == "disrupt":
        table.add_row("saving", saving_text(document))
    table.add_row("pods", str(document["podsMoved"]))
    console.print(table)


def saving_text(document: Plain) -> str:
    """Say what a command saved, until when, and its rate if it still saves."""
    if document["outcome"] == DRY_RUN:
        return "nothing saved: this was a dry run"
    if document.get("saved") is None:  # older controllers send none
        return "not known what it saved: no price, or recorded by an earlier version"
    if document["savedUntil"] is None:
        return "nothing saved yet"
    rate = document["savingPerHour"]
    still = f", and ${rate:.3f} an hour now" if rate > 0 else ""
    return f"{saved(document['saved'])} until {_instant(document['savedUntil'])}{still}"


def _draw_nodes(console: Console, heading: str, nodes: Iterable[Plain]) -> None:
    table = plain_table(heading, "NODEPOOL", "TYPE", "CAPACITY", "ZONE", "$/HOUR")
    for each in nodes:
        price = "" if each["pricePerHour"] is None else f"{each['pricePerHour']:.3f}"
        name = each["node"] or f"nodeclaim/{each['nodeClaim']}"
        table.add_row(name, each["nodePool"], each["instanceType"], each["capacityType"], each["zone"], price)
    if table.row_count:
        console.print()
        console.print(table)


def _draw_plan(console: Console, plan: Plain) -> None:
    console.print("\nPlan", style="bold")
    for each in plan["replacements"]:
        types = each["instanceTypes"]
        more = f" or {counted(each['choices'] - 1, 'other')}" if each["choices"] > 1 else ""
        price = f", from ${each['pricePerHour']:.3f} an hour" if each["pricePerHour"] is not None else ""
        console.print(f"  a node of {each['nodepool']}: {types[0] if types else 'any type'}{more}{price}")
    if not plan["replacements"]:
        console.print("  no replacements")
    for each in plan["budgetUsed"]:
        limit = "no limit" if each["limit"] is None else f"of {each['limit']}"
        console.print(f"  budget of {each['nodepool']}: {each['used']} {limit}")


def _draw_refusals(console: Console, document: Plain, *, everything: bool) -> None:
    """Draw the refusals of each method; those of nodes that do not concern a method are only counted."""
    counts, named = document["refusals"]["counts"], document["refusals"]["named"]
    console.print("\nLeft alone", style="bold")
    if not counts:
        console.print("  nothing" if document["act"] == "disrupt" else "  no pod: every pending pod was scheduled")
        return
    now, unlisted = datetime.fromisoformat(document["at"]), 0
    for method in dict.fromkeys(each["method"] for each in counts):
        kinds = ", ".join(f"{each['code']} {each['nodes']}" for each in counts if each["method"] == method)
        console.print(f"  {method}: {kinds}", style="cyan")
        mine = [
            each for each in named if each["method"] == method and (everything or each["code"] not in NOT_APPLICABLE)
        ]
        shown = mine if everything else mine[:SHOWN]
        unlisted += sum(each["nodes"] for each in counts if each["method"] == method) - len(shown)
        table = plain_table("", "", "")
        table.show_header = False
        for each in shown:
            table.add_row(Text(f"    {each['node']}"), lasts(each, now), each["message"])
        if shown:
            console.print(table)
    if unlisted:
        more = "; -o wide lists more" if len(named) > 0 and not everything else ""
        console.print(f"  {unlisted} more not listed{more}", style="dim")


def _instant(written: str) -> str:
    return f"{written[:19].replace('T', ' ')} UTC"


NAMED = 3  # nodes in one cell
_VERBS = {"launch": "launched", "disrupt": "disrupted", "remove": "removed"}


def print_history(document: Plain, output: str, node: str = "") -> None:
    """Print what their commands saved, then decisions, newest first, in an output format."""

    def draw(console: Console) -> None:
        _draw_savings(console, document)
        draw_history(console, document["decisions"], wide=output == "wide", node=node)

    print_document(document, output, draw)


def history_document(decisions: Iterable[LedgerDecision], savings: HistorySavings) -> dict[str, Any]:
    """Build the document of many decisions."""
    plain = [_plain(each, savings) for each in decisions]
    return {**document_type("History"), "decisions": plain, "savings": _total(plain, savings.until)}


def _total(decisions: Sequence[Plain], until: datetime) -> dict[str, Any]:
    """What the listed commands saved together; `saved` is null if none of their savings is known."""
    commands = [each for each in decisions if each["act"] == "disrupt" and each["outcome"] != DRY_RUN]
    known = [each["saved"] for each in commands if each["saved"] is not None]
    return {
        "until": stamp(until),
        "saved": round(sum(known), 4) if known or not commands else None,
        "commands": len(known),
        "notCounted": len(commands) - len(known),
    }


def _plain(decision: LedgerDecision, savings: HistorySavings) -> dict[str, Any]:
    saving = savings.by_id.get(decision.id)
    known = saving if saving is not None and saving.counted else None
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
        "saved": round(known.dollars(), 4) if known is not None else None,
        "savedUntil": _saved_until(known, savings.until),
        "savingPerHour": round(known.rate, 6) if known is not None else None,
        "outcome": decision.outcome,
        "endedAt": decision.ended_at or None,
        "note": decision.note,
        "cluster": decision.cluster,
    }


def _saved_until(saving: CommandSaving | None, now: datetime) -> str | None:
    """The instant at which the saving ended, or now; None if there was none."""
    if saving is None or not saving.periods:
        return None
    return stamp(now if saving.rate else max(period.end for period in saving.periods))


def decision_document(decision: LedgerDecision, savings: HistorySavings) -> dict[str, Any]:
    """Build the document of one decision; plan and refusals are null if they were not recorded."""
    considered = decision.considered
    return {
        **document_type("Decision"),
        **_plain(decision, savings),
        "plan": None
        if considered is None
        else {
            "replacements": [
                {
                    "nodepool": each.nodepool,
                    "instanceTypes": list(each.instance_types),
                    "choices": each.choices,
                    "pricePerHour": None if each.price is None else round(each.price, 6),
                }
                for each in considered.purchases
            ],
            "budgetUsed": [
                {"nodepool": each.nodepool, "used": each.used, "limit": each.limit} for each in considered.budgets
            ],
        },
        "refusals": None
        if considered is None
        else {
            "counts": [{"method": each.method, "code": each.code, "nodes": each.nodes} for each in considered.counts],
            "named": [
                {
                    "method": each.method,
                    "node": each.node,
                    "code": each.code,
                    "message": each.message,
                    "until": stamp(each.until) if each.until is not None else None,
                    "permanent": each.permanent,
                }
                for each in considered.refusals
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


def draw_history(console: Console, decisions: Sequence[Plain], *, wide: bool, node: str = "") -> None:
    """Draw decisions as a table."""
    if not decisions:
        console.print(f"The ledger has no decision about {node}." if node else "The ledger has no matching decision.")
        return
    headings = ["WHEN (UTC)", "WHAT", "REASON", "NODES", "NODEPOOL", "PODS", "$/HOUR", "OUTCOME", "WHY"]
    table = plain_table(*headings, *(["MADE", "ENDED", "DECISION"] if wide else []))
    for each in decisions:
        row = [
            _when(each["at"]),
            _VERBS.get(each["act"], each["act"]),
            each["reason"],
            _names(each["made"] if each["act"] == "launch" else each["nodes"], most=1000 if wide else NAMED),
            _pools(each),
            str(each["podsMoved"]),
            f"{each['costPerHourBefore']:.3f} -> {each['costPerHourAfter']:.3f}",
            f"{each['outcome']}: {each['note']}" if each["note"] else each["outcome"],
            each["why"],
        ]
        table.add_row(*row, *(_more(each) if wide else ()))
    console.print(table)


def _draw_savings(console: Console, document: Plain) -> None:
    total = document.get("savings")  # older controllers send none
    if not total or not total["commands"] + total["notCounted"]:
        return
    parts = [counted(len(document["decisions"]), "decision")]
    if total["commands"]:
        parts.append(
            f"{counted(total['commands'], 'command')} {saved(total['saved'])} until {_instant(total['until'])}"
        )
    if total["notCounted"]:
        parts.append(f"the saving of {counted(total['notCounted'], 'command')} is not known")
    console.print(f"{'; '.join(parts)}.\n")


def _pools(decision: Plain) -> str:
    return ", ".join(sorted({each["nodePool"] for each in (*decision["nodes"], *decision["made"]) if each["nodePool"]}))


def _more(decision: Plain) -> Iterable[str]:
    made = () if decision["act"] == "launch" else decision["made"]
    return _names(made, most=1000), _when(decision["endedAt"] or ""), decision["id"]


def _names(nodes: Sequence[Plain], most: int) -> str:
    names = [each["node"] or f"nodeclaim/{each['nodeClaim']}" for each in nodes]
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _when(written: str) -> str:
    return written[:19].replace("T", " ")
