"""Views of NodeClaims and Nodes for the invariants, and predicates on pods, all over plain objects of the API server.

A view holds a few fields of one version of an object. The predicates answer what a pod means for its node: which
controller owns it, its drain tier and grace period, whether a drain waits for it and whether do-not-disrupt protects
it. Where a rule is ambiguous they choose the reading that forbids less.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.disruption_settings import VOLUNTARY
from dovetail.sim.torture.invariants.readers import (
    CLOSED,
    DEADLINE,
    DISRUPTION_TAINTS,
    DO_NOT_DISRUPT,
    NODEPOOL,
    REPLACES,
    Plain,
    annotations,
    command_of,
    conditions,
    duration,
    parse_time,
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
        self.pool: str = self.labels.get(NODEPOOL, "")
        self.command = command_of(record.plain)

    @property
    def provider_id(self) -> str:
        """The provider id of its instance; empty before the launch."""
        return str((self.plain.get("status") or {}).get("providerID", ""))

    @property
    def capacity(self) -> Plain:
        """The capacity of its instance."""
        found: Plain = (self.plain.get("status") or {}).get("capacity") or {}
        return found

    @property
    def replaces(self) -> str:
        """The id of the command that launched it as a replacement; empty if it is not one."""
        return str(self.annotations.get(REPLACES, ""))

    def has(self, condition: str) -> bool:
        """Whether the condition is True."""
        return self.conditions.get(condition, {}).get("status") == "True"

    @property
    def reason(self) -> str:
        """The disruption reason in its command record or its condition DisruptionReason; empty without one."""
        if self.command.get("reason"):
            return str(self.command["reason"])
        condition = self.conditions.get("DisruptionReason", {})
        return str(condition.get("reason", "")) if condition.get("status") == "True" else ""

    @property
    def voluntary_reason(self) -> str:
        """The disruption reason if budgets apply to it, else empty."""
        return self.reason if self.reason in VOLUNTARY else ""

    @property
    def counts_toward_budgets(self) -> bool:
        """Whether budgets count it as a node of its pool."""
        return self.has("Initialized") and not self.has("InstanceTerminating")

    @property
    def has_termination_grace_period(self) -> bool:
        """Whether it has a terminationGracePeriod."""
        return self.plain["spec"].get("terminationGracePeriod") is not None

    @property
    def created_at(self) -> datetime:
        """When it was created."""
        return parse_time(self.plain["metadata"]["creationTimestamp"])

    @property
    def deadline(self) -> datetime | None:
        """When its drain must end: the annotated time, or its deletion plus its terminationGracePeriod."""
        deleted = self.plain["metadata"].get("deletionTimestamp")
        written, period = self.annotations.get(DEADLINE), self.plain["spec"].get("terminationGracePeriod")
        if deleted is None:
            return None
        if written:
            return parse_time(written)
        return parse_time(deleted) + timedelta(seconds=duration(period)) if period is not None else None


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
    def has_disruption_taint(self) -> bool:
        """Whether it has a disruption taint."""
        taints = self.plain["spec"].get("taints") or ()
        return any(each["key"].startswith("karpenter.sh/disrupt") for each in taints)

    @property
    def is_closed(self) -> bool:
        """Whether it has the taint that keeps it closed for the pods it was launched for."""
        return any(each["key"] == CLOSED for each in self.plain["spec"].get("taints") or ())

    @property
    def is_removed_next(self) -> bool:
        """Whether it has the taint of nodes that consolidation deletes next."""
        taints = self.plain["spec"].get("taints") or ()
        return any(each["key"] == "dovetail.sh/removed-next" for each in taints)


STUCK_AFTER = timedelta(seconds=60)
"""A drain no longer waits for a pod that is overdue by this much."""
CRITICAL = ("system-cluster-critical", "system-node-critical")


def tolerates_disruption(pod: ObjectVersion) -> bool:
    """Whether the pod tolerates a disruption taint; a drain ignores it then."""
    tolerations = pod.plain["spec"].get("tolerations") or ()
    return any(_tolerates(tolerations, key, value) for key, value in DISRUPTION_TAINTS)


def is_static(pod: ObjectVersion) -> bool:
    """Whether it is a static (mirror) pod of the kubelet."""
    owned = any(owner["kind"] == "Node" for owner in pod.meta.get("ownerReferences") or ())
    return owned or "kubernetes.io/config.mirror" in annotations(pod.plain)


def is_daemon(pod: ObjectVersion) -> bool:
    """Whether a DaemonSet owns it."""
    return any(owner["kind"] == "DaemonSet" for owner in pod.meta.get("ownerReferences") or ())


def is_finished(pod: ObjectVersion) -> bool:
    """Whether it has the phase Succeeded or Failed."""
    return (pod.plain.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def tier(pod: ObjectVersion) -> int:
    """Its drain tier: 0 for pods, 1 for DaemonSet pods, 2 for critical pods, 3 for critical DaemonSet pods."""
    critical = pod.plain["spec"].get("priorityClassName") in CRITICAL
    return 2 * critical + is_daemon(pod)


def grace_period(pod: ObjectVersion) -> float:
    """The terminationGracePeriodSeconds of the pod."""
    return float(pod.plain["spec"].get("terminationGracePeriodSeconds", 30))


def must_be_rescheduled(pod: ObjectVersion) -> bool:
    """Whether the pod would have to run on another node if its node were removed."""
    return pod.active and not is_daemon(pod) and not is_static(pod)


def blocks_drain(pod: ObjectVersion, clock_readings: Iterable[datetime]) -> bool:
    """Whether a drain has to wait for the pod: not finished, static, tolerating a disruption taint or overdue."""
    if is_finished(pod) or is_static(pod) or tolerates_disruption(pod):
        return False
    ends = pod.meta.get("deletionTimestamp")
    return ends is None or all(now - parse_time(ends) <= STUCK_AFTER for now in clock_readings)


def is_protected(pod: ObjectVersion, clock_readings: Iterable[datetime]) -> bool:
    """Whether do-not-disrupt protects an active pod at all of these clock readings.

    A positive duration counts from the creation of the pod; any other value except `false` has no end.
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
    ends_at = parse_time(pod.meta["creationTimestamp"]) + timedelta(seconds=seconds)
    return all(now < ends_at for now in clock_readings)
