"""Summarizes a plan: nodes and cost now, what leaves in the next pass, the cost after it, and what blocks the rest.

Every node that stays is counted once, under the first obstacle of its verdict. Refusals are grouped by what would have
to change: a PodDisruptionBudget, the protection of pods, a disruption budget, a delay, or another obstacle. One method
acts in a pass, so a node that another method would take is not blocked: it waits for a later pass.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from msgspec import structs

from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.planner import PassPlan
from dovetail.core.explain.node import find_verdicts
from dovetail.core.explain.shared_causes import find_drifted
from dovetail.core.wording import message
from dovetail.model.kube_object import Key
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode, node_ref
from dovetail.model.snapshot import Snapshot
from dovetail.model.verdict import DriftedNodes, NodeVerdict, ObstacleGroup, Outcome


class ObstacleKind(StrEnum):
    """What keeps a node, as a user would change it."""

    PDB = "PodDisruptionBudget"
    POD = "pod protection"
    BUDGET = "disruption budget"
    DELAY = "delay"
    LATER = "later pass"
    OTHER = "other"


_KINDS = {
    RefusalCode.POD_DISRUPTION_BUDGET: ObstacleKind.PDB,
    RefusalCode.DRAIN_WOULD_STALL: ObstacleKind.PDB,
    RefusalCode.DO_NOT_DISRUPT_POD: ObstacleKind.POD,
    RefusalCode.BUDGET: ObstacleKind.BUDGET,
    RefusalCode.BUDGET_UNREADABLE: ObstacleKind.BUDGET,
    RefusalCode.WAITING: ObstacleKind.DELAY,
    RefusalCode.COOLING_DOWN: ObstacleKind.DELAY,
    RefusalCode.BACKING_OFF: ObstacleKind.DELAY,
    RefusalCode.LAUNCH_BACKOFF: ObstacleKind.DELAY,
    RefusalCode.ANOTHER_FIRST: ObstacleKind.LATER,
    RefusalCode.NEXT_PASS: ObstacleKind.LATER,
    RefusalCode.NOT_THE_BEST: ObstacleKind.LATER,
}
_REASONS = {method.name: method.reason for method in METHODS}
_DELAYS = {
    Reason.UNDERUTILIZED: "consolidateAfter",
    Reason.EMPTY: "consolidateAfter",
    Reason.DRIFTED: "disruptAfter of Drift",
    Reason.EXPIRED: "expireAfter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedNodes:
    """The nodes that one obstacle keeps."""

    kind: ObstacleKind
    what: (
        str  # the PodDisruptionBudget, the annotation, the budget and its NodePool, the field, or the refusal in words
    )
    nodes: tuple[str, ...]
    pods: tuple[str, ...]  # the pods that the obstacle is about
    first_until: datetime | None  # when it ends for the first of these nodes, if that is known
    last_until: datetime | None  # when it ends for the last of them; None if it does not end by itself for some
    permanent: bool  # for all of them
    leave_at: datetime | None = None  # when the first can leave, if that is not then: another obstacle, or expiration


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """The figures of a plan. Costs are dollars an hour, without nodes of unknown price."""

    at: datetime
    nodes: int
    unpriced: int
    cost: float
    leaving_by_reason: Mapping[str, int]
    replacements: int
    pods_moved: int
    saving: float
    unpriced_leaving: int  # nodes that leave and whose price is not known, and not in the saving
    blocked: tuple[BlockedNodes, ...]
    drifted: tuple[DriftedNodes, ...]

    @property
    def leaving(self) -> int:
        """The number of nodes that leave in the next pass."""
        return sum(self.leaving_by_reason.values())


def summarize(plan: PassPlan, snapshot: Snapshot, nodepools: Collection[str] = ()) -> PlanSummary:
    """Summarize a thorough plan, for all NodePools or for these."""
    nodes = [each for each in snapshot.nodes if each.managed and (not nodepools or each.nodepool_name in nodepools)]
    names = {each.name for each in nodes}
    commands = [each for each in plan.commands if any(one.name in names for one in each.candidates)]
    reasons = Counter(str(each.reason) for each in commands for one in each.candidates if one.name in names)
    taken = {one.name for each in commands for one in each.candidates}
    prices = [snapshot.price_of(each) for each in nodes]
    return PlanSummary(
        at=plan.at,
        nodes=len(nodes),
        unpriced=sum(price is None for price in prices),
        cost=sum(price or 0.0 for price in prices),
        leaving_by_reason=dict(sorted(reasons.items())),
        replacements=sum(len(each.replacements) for each in commands),
        pods_moved=sum(each.pods for each in commands),
        saving=sum(each.saving for each in commands),
        unpriced_leaving=sum(each.unpriced for each in commands),
        blocked=tuple(_blocked(plan, names - taken)),
        drifted=find_drifted(nodes, snapshot),
    )


def _blocked(plan: PassPlan, staying: Collection[str]) -> Iterator[BlockedNodes]:
    """The nodes by what keeps them, with the time the first can leave if that is another one."""
    verdicts = _verdicts(plan, staying)
    for each in group_obstacles(_obstacles(plan, verdicts)):
        leave_at = min((at for name in each.nodes if (at := verdicts[name].at) is not None), default=None)
        differs = leave_at is not None and each.first_until is not None and leave_at != each.first_until
        yield replace(each, leave_at=leave_at if differs else None)


def _verdicts(plan: PassPlan, staying: Collection[str]) -> dict[str, NodeVerdict]:
    assert plan.context is not None, "plan_pass records its context"
    return find_verdicts(plan, [each for each in plan.context.snapshot.nodes if each.name in staying])


def _obstacles(plan: PassPlan, verdicts: Mapping[str, NodeVerdict]) -> dict[str, ObstacleGroup]:
    later = {one.name: each for all_ in plan.commands_by_method.values() for each in all_ for one in each.candidates}
    return {
        name: _later_pass(name, later[name].reason) if name in later else _first_obstacle(name, verdicts[name])
        for name in sorted(verdicts)
    }


def _first_obstacle(name: str, verdict: NodeVerdict) -> ObstacleGroup:
    """The first obstacle of the verdict on a node; a budget only if nothing else keeps the node."""
    if not verdict.obstacles:
        return _later_pass(name, verdict.reason)
    first = min(verdict.obstacles, key=lambda each: each.refusal.code is RefusalCode.BUDGET)
    refusal = first.refusal
    if refusal.code is RefusalCode.NEVER and verdict.outcome is Outcome.LEAVING:
        leaving = structs.replace(refusal, until=None, detail=f"already leaving: expired after {refusal.setting}")
        return structs.replace(first, refusal=leaving)
    stopped = next((_REASONS[each] for each in first.methods if each in _REASONS), verdict.reason)
    refusal = structs.replace(refusal, reason=refusal.reason or stopped, permanent=verdict.permanent)
    return structs.replace(first, refusal=refusal)


def _later_pass(name: str, reason: Reason | None) -> ObstacleGroup:
    return ObstacleGroup(Refusal(RefusalCode.ANOTHER_FIRST, node_ref(name), reason=reason))


def group_obstacles(staying: Mapping[str, ObstacleGroup]) -> Iterator[BlockedNodes]:
    """Group nodes by what keeps them: in the order of `ObstacleKind`, the obstacle with most nodes first."""
    grouped: dict[tuple[ObstacleKind, str], list[tuple[str, Refusal]]] = {}
    pods: dict[str, tuple[Key, ...]] = {}
    for name, group in staying.items():
        refusal, pods[name] = group.refusal, group.pods
        kind = _KINDS.get(refusal.code, ObstacleKind.OTHER)
        key = f"{refusal.code} {refusal.nodepool}" if kind is ObstacleKind.OTHER else _what(refusal)
        grouped.setdefault((kind, key), []).append((name, refusal))
    order = list(ObstacleKind)
    for (kind, _), members in sorted(grouped.items(), key=lambda entry: (order.index(entry[0][0]), -len(entry[1]))):
        ends = [refusal.until for _, refusal in members]
        known = [end for end in ends if end is not None]
        texts = list(dict.fromkeys(_what(refusal) for _, refusal in members))
        yield BlockedNodes(
            kind=kind,
            what=texts[0] if len(texts) == 1 else f"{texts[0]}, and similar",
            nodes=tuple(name for name, _ in members),
            pods=tuple(dict.fromkeys(str(pod) for name, _ in members for pod in pods[name])),
            first_until=min(known, default=None),
            last_until=max(known) if len(known) == len(ends) else None,
            permanent=all(refusal.permanent for _, refusal in members),
        )


def _what(refusal: Refusal) -> str:
    """What keeps the node, without the node itself: nodes with the same text are one group."""
    kind = _KINDS.get(refusal.code, ObstacleKind.OTHER)
    if kind is ObstacleKind.PDB:
        return " ".join(map(str, refusal.pdbs))
    if kind is ObstacleKind.POD:
        return DO_NOT_DISRUPT
    if kind is ObstacleKind.LATER:
        reason = Reason.UNDERUTILIZED if refusal.code is RefusalCode.NOT_THE_BEST else refusal.reason
        return f"for {reason}" if reason is not None else message(refusal)
    if refusal.budget is not None:
        allows = f"allows {refusal.budget.limit} for {refusal.reason}"
        return f"{refusal.budget.nodes!r} of NodePool {refusal.nodepool} {allows}"
    if refusal.code is RefusalCode.BUDGET_UNREADABLE:
        return f"of NodePool {refusal.nodepool}, which cannot be understood: {refusal.detail}"
    if refusal.code is RefusalCode.COOLING_DOWN:
        return f"minSavings of NodePool {refusal.nodepool}"
    if refusal.code is RefusalCode.WAITING and refusal.reason is not None:
        return refusal.setting or _DELAYS[refusal.reason]
    return refusal.detail if refusal.code is RefusalCode.NEVER and refusal.detail else message(refusal)
