"""The figures of every removal that is not a command of the disruption engine, counted alike."""

from dovetail.controllers.context import Context
from dovetail.model.labels import CAPACITY_TYPE
from dovetail.model.nodeclaim import NodeClaim


def count_removal(context: Context, claim: NodeClaim, reason: str) -> None:
    """A claim was deleted for a reason; the pods that have to move with it are counted too."""
    pool = context.state.pool(claim.nodepool_name)
    labels = {
        "reason": reason,
        "nodepool": claim.nodepool_name,
        "capacity_type": claim.metadata.labels.get(CAPACITY_TYPE, ""),
        "consolidation_policy": pool.consolidation_policy if pool is not None else "",
        "termination_mode": _mode(claim),
    }
    context.metrics.count("karpenter_nodeclaims_disrupted_total", **labels)
    nodes = context.state.nodes_of(claim)
    moving = sum(pod.reschedulable for node in nodes for pod in context.state.pods_on(node.name))
    if moving:
        context.metrics.count("karpenter_pods_disruption_initiated_total", float(moving), **labels)


def _mode(claim: NodeClaim) -> str:
    """How the drain ends: when it is done, at once, or at the latest when its grace is over."""
    grace = claim.spec.termination_grace_period
    if grace is None:
        return "graceful"
    return "eventual" if grace.span.total_seconds() > 0 else "forceful"
