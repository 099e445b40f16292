"""What every node waits for, in one line: its drain, its repair, or what the plan has against it. Decides nothing.

A node on its way out waits for its pods, whatever a plan says of it; one that a command has marked for its
replacements; an unhealthy one for its repair; a new one for its instance, or to register.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dovetail.core.explain.drain import DrainView, PodState, explain_drain
from dovetail.core.explain.node import RepairView, explain_repair
from dovetail.core.lifecycle.registration import stage_of
from dovetail.core.lifecycle.repair import RepairTerms
from dovetail.core.wording import message
from dovetail.dashboard.nodes import Plain, stamp
from dovetail.model.command import REPLACES_ANNOTATION, read_record
from dovetail.model.instants import FIRST_INSTANT
from dovetail.model.nodeclaim import INITIALIZED
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode, Snapshot

NEW = {"Launching": "instance", "Registering": "node to register"}


def waits_in(plan: Mapping[str, Any], snapshot: Snapshot, terms: RepairTerms) -> dict[str, Plain]:
    """What each node waits for, by name."""
    waits, coming = said_in(plan), _coming(snapshot)
    for each in snapshot.nodes:
        refusal = _own_wait(each, snapshot, terms, coming)
        if refusal is not None:
            waits[each.name] = _plain(refusal)
    return waits


def _own_wait(each: ClusterNode, snapshot: Snapshot, terms: RepairTerms, coming: Counter[str]) -> Refusal | None:
    """What a node waits for whatever a plan says of it."""
    stage = stage_of(each)
    if stage == "Draining":
        return _drain(explain_drain(each, snapshot.pdbs, snapshot.at))
    if each.claim is not None and (record := read_record(each.claim)) is not None:
        code, number = RefusalCode.DISRUPTING, coming[record.id]
        return Refusal(code, node_ref(each.name), reason=record.reason, command=record.id, count=number)
    if (ailing := explain_repair(each, snapshot, terms)) is not None:
        return _repair(each.name, ailing)
    if stage in NEW:
        return Refusal(RefusalCode.COMING, node_ref(each.name), detail=NEW[stage])
    return None if each.managed else Refusal(RefusalCode.UNMANAGED, node_ref(each.name), permanent=True)


def _coming(snapshot: Snapshot) -> Counter[str]:
    """How many replacements of each command are not ready."""
    claims = (each.claim for each in snapshot.nodes if each.claim is not None and not each.claim.has(INITIALIZED))
    return Counter(claim.metadata.annotations.get(REPLACES_ANNOTATION, "") for claim in claims)


def said_in(plan: Mapping[str, Any]) -> dict[str, Plain]:
    """What a plan says of each node: that it goes, or what stands in the way."""
    shown = ("because", "code", "until", "permanent")
    said: dict[str, Plain] = {left["node"]: {key: left[key] for key in shown} for left in plan["leftAlone"]}
    for command in plan["commands"]:
        verb = "replaced" if command["replacements"] else "deleted"
        for name in command["nodes"]:
            said[name] = {"because": f"{command['reason']}: would be {verb} in the next pass", "code": "Next"}
    return said


def _plain(refusal: Refusal) -> Plain:
    return {
        "because": message(refusal),
        "code": str(refusal.code),
        "until": stamp(refusal.until),
        "permanent": refusal.permanent,
    }


def _drain(told: DrainView) -> Refusal:
    """The pod that holds it up most; else how many have to go; else what comes after the pods."""
    code, about = RefusalCode.DRAINING, node_ref(told.node.name)
    held = [each for each in told.waiting if each.state in (PodState.PROTECTED, PodState.BLOCKED)]
    held.sort(key=lambda each: each.until or FIRST_INSTANT, reverse=True)
    worst = next(iter([*told.stuck, *held]), None)
    if worst is None:
        return Refusal(code, about, told.deadline, count=len(told.waiting), detail=told.step)
    pod, state = worst.pod.key, str(worst.state)
    return Refusal(code, about, worst.until, worst.permanent, pod=pod, setting=state, cause=worst.refusal)


def _repair(node: str, told: RepairView) -> Refusal:
    condition = told.unhealthy_conditions[0].condition
    ails, off = f"{condition.type} is {condition.status}", told.off
    until = None if told.breaker.open else told.due_at
    return Refusal(RefusalCode.UNHEALTHY, node_ref(node), until, permanent=bool(off), setting=ails, detail=off)
