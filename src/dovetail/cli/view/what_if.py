"""Prints what a change of NodePools does to the plan: the verdict, both plans side by side, nodes, each setting."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from dovetail.cli.simulation.comparison import Row, draw_comparison, figures_document
from dovetail.cli.simulation.nodepool_settings import AppliedSetting, ChangedCluster
from dovetail.cli.simulation.until_stable import StableState
from dovetail.cli.view.plan import plan_document
from dovetail.cli.view.plan_selection import PlanSelection
from dovetail.cli.view.plan_summary import names, summary_document, unplanned_document
from dovetail.cli.view.printing import (
    counted,
    document_type,
    dollars,
    plain_lines,
    plain_table,
    print_document,
    stamp,
)
from dovetail.cli.view.shared_causes import print_no_plan
from dovetail.cli.view.until_stable import span_text, stable_document
from dovetail.core.disruption.planner import PassPlan
from dovetail.core.explain.plan_comparison import NodeChange, PlanComparison, PlannedNode
from dovetail.core.explain.plan_summary import ObstacleKind, summarize
from dovetail.core.verdict_wording import verdict_line
from dovetail.model.snapshot import Snapshot

MOST_NODES = 20
MOST_OBSTACLES = 3
_ELSEWHERE = {
    "spec.limits": "limits apply when a node is launched",
    "spec.weight": "weight applies when a node is launched for pending pods",
    "spec.repair": "repair applies to unhealthy nodes",
    "spec.template.spec.expireAfter": "expireAfter of the template applies to nodes that are launched from now on",
    "metadata": "labels and annotations of a NodePool itself rarely affect decisions",
}
"""Fields that seldom matter to a disruption pass, and when they do."""
_LABELS = {ObstacleKind.OTHER: "kept by another obstacle", ObstacleKind.LATER: "left for a later pass"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A change of NodePools, the plan before and after it, and what each setting contributes."""

    cluster: Snapshot
    changed: ChangedCluster
    before: PassPlan
    after: PassPlan
    comparison: PlanComparison
    without: Mapping[str, PlanComparison]  # by setting, if there are several: all but this one, and all
    until_stable: Sequence[StableState] = ()  # without and with the change, if they were played
    simulated: Sequence[Row] = ()
    lasts: str = ""

    def effect_of(self, text: str) -> PlanComparison:
        """What a setting changes in the plan, beside all others."""
        return self.without.get(text, self.comparison)


def print_what_if(found: WhatIf, output: str) -> None:
    """Print the comparison in an output format."""
    document = {**document_type("WhatIf"), **what_if_document(found)}
    print_document(document, output, lambda console: _draw(console, document, found.simulated))


def what_if_document(found: WhatIf) -> dict[str, Any]:
    """Build the document of a comparison."""
    compared, at = found.comparison, found.before.at
    return {
        "at": stamp(found.before.at),
        "planChanges": not compared.same_commands,
        "before": _side(found.before, found.cluster),
        "after": _side(found.after, found.changed.snapshot),
        "unblocked": [_node(each, at) for each in compared.unblocked],
        "blocked": [_node(each, at) for each in compared.blocked],
        "otherCommand": [_node(each, at) for each in compared.other_command],
        "otherObstacle": [_node(each, at) for each in compared.other_verdict],
        "settings": list(_settings(found)),
        **unplanned_document(found.cluster),
        **_played(found),
    }


def _played(found: WhatIf) -> dict[str, Any]:
    """The parts of the document about what happens after the next pass, if it was played or simulated."""
    parts: dict[str, Any] = {}
    if found.until_stable:
        before, after = (stable_document(each, PlanSelection()) for each in found.until_stable)
        parts["untilStable"] = {"before": before, "after": after}
    if found.simulated:
        parts["simulated"] = {"for": found.lasts, "variants": [figures_document(row) for row in found.simulated]}
    return parts


def _side(plan: PassPlan, snapshot: Snapshot) -> dict[str, Any]:
    return {"commands": plan_document(plan, snapshot)["commands"], **summary_document(summarize(plan, snapshot))}


def _node(change: NodeChange, at: datetime) -> dict[str, Any]:
    return {
        "node": change.node,
        "nodepool": change.nodepool,
        "before": _planned(change.before, at),
        "after": _planned(change.after, at),
    }


def _planned(planned: PlannedNode, at: datetime) -> str:
    if planned.verdict is not None:
        return verdict_line(planned.verdict, at)
    assert planned.command is not None, "a node leaves or stays"
    return f"{planned.command.decision} ({planned.command.reason})"


