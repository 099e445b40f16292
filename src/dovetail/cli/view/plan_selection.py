"""Restricts the document of a plan to some NodePools or reasons. The decision stays that of the whole pass.

For reasons, every node that is left alone shows the verdict by the methods of these reasons alone. Nodes to which none
of them applies, for example nodes that have not drifted, are not shown.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.cli.view.printing import counted
from dovetail.cli.view.verdict import left_alone_document
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.planner import PassPlan
from dovetail.core.explain.node import find_verdicts_for
from dovetail.model.reason import Reason

Document = dict[str, Any]
_BY_POOL = ("budgets", "leftAlone", "dropped", "ignoredNodePools", "withoutPrices")


@dataclass(frozen=True, slots=True)
class PlanSelection:
    """What to show: everything, or only some NodePools and reasons."""

    nodepools: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()

    def __str__(self) -> str:
        pools, reasons = ", ".join(self.nodepools), ", ".join(self.reasons)
        named = [f"NodePool{'s' * (len(self.nodepools) > 1)} {pools}" if pools else ""]
        named.append(f"reason{'s' * (len(self.reasons) > 1)} {reasons}" if reasons else "")
        return " and ".join(each for each in named if each)

    def __bool__(self) -> bool:
        return bool(self.nodepools or self.reasons)

    def shows(self, nodepools: Collection[str], reason: str) -> bool:
        """Whether a command or move is shown, by the NodePools of its nodes and its reason."""
        of_pool = not self.nodepools or not set(self.nodepools).isdisjoint(nodepools)
        return of_pool and (not self.reasons or reason in self.reasons)


def restrict(document: Document, plan: PassPlan, selection: PlanSelection) -> Document:
    """The document with what is selected, and a note that says what is hidden."""
    if not selection:
        return document
    shown = [
        each
        for each in document["commands"]
        if selection.shows([one["nodepool"] for one in each["budgetUsed"]], each["reason"])
    ]
    restricted = {
        **document,
        "commands": shown,
        "savingPerMonth": round(sum(each["savingPerMonth"] for each in shown), 2),
        "unpricedNodes": sum(each["unpricedNodes"] for each in shown),
    }
    if selection.nodepools:
        for field in _BY_POOL:
            restricted[field] = [each for each in document[field] if each["nodepool"] in selection.nodepools]
        restricted["missingCatalogs"] = [
            each for each in document["missingCatalogs"] if not set(selection.nodepools).isdisjoint(each["nodepools"])
        ]
    if selection.reasons:
        restricted["budgets"] = [each for each in restricted["budgets"] if each["reason"] in selection.reasons]
        restricted["leftAlone"] = _left_alone(restricted["leftAlone"], plan, selection.reasons)
    hidden = {
        "commands": len(document["commands"]) - len(shown),
        "nodesLeftAlone": len(document["leftAlone"]) - len(restricted["leftAlone"]),
    }
    return {
        **restricted,
        **_causes(restricted),
        "hidden": hidden,
        "notes": [*document["notes"], *_notes(selection, hidden)],
    }


def _causes(restricted: Document) -> Document:
    """What drifted and what blocks nodes, for the nodes that are shown."""
    names = {name for each in restricted["commands"] for name in each["nodes"]}
    names |= {each["node"] for each in restricted["leftAlone"]}
    shared = {
        field: [{**each, "nodes": [name for name in each["nodes"] if name in names]} for each in restricted[field]]
        for field in ("drifted", "blockers")
    }
    return {field: [each for each in entries if each["nodes"]] for field, entries in shared.items()}


def _left_alone(nodes: list[Document], plan: PassPlan, reasons: tuple[Reason, ...]) -> list[Document]:
    """The nodes to which a method of these reasons applies, with the verdict by these methods."""
    assert plan.context is not None, "plan_pass records its context"
    methods = {method.name for method in METHODS if method.reason in reasons}
    by_name = {each.name: each for each in plan.context.snapshot.nodes}
    verdicts = find_verdicts_for(plan, [by_name[each["node"]] for each in nodes], reasons)
    return [
        {
            **each,
            **left_alone_document(verdicts[each["node"]], plan.at),
            "why": {name: why for name, why in each["why"].items() if name in methods},
        }
        for each in nodes
        if each["node"] in verdicts
    ]


def _notes(selection: PlanSelection, hidden: Mapping[str, int]) -> list[str]:
    shown = [
        counted(hidden["commands"], "command") if hidden["commands"] else "",
        f"{counted(hidden['nodesLeftAlone'], 'node')} left alone" if hidden["nodesLeftAlone"] else "",
    ]
    if not any(shown):
        return [f"Only {selection}; the plan has nothing else."]
    left_out = " and ".join(each for each in shown if each)
    return [f"Only {selection}. Not shown: {left_out}. The pass decides about all nodes together."]
