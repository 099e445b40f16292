"""NodeClaims and Nodes as the invariants see them: a few fields of one version of the plain object."""

from datetime import datetime, timedelta

from dovetail.sim.kubernetes.store import ObjectVersion
from dovetail.sim.torture.invariants.disruption_settings import VOLUNTARY
from dovetail.sim.torture.invariants.readers import (
    DEADLINE,
    REPLACES,
    Plain,
    annotations,
    command_of,
    conditions,
    duration,
    instant,
)


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
