"""Pods: their spec and status as far as scheduling needs them, predicates on their state, and their effective requests.

The predicates have Karpenter's meaning of each word (terminal, active, provisionable, reschedulable, ...).

`spec_requests` computes the request of a pod as kube-scheduler does: the sum of the containers, or the peak of the init
containers if larger, which run one after another beside the sidecars declared before them; pod-level requests replace
cpu, memory and huge pages; overhead is added, and one pod slot. A limit without a request counts as the request, as the
API server defaults it. Pod templates and pods in files have not been defaulted by the API server.
"""

from collections.abc import Iterable, Mapping

import msgspec

from dovetail.model.kube_object import ApiStruct, Condition, Instant, KubeObject, LabelSelector, ObjectMeta
from dovetail.model.resources import CPU, MEMORY, PODS, Quantity, Resources, add, maximum
from dovetail.model.taints import Toleration

OVER = frozenset({"Failed", "Succeeded"})
"""The phases of a terminal pod."""


class ResourceRequirements(ApiStruct, frozen=True, kw_only=True):
    """Requests and limits of a container or of a whole pod."""

    requests: Mapping[str, Quantity] = {}
    limits: Mapping[str, Quantity] = {}


class ContainerPort(ApiStruct, frozen=True, kw_only=True):
    """A port of a container; only host ports matter."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(ApiStruct, frozen=True, kw_only=True):
    """A container, an init container, or (`restart_policy` Always) a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None


class ClaimVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume backed by a PersistentVolumeClaim."""

    claim_name: str


class ClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The part of an ephemeral volume's claim that decides where the volume can be provisioned."""

    storage_class_name: str | None = None


class ClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The template of the claim of an ephemeral volume."""

    spec: ClaimTemplateSpec = ClaimTemplateSpec()


class EphemeralVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume whose claim is created for the pod and named `<pod>-<volume>`."""

    volume_claim_template: ClaimTemplate = ClaimTemplate()


class Volume(ApiStruct, frozen=True, kw_only=True):
    """A volume of a pod; other kinds of volumes do not restrict where the pod runs."""

    name: str
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None


class NodeSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One expression over node labels; `min_values` only in NodePools and NodeClaims."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


class NodeSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Expressions that must all hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredTerm(ApiStruct, frozen=True, kw_only=True):
    """A preferred node affinity term with its weight."""

    weight: int = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """Required and preferred node affinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """The pods that a term selects, and its topology key."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """A preferred pod affinity term with its weight."""

    weight: int = 1
    pod_affinity_term: PodAffinityTerm


class PodAffinity(ApiStruct, frozen=True, kw_only=True):
    """Affinity, or anti-affinity, to other pods."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(ApiStruct, frozen=True, kw_only=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True, kw_only=True):
    """How evenly selected pods must be spread over the domains of a topology key."""

    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(ApiStruct, frozen=True, kw_only=True):
    """A gate that keeps a pod from being scheduled."""

    name: str


class PodResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """Devices that a pod requests by a ResourceClaim."""

    name: str = ""


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    """The part of a pod spec that decides where the pod can run."""

    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: Mapping[str, Quantity] = {}
    volumes: tuple[Volume, ...] = ()
    priority: int = 0
    priority_class_name: str = ""
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    termination_grace_period_seconds: int | None = None


class PodStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a pod as kubelet and scheduler report it."""

    phase: str = "Pending"
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: Instant | None = None


class Pod(KubeObject, frozen=True, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def node_name(self) -> str:
        """The node it is bound to, or empty."""
        return self.spec.node_name

    @property
    def terminal(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.status.phase in OVER

    @property
    def active(self) -> bool:
        """Whether it is neither terminal nor being deleted."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in OVER

    @property
    def daemon(self) -> bool:
        """Whether a DaemonSet owns it."""
        return self.owned_by("DaemonSet", "apps/v1")

    @property
    def stateful(self) -> bool:
        """Whether a StatefulSet owns it."""
        return self.owned_by("StatefulSet", "apps/v1")

    @property
    def mirror(self) -> bool:
        """Whether it is the mirror pod of a static pod."""
        return self.owned_by("Node", "v1")

    @property
    def stays_with_node(self) -> bool:
        """Whether it is a daemon or static pod, which is not rescheduled when its node is removed."""
        for owner in self.metadata.owner_references:  # called for every pod, so both checks are one loop
            kind = owner.kind
            if (kind == "DaemonSet" and owner.api_version == "apps/v1") or (
                kind == "Node" and owner.api_version == "v1"
            ):
                return True
        return False

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        for condition in self.status.conditions:  # noqa: SIM110 - faster than any(), called for every pod
            if condition.type == "Ready" and condition.status == "True":
                return True
        return False

    @property
    def failed_to_schedule(self) -> bool:
        """Whether kube-scheduler found no node for it."""
        for condition in self.status.conditions:
            if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
                return True
        return False

    @property
    def unschedulable(self) -> bool:
        """Whether it is pending, and kube-scheduler found no node for it."""
        return (
            not self.spec.node_name  # first, because most pods are bound
            and self.failed_to_schedule
            and self.active
            and not self.stays_with_node
        )

    @property
    def provisionable(self) -> bool:
        """Whether it is pending and Dovetail may launch a node for it."""
        return self.unschedulable and not self.status.nominated_node_name

    @property
    def reschedulable(self) -> bool:
        """Whether it has to run on another node when its node is removed."""
        return (self.active or (self.deleting and self.stateful)) and not self.stays_with_node


class PodTemplate(ApiStruct, frozen=True, kw_only=True):
    """The pod template of a workload."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


ONE_POD: Resources = {PODS: Quantity.of(1)}


def spec_requests(spec: PodSpec) -> Resources:
    """The effective request of a pod with this spec, its pod slot included."""
    request = maximum(_running(spec), _init_peak(spec.init_containers))
    if spec.resources is not None:
        limits = {name: amount for name, amount in spec.resources.limits.items() if name not in request}
        pod_level = {**limits, **spec.resources.requests}
        request = {**request, **{name: amount for name, amount in pod_level.items() if _pod_level(name)}}
    return add(request, spec.overhead, ONE_POD)


def _pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def _running(spec: PodSpec) -> Resources:
    sidecars = (container for container in spec.init_containers if _sidecar(container))
    return add(*(_requests(container) for container in (*spec.containers, *sidecars)))


def _init_peak(containers: Iterable[Container]) -> Resources:
    peak: Resources = {}
    sidecars: Resources = {}
    for container in containers:
        together = add(sidecars, _requests(container))
        if _sidecar(container):
            sidecars = together
        peak = maximum(peak, together)
    return peak


def _requests(container: Container) -> Resources:
    resources = container.resources
    if resources.limits.keys() <= resources.requests.keys():  # true for every pod from the API server
        return resources.requests
    return {**resources.limits, **resources.requests}


def _sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"
