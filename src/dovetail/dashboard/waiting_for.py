"""What every node waits for, in one line: its drain, its repair, or what the plan has against it. Decides nothing.

A node on its way out waits for its pods, whatever a plan says of it; one that a command has marked for its
replacements; an unhealthy one for its repair; a new one for its instance, or to register.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dovetail.core.explain.drain import DrainView, PodState, explain_drain
from dovetail.core.explain.repair import RepairView, explain_repair
from dovetail.core.lifecycle.node_stage import stage_of
from dovetail.core.lifecycle.repair import RepairTerms
from dovetail.dashboard.node_summary import Plain, stamp
from dovetail.model.command import REPLACES_ANNOTATION, CommandRecord, read_record
from dovetail.model.instants import FIRST_INSTANT
from dovetail.model.nodeclaim import INITIALIZED
from dovetail.model.snapshot import Snapshot

NEW = {"Launching": "waits for its instance", "Registering": "waits for its node to register"}
UNMANAGED: Plain = {
    "because": "no NodeClaim belongs to it: somebody else's node",
    "code": "Unmanaged",
    "until": None,
    "permanent": True,
}


def waits_in(plan: Mapping[str, Any], snapshot: Snapshot, terms: RepairTerms) -> dict[str, Plain]:
    """What each node waits for, by name."""
    waits, coming = said_in(plan), _coming(snapshot)
    for each in snapshot.nodes:
        stage = stage_of(each)
        if stage == "Draining":
            waits[each.name] = _drain(explain_drain(each, snapshot.pdbs, snapshot.at))
        elif each.claim is not None and (record := read_record(each.claim)) is not None:
            waits[each.name] = _marked(record, coming[record.id])
        elif (ailing := explain_repair(each, snapshot, terms)) is not None:
            waits[each.name] = _repair(ailing)
        elif stage in NEW:
            waits[each.name] = {"because": NEW[stage], "code": "Coming", "until": None, "permanent": False}
        elif not each.managed:
            waits.setdefault(each.name, UNMANAGED)
    return waits


def _coming(snapshot: Snapshot) -> Counter[str]:
    """How many replacements of each command are not ready."""
    claims = (each.claim for each in snapshot.nodes if each.claim is not None and not each.claim.has(INITIALIZED))
    return Counter(claim.metadata.annotations.get(REPLACES_ANNOTATION, "") for claim in claims)


def _marked(record: CommandRecord, coming: int) -> Plain:
    """A node that goes as soon as whatever replaces it is there."""
    number = f"{coming} replacement{'s' * (coming != 1)}"
    waits = f"waits for {number} to be ready" if coming else "is about to go"
    because = f"{record.reason}: {waits} (command {record.id})"
    return {"because": because, "code": "Disrupting", "until": None, "permanent": False}


def said_in(plan: Mapping[str, Any]) -> dict[str, Plain]:
    """What a plan says of each node: that it goes, or what stands in the way."""
    said: dict[str, Plain] = {}
    for left in plan["leftAlone"]:
        codes = [each["code"] for each in left["why"].values() if each["message"] == left["because"]]
        said[left["node"]] = {
            "because": left["because"],
            "code": codes[0] if codes else "",
            "until": left["until"],
            "permanent": left["permanent"],
        }
    for command in plan["commands"]:
        verb = "replaced" if command["replacements"] else "deleted"
        for name in command["nodes"]:
            said[name] = {"because": f"{command['reason']}: would be {verb} in the next pass", "code": "Next"}
    return said


def _drain(told: DrainView) -> Plain:
    """The pod that holds it up most; else how many have to go; else what comes after the pods."""
    held = [each for each in told.waiting if each.state in (PodState.PROTECTED, PodState.BLOCKED)]
    held.sort(key=lambda each: each.until or FIRST_INSTANT, reverse=True)
    worst = next(iter([*told.stuck, *held]), None)
    if worst is not None:
        stuck = "drain is stuck" if worst.permanent else "drain waits"
        because = f"{stuck}: {worst.pod.key} {worst.state}: {worst.why}"
        return {"because": because, "code": "Draining", "until": stamp(worst.until), "permanent": worst.permanent}
    number = len(told.waiting)
    left = f"{number} pod{'s' * (number != 1)} to go" if number else told.step or "every pod is gone"
    return {"because": f"draining: {left}", "code": "Draining", "until": stamp(told.deadline), "permanent": False}


def _repair(told: RepairView) -> Plain:
    condition = told.unhealthy_conditions[0].condition
    ails = f"{condition.type} is {condition.status}"
    if told.off:
        return {"because": f"{ails}, not repaired: {told.off}", "code": "Unhealthy", "until": None, "permanent": True}
    if told.breaker.open:
        waits = f"{ails}, repair waits: too many nodes of its pool are unhealthy"
        return {"because": waits, "code": "Unhealthy", "until": None, "permanent": False}
    return {
        "because": f"{ails}: repaired unless it recovers",
        "code": "Unhealthy",
        "until": stamp(told.due_at),
        "permanent": False,
    }
