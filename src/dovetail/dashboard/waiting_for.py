"""What each node waits for, in one line: its drain, its replacements, its repair, its registration, or the plan.

All nodes that the plan does not take show the soonest way they can leave, as `dovetail plan` prints it.
"""

from collections.abc import Mapping
from typing import Any

from dovetail.core.explain.current_state import current_wait, pending_replacements
from dovetail.core.explain.repair import explain_repair
from dovetail.core.lifecycle.repair import RepairTerms
from dovetail.core.wording import message
from dovetail.dashboard.nodes import Plain, stamp
from dovetail.model.refusal import Refusal
from dovetail.model.snapshot import Snapshot


def waits_in(plan: Mapping[str, Any], snapshot: Snapshot, terms: RepairTerms) -> dict[str, Plain]:
    """What each node waits for, by name."""
    waits, replacements = reasons_in_plan(plan), pending_replacements(snapshot)
    for each in snapshot.nodes:
        refusal = current_wait(each, snapshot, explain_repair(each, snapshot, terms), replacements)
        if refusal is not None:
            waits[each.name] = _plain(refusal)
    return waits


def reasons_in_plan(plan: Mapping[str, Any]) -> dict[str, Plain]:
    """What a plan says about each node: that it would be disrupted, or the reason why not."""
    shown = ("because", "code", "until", "permanent", "by")
    waits: dict[str, Plain] = {left["node"]: {key: left[key] for key in shown} for left in plan["leftAlone"]}
    for command in plan["commands"]:
        verb = "replaced" if command["replacements"] else "deleted"
        for name in command["nodes"]:
            waits[name] = {"because": f"{command['reason']}: would be {verb} in the next pass", "code": "Next"}
    return waits


def _plain(refusal: Refusal) -> Plain:
    return {
        "because": message(refusal),
        "code": str(refusal.code),
        "until": stamp(refusal.until),
        "permanent": refusal.permanent,
    }
