"""What a pod means for the node it runs on, by its plain object: who owns it, how long it needs, when its turn comes.

Where a rule leaves room, these take the reading under which less is forbidden.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.readers import DISRUPTION_TAINTS, DO_NOT_DISRUPT, annotations, duration, instant
from dovetail.sim.torture.invariants.readers import tolerates as _tolerates

STUCK = timedelta(seconds=60)
"""A pod that should have been gone this long ago is no longer waited for."""
CRITICAL = ("system-cluster-critical", "system-node-critical")


def tolerates_disruption(pod: ObjectVersion) -> bool:
    """Whether the drain leaves the pod alone because it tolerates one of the disruption taints."""
    tolerations = pod.plain["spec"].get("tolerations") or ()
    return any(_tolerates(tolerations, key, value) for key, value in DISRUPTION_TAINTS)


def is_static(pod: ObjectVersion) -> bool:
    """Whether the kubelet runs it from a file: it ends with its node."""
    owned = any(owner["kind"] == "Node" for owner in pod.meta.get("ownerReferences") or ())
    return owned or "kubernetes.io/config.mirror" in annotations(pod.plain)


def is_daemon(pod: ObjectVersion) -> bool:
    """Whether a DaemonSet owns it."""
    return any(owner["kind"] == "DaemonSet" for owner in pod.meta.get("ownerReferences") or ())


def is_finished(pod: ObjectVersion) -> bool:
    """Whether all its containers have ended for good."""
    return (pod.plain.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def tier(pod: ObjectVersion) -> int:
    """When its turn in a drain comes: pods, DaemonSets, critical pods, critical DaemonSets."""
    critical = pod.plain["spec"].get("priorityClassName") in CRITICAL
    return 2 * critical + is_daemon(pod)


def own_grace(pod: ObjectVersion) -> float:
    """Seconds that the pod may take to stop."""
    return float(pod.plain["spec"].get("terminationGracePeriodSeconds", 30))


def needs_a_place(pod: ObjectVersion) -> bool:
    """Whether the pod would have to run elsewhere if its node went: active, and of no DaemonSet."""
    return pod.active and not is_daemon(pod) and not is_static(pod)


def holds_up_a_drain(pod: ObjectVersion, instants: Iterable[datetime]) -> bool:
    """Whether a drain has to wait for the pod: not finished, static or tolerating, and not stuck in its own end."""
    if is_finished(pod) or is_static(pod) or tolerates_disruption(pod):
        return False
    ends = pod.meta.get("deletionTimestamp")
    return ends is None or all(now - instant(ends) <= STUCK for now in instants)


def is_protected(pod: ObjectVersion, instants: Iterable[datetime]) -> bool:
    """Whether do-not-disrupt protects an active pod, whichever of these instants is taken for now.

    A positive duration counts from the creation of the pod; any other value but `false` protects for ever.
    """
    written = annotations(pod.plain).get(DO_NOT_DISRUPT, "false")
    if written == "false" or not pod.active:
        return False
    try:
        seconds = duration(written) if written != "Never" else 0.0
    except ValueError:
        return True
    if seconds <= 0:
        return True
    ends_at = instant(pod.meta["creationTimestamp"]) + timedelta(seconds=seconds)
    return all(now < ends_at for now in instants)
