"""Compares, node by node, what Karpenter marks on the live objects with what Dovetail would do.

Karpenter publishes no plan. What it shows are marks: a node that it removes now, `Drifted`, and `Consolidatable`, which
only means that `consolidateAfter` has passed. So a difference here is no proof that Karpenter would act differently,
and the money is that of the nodes and of Dovetail's commands alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from dovetail.core.adoption.facts import AdoptionFacts, FirstHour, NodeMoment, ReportedEvent
from dovetail.core.adoption.findings import marked_drifted, own_drift
from dovetail.core.disruption.planner import PassPlan
from dovetail.core.explain.node import find_verdicts
from dovetail.core.verdict_wording import because_of
from dovetail.model.conditions import find
from dovetail.model.nodeclaim import CONSOLIDATABLE, DISRUPTION_REASON
from dovetail.model.snapshot import ClusterNode

DISRUPTED_TAINT = "karpenter.sh/disrupted"


class KarpenterMark(StrEnum):
    """The strongest mark of Karpenter on a node."""

    REMOVING = "being removed"
    DRIFTED = "drifted"
    CONSOLIDATABLE = "consolidatable"
    NONE = "not marked"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeComparison:
    """One node: Karpenter's mark, and Dovetail's decision with disruption on."""

    node: str
    nodepool: str
    price: float | None  # dollars an hour; None if it is unknown
    mark: KarpenterMark
    detail: str  # of the mark: a reason, or Karpenter's last event about the node
    acts: bool  # whether Dovetail removes the node in its first pass or its first hour
    dovetail: str  # what it does, or why not

    @property
    def differs(self) -> bool:
        """Whether Dovetail removes a node without a mark, or leaves a node that Karpenter marks as drifted."""
        if self.mark is KarpenterMark.DRIFTED:
            return not self.acts
        return self.acts and self.mark is KarpenterMark.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkTotal:
    """All nodes with the same mark."""

    mark: KarpenterMark
    nodes: int
    price: float
    unpriced: int
    acted_on: int
    acted_on_price: float


def compare_nodes(facts: AdoptionFacts, plan: PassPlan) -> tuple[NodeComparison, ...]:
    """Every managed node. `plan` is the first pass of Dovetail."""
    snapshot = facts.snapshot
    commands = {each.name: command for command in plan.commands for each in command.candidates}
    left = [node for node in snapshot.nodes if node.managed and node.name not in commands]
    verdicts = find_verdicts(plan, left)
    disrupted = _disrupted(facts.first_hours)
    events = {(each.kind, each.name): each for each in facts.events}
    found = []
    for node in snapshot.nodes:
        if node.claim is None:
            continue
        mark, detail = _mark(node, events)
        command, moment = commands.get(node.name), disrupted.get(node.claim.name)
        if command is not None:
            instead = f", {len(command.replacements)} launched instead" if command.replacements else ""
            what = f"{command.decision} at once: {command.reason}{instead}"
        elif moment is not None:
            what = f"removed after {moment.at / 60:.0f} min: {moment.reason}"
        else:
            what = because_of(verdicts[node.name], snapshot.at)
            drift = own_drift(node, snapshot)
            what = f"drifted ({drift}), but {what}" if drift else what
        found.append(
            NodeComparison(
                node=node.name,
                nodepool=node.nodepool_name,
                price=snapshot.price_of(node),
                mark=mark,
                detail=detail,
                acts=command is not None or moment is not None,
                dovetail=what,
            )
        )
    return tuple(found)


def totals(compared: Iterable[NodeComparison]) -> tuple[MarkTotal, ...]:
    """The nodes of each mark, in the order of the marks; marks without nodes are left out."""
    by_mark: dict[KarpenterMark, list[NodeComparison]] = {mark: [] for mark in KarpenterMark}
    for each in compared:
        by_mark[each.mark].append(each)
    return tuple(
        MarkTotal(
            mark=mark,
            nodes=len(nodes),
            price=sum(each.price or 0.0 for each in nodes),
            unpriced=sum(each.price is None for each in nodes),
            acted_on=sum(each.acts for each in nodes),
            acted_on_price=sum(each.price or 0.0 for each in nodes if each.acts),
        )
        for mark, nodes in by_mark.items()
        if nodes
    )


def _disrupted(hours: Iterable[FirstHour]) -> Mapping[str, NodeMoment]:
    """By NodeClaim: when and why it is removed in the first hour with disruption on."""
    return {
        moment.node: moment
        for hour in hours
        if hour.disruption == "on"
        for moment in reversed(hour.moments)
        if moment.what == "disrupted"
    }


def _mark(node: ClusterNode, events: Mapping[tuple[str, str], ReportedEvent]) -> tuple[KarpenterMark, str]:
    assert node.claim is not None, "only managed nodes are compared"
    reason = find(node.claim.status.conditions, DISRUPTION_REASON)
    if reason is not None and reason.status == "True":
        return KarpenterMark.REMOVING, reason.reason
    if node.deleting or (node.node is not None and node.node.deleting):
        return KarpenterMark.REMOVING, "deleted"
    if any(taint.key == DISRUPTED_TAINT for taint in node.all_taints):
        return KarpenterMark.REMOVING, "tainted"
    if drifted := marked_drifted(node):
        return KarpenterMark.DRIFTED, drifted
    event = events.get(("NodeClaim", node.claim.name)) or events.get(("Node", node.name))
    detail = f"{event.reason}: {event.message}" if event is not None else ""
    ready = find(node.claim.status.conditions, CONSOLIDATABLE)
    return (
        KarpenterMark.CONSOLIDATABLE if ready is not None and ready.status == "True" else KarpenterMark.NONE
    ), detail
