"""Pods: what they ask for, where they may run, and the words Dovetail uses for the state they are in.

The predicates keep Karpenter's meaning of each word (terminal, active, provisionable, reschedulable, ...).

What a pod needs of its node, by the scheduler's own arithmetic.

Containers add up; init containers run one after another, beside the sidecars declared before them, so their peak
counts; pod-level requests replace cpu, memory and huge pages; overhead comes on top, and every pod takes one slot.

A limit without a request counts as the request, as the API server writes it into every pod it accepts. Templates of
workloads, and pods in files, have not been through the API server.
"""

from collections.abc import Iterable, Mapping

import msgspec

from dovetail.model.kube_object import ApiStruct, Condition, Instant, KubeObject, LabelSelector, ObjectMeta
from dovetail.model.resources import CPU, MEMORY, PODS, Quantity, Resources, add, maximum
from dovetail.model.taints import Toleration

OVER = frozenset({"Failed", "Succeeded"})
"""The phases of a pod that ran to its end."""


class ResourceRequirements(ApiStruct, frozen=True, kw_only=True):
    """What a container, or a whole pod, asks for."""

    requests: Mapping[str, Quantity] = {}
    limits: Mapping[str, Quantity] = {}


class ContainerPort(ApiStruct, frozen=True, kw_only=True):
    """A port of a container; only those that claim a port of the host matter."""

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
    """The part of an ephemeral volume's claim that decides where it can live."""

    storage_class_name: str | None = None


class ClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """Template of the claim an ephemeral volume makes."""

    spec: ClaimTemplateSpec = ClaimTemplateSpec()


class EphemeralVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume whose claim is made for the pod and named `<pod>-<volume>`."""

    volume_claim_template: ClaimTemplate = ClaimTemplate()


class Volume(ApiStruct, frozen=True, kw_only=True):
    """A volume of a pod; kinds other than these two do not bind it to a place."""

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
    """A term that should hold, with its weight."""

    weight: int = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """Which nodes a pod must, and would like to, run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """Pods to be near, or far from, within one topology."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """A pod affinity term that should hold, with its weight."""

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
    """How evenly equal pods must be spread over the domains of a topology."""

    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(ApiStruct, frozen=True, kw_only=True):
    """Something that holds a pod back from the scheduler."""

    name: str


class PodResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """Devices a pod asks for by a ResourceClaim, under the name its containers use."""

    name: str = ""


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    """The part of a pod that decides where it can run."""

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
    """What the kubelet and the scheduler say of a pod."""

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
        """Ran to its end, well or badly."""
        return self.status.phase in OVER

    @property
    def active(self) -> bool:
        """Neither at its end nor on its way out."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in OVER

    @property
    def daemon(self) -> bool:
        """Belongs to a DaemonSet."""
        return self.owned_by("DaemonSet", "apps/v1")

    @property
    def stateful(self) -> bool:
        """Belongs to a StatefulSet."""
        return self.owned_by("StatefulSet", "apps/v1")

    @property
    def mirror(self) -> bool:
        """A static pod, shown in the API by its kubelet."""
        return self.owned_by("Node", "v1")

    @property
    def stays_with_node(self) -> bool:
        """A daemon or a static pod: it comes with its node and goes with it."""
        for owner in self.metadata.owner_references:  # asked of every pod in every pass: both in one look
            kind = owner.kind
            if (kind == "DaemonSet" and owner.api_version == "apps/v1") or (
                kind == "Node" and owner.api_version == "v1"
            ):
                return True
        return False

    @property
    def ready(self) -> bool:
        """Its Ready condition is True."""
        for condition in self.status.conditions:  # noqa: SIM110 - asked of every pod, over and over
            if condition.type == "Ready" and condition.status == "True":
                return True
        return False

    @property
    def failed_to_schedule(self) -> bool:
        """The scheduler looked at it and found no node."""
        for condition in self.status.conditions:
            if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
                return True
        return False

    @property
    def provisionable(self) -> bool:
        """Waits for a node that Dovetail could bring."""
        return (
            not self.spec.node_name  # first what most pods have
            and self.failed_to_schedule
            and self.active
            and not self.status.nominated_node_name
            and not self.stays_with_node
        )

    @property
    def reschedulable(self) -> bool:
        """Needs a new home when its node goes."""
        return (self.active or (self.deleting and self.stateful)) and not self.stays_with_node


class PodTemplate(ApiStruct, frozen=True, kw_only=True):
    """What a workload makes its pods from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


ONE_POD: Resources = {PODS: Quantity.of(1)}


def spec_requests(spec: PodSpec) -> Resources:
    """The effective request of a pod with this spec, its pod slot included."""
    request = maximum(_running(spec), _init_peak(spec.init_containers))
    if spec.resources is not None:
        limits = {name: amount for name, amount in spec.resources.limits.items() if name not in request}
        asked = {**limits, **spec.resources.requests}
        request = {**request, **{name: amount for name, amount in asked.items() if _pod_level(name)}}
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
    if resources.limits.keys() <= resources.requests.keys():  # of every pod from the API server
        return resources.requests
    return {**resources.limits, **resources.requests}


def _sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"
