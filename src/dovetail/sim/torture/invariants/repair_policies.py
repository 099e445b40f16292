"""On which terms an unhealthy node is repaired: what counts, how long it is tolerated, and how many may be unhealthy.

A pool without `spec.repair` repairs nothing. The toleration of a condition is that of the first policy that names it,
then `defaultTolerationDuration`, then the provider's. The provider here is kwok; its terms are written down once more,
from the documentation.
"""

from datetime import timedelta

from dovetail.sim.torture.invariants.objects import ClaimView, NodeView
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.invariants.readers import NEVER, Plain, duration, instant

_SOON = ("NetworkUnavailable", "KernelDeadlock", "ReadonlyFilesystem", "CorruptDockerOverlay2", "KubeletUnhealthy")
_LATER = ("DiskPressure", "MemoryPressure", "FrequentKubeletRestart", "FrequentDockerRestart")
PROVIDER_TERMS: dict[tuple[str, str], float] = {
    ("Ready", "False"): 600.0,
    ("Ready", "Unknown"): 600.0,
    **{(name, "True"): 600.0 for name in (*_SOON, "ContainerRuntimeUnhealthy")},
    **{(name, "True"): 1800.0 for name in (*_LATER, "FrequentContainerdRestart", "FrequentUnregisterNetDevice")},
}
"""Condition and status, and the seconds for which they are tolerated unless the pool says otherwise."""
MOST_UNHEALTHY = 20  # percent of a pool's nodes, rounded up


def toleration(pool: Plain, condition: str, status: str) -> float:
    """Seconds for which a pool tolerates a condition; infinite if it is not repaired for it."""
    terms, provided = pool["spec"].get("repair"), PROVIDER_TERMS.get((condition, status))
    if terms is None or provided is None:
        return NEVER
    named = [each for each in terms.get("policies") or () if each["conditionType"] == condition]
    if named:
        return duration(named[0]["toleration"])
    default = terms.get("defaultTolerationDuration")
    return duration(default) if default is not None else provided


def is_unhealthy(node: NodeView) -> bool:
    """Whether a condition of the node is one that repair acts on, tolerated or not."""
    return any((kind, said["status"]) in PROVIDER_TERMS for kind, said in node.conditions.items())


def is_due(claim: ClaimView, history: Observer) -> bool:
    """Whether a condition of the claim's node has been bad for longer than its pool tolerates, by any reading."""
    node = history.node_of(claim)
    pools = history.versions(claim.pool, history.now - history.stale)
    if node is None or not pools:
        return False
    for kind, said in node.value.conditions.items():
        seconds = min(toleration(pool, kind, said["status"]) for pool in pools)
        if seconds != NEVER:
            due_at = instant(said["lastTransitionTime"]) + timedelta(seconds=seconds - 1)
            if any(now >= due_at for now in history.instants()):
                return True
    return False


def most_unhealthy(nodes: int) -> int:
    """How many of a pool's nodes may be unhealthy for repair to go on."""
    return -(-nodes * MOST_UNHEALTHY // 100)
