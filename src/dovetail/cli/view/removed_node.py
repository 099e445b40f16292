"""Prints the answer of `explain node` for a node that is gone: when it was removed, why, and by which decision."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console

from dovetail.cli.view.history import saving_text
from dovetail.cli.view.printing import age, document_type, moment, print_document, stamp

Plain = Mapping[str, Any]


def removal_of(name: str, decisions: Iterable[Plain]) -> Plain | None:
    """Return the newest decision, of decisions ordered newest first, that removed the node or its NodeClaim."""
    return next((each for each in decisions if any(name in _names(node) for node in each["nodes"])), None)


def _names(node: Plain) -> tuple[str, str]:
    return node["node"], node["nodeClaim"]


def print_removed_node(name: str, decision: Plain, now: datetime, output: str) -> None:
    """Print the decision that removed a node."""
    document = {**document_type("RemovedNode"), "node": name, "at": stamp(now), "decision": decision}
    print_document(document, output, lambda console: _draw(console, name, decision, now))


def _draw(console: Console, name: str, decision: Plain, now: datetime) -> None:
    removed = decision["outcome"] == "done"
    at = datetime.fromisoformat(decision["endedAt"] if removed and decision["endedAt"] else decision["at"])
    verdict = f"Removed {age(now - at)} ago" if removed else f"Gone; the decision to remove it is {decision['outcome']}"
    actor = "by hand" if decision["reason"] == "Manual" else f"by {decision['method'] or decision['act']}"
    console.print(f"Node {name}: {verdict}: {decision['reason']}, {actor}, decision {decision['id']}.", style="bold")
    facts = [moment(at, now), *([saving_text(decision)] if decision["act"] == "disrupt" else [])]
    made = [node["node"] or f"nodeclaim/{node['nodeClaim']}" for node in decision["made"]]
    facts += [f"replaced by {', '.join(made)}"] if made else []
    console.print("; ".join(facts), style="dim")
    console.print(decision["why"])
    if decision["note"]:
        console.print(decision["note"])
    console.print(f"\nThe plan and its outcome:  dovetail history {decision['id']}", style="dim")
