"""What it costs a workload to lose a node, and in which order nodes are considered.

Least disruption first: fewer pods, soon to expire, lower priority. Ties by name, so every decision is reproducible.
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
    """One for an ordinary pod; its deletion cost and priority move it, within -10 and 10."""
    try:
        deletion = float(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        deletion = 0.0
    deletion = deletion if math.isfinite(deletion) else 0.0
    return min(10.0, max(-10.0, 1.0 + deletion / 2**27 + pod.spec.priority / 2**25))


def disruption_cost(pods: Iterable[Pod]) -> float:
    """What moving these pods costs, the node itself included. One means nothing worth keeping runs there."""
    return BASE_COST + sum(max(0.0, eviction_cost(pod)) for pod in pods if pod.reschedulable)


def is_empty(pods: Iterable[Pod]) -> bool:
    """Whether no pod is worth rescheduling."""
    return disruption_cost(pods) <= BASE_COST


def lifetime_left(claim: NodeClaim, now: datetime, soft: Delay | None = None) -> float:
    """The share of its life a node still has: 1 when it never expires, 0 when it is due. The nearer end counts."""
    created_at = claim.metadata.creation_timestamp
    if created_at is None or (soft is None and claim.spec.expire_after is None):
        return 1.0
    spans = [delay.span for delay in (claim.spec.expire_after, soft) if delay is not None]
    if spans == [None]:
        return 1.0
    return min((_share_left(span, now - created_at) for span in spans if span is not None), default=1.0)


def _share_left(whole: timedelta, age: timedelta) -> float:
    return min(1.0, max(0.0, (whole - age) / whole)) if whole > timedelta() else 0.0


def burden(pods: Iterable[Pod]) -> float:
    """What losing these pods at once would cost together."""
    return sum(eviction_cost(pod) for pod in pods if not pod.terminal)


def weight(pods: Iterable[Pod], claim: NodeClaim, now: datetime) -> float:
    """How much disrupting a node hurts: eviction costs, less so the nearer its end is."""
    return burden(pods) * lifetime_left(claim, now)
