"""Metrics about disruption, with Karpenter's names and labels: passes, commands, and disrupted NodeClaims.

`count_removal` also stores why a claim was deleted in `ControllerContext.removal_reasons`, from where the ledger
controller reads it. No metric influences a decision.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from operator import attrgetter

from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption.balanced_policy import BALANCED, score
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import MethodPlan
from dovetail.model.command import CommandRecord
from dovetail.model.labels import CAPACITY_TYPE, MIN_VALUES_RELAXED
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.ports.metrics import Metrics

CONSOLIDATION_TYPES: Mapping[str, str] = {"emptiness": "empty", "multi-node": "multi", "single-node": "single"}
_SNAKE_POLICIES = {
    "WhenEmpty": "when_empty",
    "WhenEmptyOrUnderutilized": "when_empty_or_underutilized",
    BALANCED: "balanced",
}
_CONSOLIDATING = {Reason.EMPTY.lower(), Reason.UNDERUTILIZED.lower()}


def disruption_labels(claim: NodeClaim, pool: NodePool | None, reason: str) -> dict[str, str]:
    """Return the labels of `karpenter_nodeclaims_disrupted_total` and `karpenter_pods_disruption_initiated_total`."""
    reason = reason.lower()
    policy = _SNAKE_POLICIES.get(pool.consolidation_policy, "") if pool is not None else ""
    return {
        "reason": reason,
        "nodepool": claim.nodepool_name,
        "capacity_type": claim.metadata.labels.get(CAPACITY_TYPE, ""),
        "consolidation_policy": policy if reason in _CONSOLIDATING else "",
        "termination_mode": termination_mode(claim),
    }


def termination_mode(claim: NodeClaim) -> str:
    """Return how the claim's terminationGracePeriod limits its drain."""
    bound = claim.spec.termination_grace_period
    if bound is None:
        return "graceful"
    return "eventual" if bound.span > timedelta() else "forceful"


def count_created(metrics: Metrics, claim: NodeClaim, reason: str) -> None:
    """Count a created claim."""
    relaxed = claim.metadata.annotations.get(MIN_VALUES_RELAXED, "false")
    metrics.count(
        "karpenter_nodeclaims_created_total",
        reason=reason.lower(),
        nodepool=claim.nodepool_name,
        min_values_relaxed=relaxed,
    )


def count_started(metrics: Metrics, command: Command, context: PassContext) -> None:
    """Count a started command."""
    labels = _decision(command.decision, command.reason, command.method)
    metrics.count("karpenter_voluntary_disruption_decisions_total", **labels)
    pools = {each.pool.name: each.pool for each in command.candidates}
    for name, pool in sorted(pools.items()):
        metrics.count("karpenter_voluntary_disruption_decisions_by_nodepool_total", nodepool=name, **labels)
        if command.reason == Reason.UNDERUTILIZED:
            policy = _SNAKE_POLICIES.get(pool.consolidation_policy, "")
            move = {"decision": "approved", "nodepool": name, "policy": policy}
            metrics.count("karpenter_consolidation_moves_total", **move)
            if pool.consolidation_policy == BALANCED:
                metrics.observe("karpenter_consolidation_score", score(command, pool, context), **move)


def count_rejected(metrics: Metrics, command: Command, refusal: Refusal) -> None:
    """Count a command that failed validation, unless only the result of the simulation changed."""
    if refusal.code is not RefusalCode.SIMULATION_CHANGED:
        metrics.count(
            "karpenter_voluntary_disruption_failed_validations_total",
            len(command.candidates),
            consolidation_type=CONSOLIDATION_TYPES.get(command.method, ""),
        )


def count_failed(metrics: Metrics, record: CommandRecord, unready: int) -> None:
    """Count a command that was rolled back, with this number of unready replacements."""
    decision = "replace" if record.replacements else "delete"
    labels = _decision(decision, record.reason, record.method)
    metrics.count("karpenter_voluntary_disruption_queue_failures_total", unready, **labels)


def _decision(decision: str, reason: Reason, method: str) -> dict[str, str]:
    kind = CONSOLIDATION_TYPES.get(method, "")
    return {"decision": decision, "reason": reason.lower(), "consolidation_type": kind}


_CODE, _NAME = attrgetter("code"), attrgetter("object.name")


class DisruptionMetrics:
    """Gauges of the last pass, by method."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._eligible: dict[str, int] = {}
        self._refusals: dict[str, dict[str, int]] = {}
        self._unevaluated: dict[str, int] = {}
        self._managed: tuple[tuple[ClusterNode, ...], frozenset[str]] = ((), frozenset())

    def record_pass(self, plan: MethodPlan, context: PassContext, seconds: float) -> None:
        """Record the plan of one method and how long it took."""
        method = plan.method
        kind = CONSOLIDATION_TYPES.get(method.name, "")
        self._metrics.observe(
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
            seconds,
            reason=method.reason.lower(),
            consolidation_type=kind,
        )
        self._metrics.observe("karpenter_scheduler_scheduling_duration_seconds", seconds, controller="disruption")
        self._eligible[method.reason.lower()] = plan.eligible
        self._refusals[method.name] = Counter(map(_CODE, plan.refusals))
        taken = {each.name for command in plan.commands for each in command.candidates}
        seen = taken.union(map(_NAME, plan.refusals))
        self._unevaluated[method.name] = len(self._managed_of(context.snapshot) - seen)
        self._show()

    def _managed_of(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the names of the managed nodes, cached for all methods of a pass."""
        if self._managed[0] is not snapshot.nodes:
            names = frozenset([node.name for node in snapshot.nodes if node.managed])
            self._managed = snapshot.nodes, names
        return self._managed[1]

    def _show(self) -> None:
        show = self._metrics.show
        show(
            "karpenter_voluntary_disruption_eligible_nodes",
            {(reason,): float(number) for reason, number in self._eligible.items()},
        )
        show(
            "dovetail_disruption_refusals",
            {
                (method, code): float(number)
                for method, codes in self._refusals.items()
                for code, number in codes.items()
            },
        )
        show("dovetail_disruption_unevaluated_nodes", {(): float(max(self._unevaluated.values(), default=0))})


def count_removal(context: ControllerContext, claim: NodeClaim, reason: str) -> None:
    """Count a deleted claim and its pods that must be rescheduled, once per claim and reason."""
    if context.removal_reasons.get(claim.metadata.uid) == reason:
        return
    labels = disruption_labels(claim, context.state.pool(claim.nodepool_name), reason)
    context.removal_reasons[claim.metadata.uid] = reason
    context.metrics.count("karpenter_nodeclaims_disrupted_total", **labels)
    nodes = context.state.nodes_of(claim)
    pods_to_reschedule = sum(pod.reschedulable for node in nodes for pod in context.state.pods_on(node.name))
    if pods_to_reschedule:
        context.metrics.count("karpenter_pods_disruption_initiated_total", float(pods_to_reschedule), **labels)
