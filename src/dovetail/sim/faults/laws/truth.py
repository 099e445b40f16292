"""Small readers of API objects for laws that must not share code with what they judge.

They read the plain objects of the API server, and say what is true now. Where a rule leaves room, they take the reading
under which less is forbidden, so that a law built on them has no false alarms.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from dovetail.model.duration import Duration
from dovetail.model.nodepool import NodePool
from dovetail.sim.faults.since import DO_NOT_DISRUPT
from dovetail.sim.store import Record

Plain = dict[str, Any]
STUCK = timedelta(seconds=60)
"""A pod that should have been gone this long ago is no longer waited for."""
PAUSE = "dovetail.sh/pause"
_TAINTS = (("karpenter.sh/disrupted", ""), ("karpenter.sh/disruption", "disrupting"))  # both have the effect NoSchedule
_ACTIONS = {
    "All": {"Empty", "Underutilized", "Drifted", "Expired"},
    "Consolidation": {"Empty", "Underutilized"},
    "Emptiness": {"Empty"},
    "Drift": {"Drifted"},
    "Expiration": {"Expired"},
}


def tolerates_disruption(pod: Record) -> bool:
    """Whether the drain leaves the pod alone because it tolerates the disruption taint, in either spelling."""
    tolerations: Sequence[Plain] = pod.plain["spec"].get("tolerations") or ()
    return any(_tolerates(each, key, value) for each in tolerations for key, value in _TAINTS)


def _tolerates(toleration: Plain, key: str, value: str) -> bool:
    if toleration.get("effect", "") not in ("", "NoSchedule") or toleration.get("key", "") not in ("", key):
        return False
    return bool(toleration.get("operator", "Equal") == "Exists" or toleration.get("value", "") == value)


def is_static(pod: Record) -> bool:
    """Whether its kubelet runs it from a file: it ends with its node."""
    return any(owner["kind"] == "Node" for owner in pod.meta.get("ownerReferences") or ())


def needs_a_place(pod: Record) -> bool:
    """Whether the pod would have to run elsewhere if its node went: active, and of no DaemonSet."""
    daemon = pod.controller is not None and pod.controller["kind"] == "DaemonSet"
    return pod.active and not daemon and not is_static(pod)


def holds_up_a_drain(pod: Record, instants: Iterable[datetime]) -> bool:
    """Whether a drain has to wait for the pod: not ended, not static, not tolerating, and not stuck in its own end."""
    if pod.plain["status"].get("phase") in {"Succeeded", "Failed"} or is_static(pod) or tolerates_disruption(pod):
        return False
    ends = pod.meta.get("deletionTimestamp")
    return ends is None or all(now - datetime.fromisoformat(ends) <= STUCK for now in instants)


def is_protected(pod: Record, instants: Iterable[datetime]) -> bool:
    """Whether do-not-disrupt protects an active pod, whichever of these instants is taken for now."""
    written = (pod.meta.get("annotations") or {}).get(DO_NOT_DISRUPT, "false")
    if written == "false" or not pod.active:
        return False
    try:
        span = Duration.parse(written).span
    except ValueError:
        return True
    until = datetime.fromisoformat(pod.meta["creationTimestamp"]) + span
    return span <= timedelta() or all(now < until for now in instants)


def allows_none(pool: NodePool, reason: str) -> bool:
    """Whether a budget that is always in force allows no node to be disrupted for this reason."""
    return any(
        str(each.nodes) in ("0", "0%")
        and each.schedule is None
        and reason in (_ACTIONS.get(each.action or "All", set()) if each.reasons is None else each.reasons)
        for each in pool.spec.disruption.budgets or ()
    )


def is_paused(pool: NodePool) -> bool:
    """Whether disruption of the pool is paused until somebody lifts it."""
    return pool.metadata.annotations.get(PAUSE) == "true"