def _settings(found: WhatIf) -> Iterator[dict[str, Any]]:
    by_text: dict[str, list[AppliedSetting]] = {}
    for each in found.changed.applied:
        by_text.setdefault(each.text, []).append(each)
    for text, applied in by_text.items():
        effect, words = _effect(text, applied, found)
        yield {
            "set": text,
            "effect": effect,
            "message": words,
            "nodepools": [
                {"nodepool": each.nodepool, "path": each.path, "before": each.before, "after": each.after}
                for each in applied
            ],
        }


def _effect(text: str, applied: Sequence[AppliedSetting], found: WhatIf) -> tuple[str, str]:
    """What a setting does: none (already so), nodepool (changed, but no decision), obstacles, or plan."""
    changing = [each for each in applied if each.changes]
    if not changing:
        return "none", "; ".join(dict.fromkeys(map(_already, applied)))
    pools = _pools([each.nodepool for each in changing])
    effect = found.effect_of(text)
    if not effect.same_commands:
        return "plan", f"changes {pools} and the plan"
    if not effect.same:
        kept = names([each.node for each in effect.other_verdict])
        return "obstacles", f"changes {pools}, but in the plan only what keeps {kept}"
    return "nodepool", f"changes {pools} but not the plan, because {_because(changing, found)}"


def _already(applied: AppliedSetting) -> str:
    path = f"{applied.path} of NodePool {applied.nodepool}"
    if applied.before is None:
        return f"{path} is {_shown(applied.after)} by default, if it is not set"
    same = f", which is the same as {_shown(applied.after)}" if applied.before != applied.after else ""
    return f"{path} is already {_shown(applied.before)}{same}"


def _because(changing: Sequence[AppliedSetting], found: WhatIf) -> str:
    """Why a changed NodePool does not change the plan: the field matters elsewhere, or other things keep its nodes."""
    for prefix, why in _ELSEWHERE.items():
        if all(each.path.startswith(prefix) for each in changing):
            return why
    if not found.comparison.same:
        return "it is the same with the other settings alone"
    pools = sorted({each.nodepool for each in changing})
    summary = summarize(found.after, found.changed.snapshot, pools)
    if not summary.nodes:
        return f"{_pools(pools)} {'have' if len(pools) > 1 else 'has'} no nodes"
    if not summary.blocked:
        return "all its nodes leave anyway"
    kept = [f"{_obstacle(each.kind, each.what)} keeps {names(each.nodes)}" for each in summary.blocked]
    more = f"; and {counted(len(kept) - MOST_OBSTACLES, 'more obstacle')}" if len(kept) > MOST_OBSTACLES else ""
    return "; ".join(kept[:MOST_OBSTACLES]) + more


def _obstacle(kind: ObstacleKind, what: str) -> str:
    return what if kind is ObstacleKind.OTHER else f"{kind} {what}"


def _pools(pools: Sequence[str]) -> str:
    return f"NodePool{'s' * (len(pools) > 1)} {', '.join(pools)}"


def _draw(console: Console, document: Mapping[str, Any], simulated: Sequence[Row]) -> None:
    unchanged = all(setting["effect"] == "none" for setting in document["settings"])
    missing = document["missingCatalogs"]
    if missing and not unchanged and document["unplannedNodes"] == document["before"]["nodes"]:
        print_no_plan(console, document["at"], missing)
        return
    console.print(_verdict(document), style="bold")
    for cause in missing:
        console.print(f"No plan for some nodes: {cause}.", style="red")
    if document["before"]["unpricedNodes"]:
        unpriced = counted(document["before"]["unpricedNodes"], "node")
        console.print(f"The prices of {unpriced} are unknown and not in these costs.")
    if "untilStable" in document:
        console.print(_end_states(document["untilStable"]), style="bold")
    if not unchanged:
        _draw_change(console, document)
    if simulated:
        console.print(f"\nSimulated {document['simulated']['for']} from {document['at']}", style="bold")
        draw_comparison(console, simulated)


def _draw_change(console: Console, document: Mapping[str, Any]) -> None:
    for setting in document["settings"]:
        for each in [one for one in setting["nodepools"] if one["before"] != one["after"]]:
            change = f"{each['path']}: {_shown(each['before'])} -> {_shown(each['after'])}"
            console.print(f"  NodePool {each['nodepool']}, {change}")
    console.print()
    console.print(_sides(document))
    for key, heading in (
        ("unblocked", "Leave only with the change"),
        ("blocked", "Stay only with the change"),
        ("otherCommand", "Leave in another way"),
        ("otherObstacle", "Stay, for another reason or until another time"),
    ):
        _draw_nodes(console, heading, document[key])
    without_effect = [setting for setting in document["settings"] if setting["effect"] != "plan"]
    if without_effect:
        console.print()
    for setting in without_effect:
        console.print(f"--set {setting['set']}: {setting['message']}.", style="yellow")
    if document["otherObstacle"] and "untilStable" not in document:
        console.print("Add --until-stable to see what happens after the next pass.", style="dim")


