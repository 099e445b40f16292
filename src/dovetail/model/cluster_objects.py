"""The objects around pods: who makes them, who protects them, who ranks them, and what is said about them."""

from dovetail.model.kube_object import ApiStruct, Condition, Instant, KubeObject, LabelSelector
from dovetail.model.pod import PodTemplate


class DaemonSetSpec(ApiStruct, frozen=True, kw_only=True):
    """One pod a node, from this template."""

    template: PodTemplate = PodTemplate()
    selector: LabelSelector | None = None


class DaemonSet(KubeObject, frozen=True, kw_only=True):
    """A DaemonSet: its pods are part of the price of every node."""

    spec: DaemonSetSpec = DaemonSetSpec()


class PodDisruptionBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """How many of the selected pods may be away at once."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = "IfHealthyBudget"


class PodDisruptionBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    """What the disruption controller counted."""

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


class PriorityClass(KubeObject, frozen=True, kw_only=True):
    """A rank for pods."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class LeaseSpec(ApiStruct, frozen=True, kw_only=True):
    """Who holds a lease and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Instant | None = None
    renew_time: Instant | None = None
    lease_transitions: int | None = None


class Lease(KubeObject, frozen=True, kw_only=True):
    """A Lease: a kubelet's heartbeat, or the office of a leader."""

    spec: LeaseSpec = LeaseSpec()


class ObjectReference(ApiStruct, frozen=True, kw_only=True):
    """What an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(ApiStruct, frozen=True, kw_only=True):
    """Who says it."""

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
    """A ConfigMap. Only its annotations are of interest: what it holds is never read."""


class Namespace(KubeObject, frozen=True, kw_only=True):
    """A namespace: its labels select the pods an affinity term speaks of."""
