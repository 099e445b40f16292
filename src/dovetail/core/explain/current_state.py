"""What a node waits for whatever the plan says: its drain, its replacements, its repair, or its registration.

A draining node waits for its pods, a node in a disruption command for its replacements, an unhealthy node for its
repair, and a new node for its instance or its registration.
"""

from collections import Counter

from dovetail.core.explain.drain import DrainView, PodState, explain_drain
from dovetail.core.explain.repair import RepairView
from dovetail.core.lifecycle.registration import stage_of
from dovetail.model.command import REPLACES_ANNOTATION, read_record
from dovetail.model.instants import FIRST_INSTANT
from dovetail.model.nodeclaim import INITIALIZED
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import ClusterNode, Snapshot

NEW = {"Launching": "instance", "Registering": "node to register"}


def current_wait(
    each: ClusterNode, snapshot: Snapshot, repair: RepairView | None, replacements: Counter[str]
) -> Refusal | None:
    """What a node waits for regardless of the plan, or None. `replacements`: those of `pending_replacements`."""
    stage = stage_of(each)
    if stage == "Draining":
        return _drain(explain_drain(each, snapshot.pdbs, snapshot.at))
    if each.claim is not None and (record := read_record(each.claim)) is not None:
        code, number = RefusalCode.DISRUPTING, replacements[record.id]
        return Refusal(code, node_ref(each.name), reason=record.reason, command=record.id, count=number)
    if repair is not None:
        return _repair(each.name, repair)
    if stage in NEW:
        return Refusal(RefusalCode.COMING, node_ref(each.name), detail=NEW[stage])
    return None if each.managed else Refusal(RefusalCode.UNMANAGED, node_ref(each.name), permanent=True)


def pending_replacements(snapshot: Snapshot) -> Counter[str]:
    """The number of replacements of each command, by its id, that are not initialized yet."""
    claims = (each.claim for each in snapshot.nodes if each.claim is not None and not each.claim.has(INITIALIZED))
    return Counter(claim.metadata.annotations.get(REPLACES_ANNOTATION, "") for claim in claims)


def _drain(drain: DrainView) -> Refusal:
    """The pod that blocks the drain longest; without one, the number of pods left, or the step after the pods."""
    code, about = RefusalCode.DRAINING, node_ref(drain.node.name)
    blocking = [each for each in drain.waiting if each.state in (PodState.PROTECTED, PodState.BLOCKED)]
    blocking.sort(key=lambda each: each.until or FIRST_INSTANT, reverse=True)
    worst = next(iter([*drain.stuck, *blocking]), None)
    if worst is None:
        return Refusal(code, about, drain.deadline, count=len(drain.waiting), detail=drain.step)
    pod, state = worst.pod.key, str(worst.state)
    return Refusal(code, about, worst.until, worst.permanent, pod=pod, setting=state, cause=worst.refusal)


def _repair(node: str, repair: RepairView) -> Refusal:
    condition = repair.unhealthy_conditions[0].condition
    unhealthy, off = f"{condition.type} is {condition.status}", repair.off
    until = None if repair.breaker.open else repair.due_at
    return Refusal(RefusalCode.UNHEALTHY, node_ref(node), until, permanent=bool(off), setting=unhealthy, detail=off)