def _verdict(document: Mapping[str, Any]) -> str:
    before, after = document["before"], document["after"]
    if all(setting["effect"] == "none" for setting in document["settings"]):
        return "\n".join(f"Nothing changes: {setting['message']}." for setting in document["settings"])
    removed = counted(after["leaving"]["nodes"], "node")
    if document["planChanges"]:
        costs = (
            f"{dollars(after['costPerHourAfter'])} an hour after it instead of {dollars(before['costPerHourAfter'])}"
        )
        return f"The next pass removes {_instead(document)}; {costs}."
    kept = document["otherObstacle"]
    but = f", but what keeps {counted(len(kept), 'node')} does" if kept else ""
    return f"The plan at {document['at']} does not change{but}: the next pass removes {removed} in either case."


def _instead(document: Mapping[str, Any]) -> str:
    """What the changed plan removes, and what the other one does: numbers, or names where the numbers are equal."""
    before, after = (document[side]["leaving"]["nodes"] for side in ("before", "after"))
    if after != before:
        return f"{counted(after, 'node')} instead of {before}"
    now, changed = (names([each["node"] for each in document[key]]) for key in ("blocked", "unblocked"))
    return f"{changed} instead of {now}" if changed else f"the same {counted(after, 'node')} in another way"


def _end_states(ends: Mapping[str, Any]) -> str:
    before, after = (
        f"{counted(each['nodesAfter'], 'node')} for {dollars(each['costPerHourAfter'])}"
        for each in (ends["before"], ends["after"])
    )
    unstable = [each for each in (ends["before"], ends["after"]) if not each["stable"]]
    early = f" (stopped early, after {unstable[0]['stoppedBy']})" if unstable else ""
    compared = "in either case" if before == after else f"instead of {before}"
    return f"When nothing more changes: {after} an hour {compared}{early}."


def _sides(document: Mapping[str, Any]) -> Table:
    """Both plans side by side; obstacles that keep no node on either side are left out."""
    table = plain_table("", "NOW", "CHANGED")
    sides = [document["before"], document["after"]]
    table.add_row("commands", *(str(len(side["commands"])) for side in sides))
    table.add_row("nodes removed", *(_removed(side["leaving"]) for side in sides))
    table.add_row("replacements", *(str(side["leaving"]["replacements"]) for side in sides))
    table.add_row("pods evicted", *(str(side["leaving"]["podsMoved"]) for side in sides))
    table.add_row("nodes after", *(str(side["nodesAfter"]) for side in sides))
    table.add_row("$/h after", *(dollars(side["costPerHourAfter"]) for side in sides))
    table.add_row("saves a month", *(dollars(side["savingPerMonth"]) for side in sides))
    for kind in ObstacleKind:
        kept = [sum(len(each["nodes"]) for each in side["blocked"] if each["by"] == kind) for side in sides]
        if any(kept):
            table.add_row(_LABELS.get(kind, f"kept by {kind}"), *map(str, kept))
    if ends := [*document.get("untilStable", {}).values()]:
        table.add_row("stable after", *(span_text(each["takesSeconds"]) for each in ends))
        table.add_row("moves until then", *(str(len(each["moves"])) for each in ends))
        table.add_row("evictions until then", *(str(each["evictions"]) for each in ends))
        table.add_row("nodes then", *(str(each["nodesAfter"]) for each in ends))
        table.add_row("$/h then", *(dollars(each["costPerHourAfter"]) for each in ends))
    return table


def _removed(leaving: Mapping[str, Any]) -> str:
    reasons = ", ".join(f"{number} {reason}" for reason, number in leaving["byReason"].items())
    return f"{leaving['nodes']} ({reasons})" if reasons else "0"


def _draw_nodes(console: Console, heading: str, nodes: Sequence[Mapping[str, Any]]) -> None:
    if not nodes:
        return
    console.print(f"\n{heading}", style="bold")
    table = plain_lines(1, 1, 0)
    for each in nodes[:MOST_NODES]:
        table.add_row(f"  {each['node']}", "now", each["before"])
        table.add_row("", "changed", each["after"])
    console.print(table)
    if len(nodes) > MOST_NODES:
        console.print(f"  and {len(nodes) - MOST_NODES} more: -o json lists them")


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)
