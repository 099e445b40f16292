"""Costs of disrupting a node, in Karpenter's units: they order candidates and weigh disruption against savings.

An ordinary pod costs 1; pod-deletion-cost and priority change that, within -10 and 10. The disruption
cost of a node is 1 plus the costs of its reschedulable pods. `lifetime_left` scales costs, so that of two nodes with
equal pods the one that expires sooner is disrupted first.
"""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from dovetail.model.duration import Delay
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
BASE_COST = 1.0


def eviction_cost(pod: Pod) -> float:
    """1 for an ordinary pod; pod-deletion-cost and priority change it, within -10 and 10."""
    try:
        deletion = float(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        deletion = 0.0
    deletion = deletion if math.isfinite(deletion) else 0.0
    return min(10.0, max(-10.0, 1.0 + deletion / 2**27 + pod.spec.priority / 2**25))


def disruption_cost(pods: Iterable[Pod]) -> float:
    """The cost of disrupting a node with these pods; `BASE_COST` means that the node is empty."""
    return BASE_COST + sum(max(0.0, eviction_cost(pod)) for pod in pods if pod.reschedulable)


def lifetime_left(claim: NodeClaim, now: datetime, soft: Delay | None = None) -> float:
    """The share of its lifetime that a node has left: 1 if it never expires, 0 if it is due. The earlier limit counts.

    `soft` is `spec.disruption.expireAfter` of the NodePool; the claim's own `expireAfter` is the hard limit.
    """
    created_at = claim.metadata.creation_timestamp
    if created_at is None or (soft is None and claim.spec.expire_after is None):
        return 1.0
    spans = [delay.span for delay in (claim.spec.expire_after, soft) if delay is not None]
    if spans == [None]:
        return 1.0
    return min((_share_left(span, now - created_at) for span in spans if span is not None), default=1.0)


def _share_left(whole: timedelta, age: timedelta) -> float:
    return min(1.0, max(0.0, (whole - age) / whole)) if whole > timedelta() else 0.0


def total_eviction_cost(pods: Iterable[Pod]) -> float:
    """The sum of the eviction costs of all pods that have not finished, reschedulable or not."""
    return sum(eviction_cost(pod) for pod in pods if not pod.terminal)
