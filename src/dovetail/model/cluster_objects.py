"""Kubernetes objects that decisions read besides pods, nodes and volumes.

DaemonSets, PodDisruptionBudgets, PriorityClasses, Leases, Events, ConfigMaps, Namespaces and
CustomResourceDefinitions, each with only the fields that Dovetail reads or writes.
"""

from collections.abc import Mapping

import msgspec

from dovetail.model.kube_object import ApiStruct, Condition, Instant, KubeObject, LabelSelector
from dovetail.model.pod import PodTemplate


class DaemonSetSpec(ApiStruct, frozen=True, kw_only=True):
    """The pod template of a DaemonSet."""

    template: PodTemplate = PodTemplate()
    selector: LabelSelector | None = None


class DaemonSet(KubeObject, frozen=True, kw_only=True):
    """A DaemonSet: its pods are overhead of every node they run on."""

    spec: DaemonSetSpec = DaemonSetSpec()


class PodDisruptionBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """How many of the selected pods must be available, or may be unavailable."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = "IfHealthyBudget"


class PodDisruptionBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    """The counts of the disruption controller of Kubernetes."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(KubeObject, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class CrdSchema(ApiStruct, frozen=True, kw_only=True):
    """The schema of one version of a custom resource."""

    open_api_v3_schema: Mapping[str, object] = msgspec.field(default_factory=dict, name="openAPIV3Schema")


class CrdVersion(ApiStruct, frozen=True, kw_only=True):
    """One version of a custom resource."""

    name: str
    schema: CrdSchema = CrdSchema()


class CrdSpec(ApiStruct, frozen=True, kw_only=True):
    """The versions of a custom resource."""

    versions: tuple[CrdVersion, ...] = ()


class CustomResourceDefinition(KubeObject, frozen=True, kw_only=True):
    """A CustomResourceDefinition: `run` reads that of NodePools, to know which fields it has."""

    spec: CrdSpec = CrdSpec()


class PriorityClass(KubeObject, frozen=True, kw_only=True):
    """A PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class LeaseSpec(ApiStruct, frozen=True, kw_only=True):
    """The holder of a lease, and when it was acquired and renewed."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Instant | None = None
    renew_time: Instant | None = None
    lease_transitions: int | None = None


class Lease(KubeObject, frozen=True, kw_only=True):
    """A Lease: the heartbeat of a kubelet, or the lock of a leader election."""

    spec: LeaseSpec = LeaseSpec()


class ObjectReference(ApiStruct, frozen=True, kw_only=True):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(ApiStruct, frozen=True, kw_only=True):
    """The component that reports an event."""

    component: str = ""


class Event(KubeObject, frozen=True, kw_only=True):
    """An event."""

    involved_object: ObjectReference = ObjectReference()
    type: str
    reason: str = ""
    message: str = ""
    count: int = 0
    first_timestamp: Instant | None = None
    last_timestamp: Instant | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""


class ConfigMap(KubeObject, frozen=True, kw_only=True):
    """A ConfigMap. Only its annotations are read, never its data."""


class Namespace(KubeObject, frozen=True, kw_only=True):
    """A Namespace. Its labels are matched by the namespace selectors of affinity terms."""
