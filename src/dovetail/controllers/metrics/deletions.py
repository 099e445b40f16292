"""What is counted when a claim is let go without a command, and noted for the ledger."""

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.metrics.disruption import disruption_labels
from dovetail.model.nodeclaim import NodeClaim


def count_removal(context: ControllerContext, claim: NodeClaim, reason: str) -> None:
    """A claim was deleted for a reason; the pods that have to move with it are counted too. Asked again, it is not."""
    if context.endings.get(claim.metadata.uid) == reason:
        return
    labels = disruption_labels(claim, context.state.pool(claim.nodepool_name), reason)
    context.endings[claim.metadata.uid] = reason
    context.metrics.count("karpenter_nodeclaims_disrupted_total", **labels)
    nodes = context.state.nodes_of(claim)
    pods_to_reschedule = sum(pod.reschedulable for node in nodes for pod in context.state.pods_on(node.name))
    if pods_to_reschedule:
        context.metrics.count("karpenter_pods_disruption_initiated_total", float(pods_to_reschedule), **labels)
