"""Which pods stand between a node and its end, and what keeps new ones away.

Finished pods, static pods and pods that tolerate the disruption taint are left alone. Pods protected by an annotation
are waited for, not evicted.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dovetail.core.lifecycle.patches import missing, wire
from dovetail.model.labels import EXCLUDE_FROM_LOAD_BALANCERS
from dovetail.model.node import Node
from dovetail.model.pod import Pod
from dovetail.model.protection import protection
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import DISRUPTED_TAINT, DISRUPTION_TAINT, tolerates

STUCK_AFTER = timedelta(minutes=1)
DISRUPTION_TAINTS = (DISRUPTED_TAINT, DISRUPTION_TAINT)


@dataclass(frozen=True, slots=True)
class Drain:
    """Pods to evict now, and pods that are only waited for."""

    evict: tuple[Pod, ...]
    waiting: tuple[Pod, ...]

    @property
    def done(self) -> bool:
        """Nothing is left that has to go."""
        return not self.evict and not self.waiting


def plan_drain(node: ClusterNode, now: datetime) -> Drain:
    """What is left to do before the node may go."""
    staying = [pod for pod in node.pods if not pod.terminal and _drainable(pod, now)]
    evict = tuple(pod for pod in staying if not pod.deleting and not protection(pod, now).active)
    return Drain(evict, tuple(pod for pod in staying if pod not in evict))


def _drainable(pod: Pod, now: datetime) -> bool:
    deleted_at = pod.metadata.deletion_timestamp
    stuck = deleted_at is not None and now - deleted_at > STUCK_AFTER
    tolerant = any(tolerates(pod.spec.tolerations, taint) for taint in DISRUPTION_TAINTS)
    return not stuck and not tolerant and not pod.mirror


def taints_patch(node: Node) -> dict[str, Any]:
    """The disruption taint in both spellings; empty when they are there."""
    missing_ones = [taint for taint in DISRUPTION_TAINTS if not any(taint.matches(other) for other in node.spec.taints)]
    if not missing_ones:
        return {}
    return {"spec": {"taints": [wire(taint) for taint in (*node.spec.taints, *missing_ones)]}}


def drain_patch(node: Node) -> dict[str, Any]:
    """Taints in both spellings and the load balancer label; empty when all of it is there."""
    patch = taints_patch(node)
    labels = missing({EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}, node.metadata.labels)
    if labels:
        patch["metadata"] = {"labels": labels}
    return patch
