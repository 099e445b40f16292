"""Repair policies of unhealthy nodes: which conditions count, how long they are tolerated, and the circuit breaker.

A pool without `spec.repair` repairs nothing. The toleration of a condition comes from the first policy of the pool that
names it, then from `defaultTolerationDuration`, then from the provider. The provider is kwok; its policies are copied
from the documentation, not imported. Repair stops while more than 20 % of the nodes of a pool are unhealthy.
"""

from datetime import timedelta

from dovetail.sim.torture.invariants.objects import ClaimView, NodeView
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.invariants.readers import NEVER, Plain, duration, parse_time

_TOLERATED_10_MINUTES = (
    "NetworkUnavailable",
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "CorruptDockerOverlay2",
    "KubeletUnhealthy",
    "ContainerRuntimeUnhealthy",
)
_TOLERATED_30_MINUTES = (
    "DiskPressure",
    "MemoryPressure",
    "FrequentKubeletRestart",
    "FrequentDockerRestart",
    "FrequentContainerdRestart",
    "FrequentUnregisterNetDevice",
)
PROVIDER_POLICIES: dict[tuple[str, str], float] = {
    ("Ready", "False"): 600.0,
    ("Ready", "Unknown"): 600.0,
    **{(name, "True"): 600.0 for name in _TOLERATED_10_MINUTES},
    **{(name, "True"): 1800.0 for name in _TOLERATED_30_MINUTES},
}
"""Seconds for which a condition with a status is tolerated, unless the pool sets a toleration."""
MAX_UNHEALTHY_PERCENT = 20  # of the nodes of a pool, rounded up


def toleration(pool: Plain, condition: str, status: str) -> float:
    """Seconds for which a pool tolerates a condition; infinite if the condition is not repaired."""
    repair, default_seconds = pool["spec"].get("repair"), PROVIDER_POLICIES.get((condition, status))
    if repair is None or default_seconds is None:
        return NEVER
    named = [each for each in repair.get("policies") or () if each["conditionType"] == condition]
    if named:
        return duration(named[0]["toleration"])
    default = repair.get("defaultTolerationDuration")
    return duration(default) if default is not None else default_seconds


def is_unhealthy(node: NodeView) -> bool:
    """Whether the node has a condition that repair acts on, tolerated or not."""
    return any((kind, condition["status"]) in PROVIDER_POLICIES for kind, condition in node.conditions.items())


def repair_is_due(claim: ClaimView, observer: Observer) -> bool:
    """Whether the node is unhealthy beyond the toleration of any version of its pool, by any clock reading."""
    node = observer.node_of(claim)
    pools = observer.versions(claim.pool, observer.now - observer.max_staleness)
    if node is None or not pools:
        return False
    for kind, condition in node.value.conditions.items():
        seconds = min(toleration(pool, kind, condition["status"]) for pool in pools)
        if seconds != NEVER:
            due_at = parse_time(condition["lastTransitionTime"]) + timedelta(seconds=seconds - 1)
            if any(now >= due_at for now in observer.clock_readings()):
                return True
    return False


def max_unhealthy(nodes: int) -> int:
    """How many of the nodes of a pool may be unhealthy without stopping repair."""
    return -(-nodes * MAX_UNHEALTHY_PERCENT // 100)
