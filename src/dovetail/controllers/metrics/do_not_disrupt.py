"""Gauges about temporary protection: pods with do-not-disrupt, and nodes within their consolidationGracePeriod."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime

from dovetail.core.disruption.delays import grace_wait, has_grace
from dovetail.model.do_not_disrupt import protection
from dovetail.model.labels import DO_NOT_DISRUPT
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot

Rows = dict[tuple[str, ...], float]


def grace_period_metrics(snapshot: Snapshot) -> dict[str, Rows]:
    """Return the rows of each gauge, by metric name."""
    pods: Counter[tuple[str, ...]] = Counter()
    remaining: defaultdict[tuple[str, ...], float] = defaultdict(float)
    in_grace_period: Rows = {}
    for name, nodes in snapshot.nodes_by_pool.items():
        for pod in _annotated(nodes):
            kind, seconds = _protection_kind(pod, snapshot.at)
            pods[name, kind] += 1
            if kind == "grace_period":
                remaining[name,] = max(remaining[name,], seconds)
        pool = snapshot.nodepools.get(name)
        if pool is not None and has_grace(pool):
            waits = (grace_wait(pool, node.claim, snapshot.at) for node in nodes if node.claim is not None)
            in_grace_period[name,] = float(sum(not wait.over for wait in waits))
    return {
        "dovetail_pods_do_not_disrupt": {row: float(number) for row, number in pods.items()},
        "dovetail_pods_do_not_disrupt_remaining_seconds": dict(remaining),
        "dovetail_nodepools_nodes_in_consolidation_grace_period": in_grace_period,
    }


def _annotated(nodes: Iterable[ClusterNode]) -> Iterable[Pod]:
    return (
        pod
        for node in nodes
        for pod in node.pods
        if pod.active and pod.metadata.annotations.get(DO_NOT_DISRUPT, "false") != "false"
    )


def _protection_kind(pod: Pod, now: datetime) -> tuple[str, float]:
    """Return how a pod is protected, and for how many more seconds if that is limited."""
    found = protection(pod, now)
    if found.fault:
        return "invalid", 0.0
    if not found.active:
        return "elapsed", 0.0
    if found.until is None:
        return "permanent", 0.0
    return "grace_period", (found.until - now).total_seconds()
