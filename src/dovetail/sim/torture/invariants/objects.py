"""NodeClaims and Nodes as the invariants see them: a few fields of one version of the plain object.

What a pod means for the node it runs on, by its plain object: who owns it, how long it needs, when its turn comes.

Where a rule leaves room, these take the reading under which less is forbidden.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.disruption_settings import VOLUNTARY
from dovetail.sim.torture.invariants.readers import (
    DEADLINE,
    DISRUPTION_TAINTS,
    DO_NOT_DISRUPT,
    REPLACES,
    Plain,
    annotations,
    command_of,
    conditions,
    duration,
    instant,
)
from dovetail.sim.torture.invariants.readers import tolerates as _tolerates


class ClaimView:
    """One version of a NodeClaim."""

    __slots__ = ("annotations", "command", "conditions", "deleting", "labels", "name", "plain", "pool", "uid")

    def __init__(self, record: ObjectVersion) -> None:
        self.plain: Plain = record.plain
        self.name, self.uid, self.deleting = record.key.name, record.uid, record.deleting
        self.annotations = annotations(record.plain)
        self.labels: Plain = record.meta.get("labels") or {}
        self.conditions = conditions(record.plain)
        self.pool: str = self.labels.get("karpenter.sh/nodepool", "")
        self.command = command_of(record.plain)

    @property
    def provider_id(self) -> str:
        """The id of its instance, empty before it is launched."""
        return str((self.plain.get("status") or {}).get("providerID", ""))

    @property
    def capacity(self) -> Plain:
        """What its instance has."""
        found: Plain = (self.plain.get("status") or {}).get("capacity") or {}
        return found

    @property
    def replaces(self) -> str:
        """The id of the command that launched it as a replacement, or empty."""
        return str(self.annotations.get(REPLACES, ""))

    def has(self, condition: str) -> bool:
        """Whether the condition is True."""
        return self.conditions.get(condition, {}).get("status") == "True"

    @property
    def reason(self) -> str:
        """The reason it is marked with by a command or by its condition, or empty."""
        if self.command.get("reason"):
            return str(self.command["reason"])
        said = self.conditions.get("DisruptionReason", {})
        return str(said.get("reason", "")) if said.get("status") == "True" else ""

    @property
    def voluntary(self) -> str:
        """The reason, if it is one that budgets govern."""
        return self.reason if self.reason in VOLUNTARY else ""

    @property
    def counted(self) -> bool:
        """Whether budgets count it among the nodes of its pool."""
        return self.has("Initialized") and not self.has("InstanceTerminating")

    @property
    def bounded(self) -> bool:
        """Whether it has a terminationGracePeriod."""
        return self.plain["spec"].get("terminationGracePeriod") is not None

    @property
    def created_at(self) -> datetime:
        """When it was created."""
        return instant(self.plain["metadata"]["creationTimestamp"])

    @property
    def deadline(self) -> datetime | None:
        """When its drain has to end, if it is deleted and bounded."""
        deleted = self.plain["metadata"].get("deletionTimestamp")
        written, period = self.annotations.get(DEADLINE), self.plain["spec"].get("terminationGracePeriod")
        if deleted is None:
            return None
        if written:
            return instant(written)
        return instant(deleted) + timedelta(seconds=duration(period)) if period is not None else None


class NodeView:
    """One version of a Node."""

    __slots__ = ("annotations", "conditions", "deleting", "labels", "name", "plain", "provider_id", "ready", "uid")

    def __init__(self, record: ObjectVersion) -> None:
        self.plain: Plain = record.plain
        self.name, self.uid, self.deleting, self.ready = record.key.name, record.uid, record.deleting, record.ready
        self.annotations = annotations(record.plain)
        self.labels: Plain = record.meta.get("labels") or {}
        self.conditions = conditions(record.plain)
        self.provider_id = str((record.plain.get("spec") or {}).get("providerID", ""))

    @property
    def marked(self) -> bool:
        """Whether it carries a taint of disruption."""
        taints = self.plain["spec"].get("taints") or ()
        return any(each["key"].startswith("karpenter.sh/disrupt") for each in taints)


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
