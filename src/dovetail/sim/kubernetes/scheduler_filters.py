"""The filter plugins of the simulated scheduler: taints, node selector and affinity, host ports and resources.

`SchedulerNodes` is the scheduler's cache: the nodes, the pods bound or assumed on them, the pods nominated to them, and
the free resources of each node, updated with every change. Nominated pods (`status.nominatedNodeName`) reserve their
requests and host ports against other pods of equal or lower priority. `refusal` checks one pod against one node in
kube-scheduler's order of filters and with its messages. Filters that depend on other pods are in `inter_pod_affinity`.
Scoring is in `scheduler`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dovetail.model.kube_object import Key
from dovetail.model.node import Node
from dovetail.model.pod import NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, spec_requests
from dovetail.model.taints import PREFER_NO_SCHEDULE, Taint, tolerates

HostPort = tuple[str, str, int]
"""Address, protocol and number."""

NOTHING: Mapping[str, int] = {}
_MOST_TEMPLATES = 256
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")


Nominees = dict[Key, tuple[Pod, dict[str, int]]]
"""The pods nominated to a node, with their requests in nano units."""


@dataclass(slots=True)
class SchedulerNode:
    """A node in the scheduler's cache: its allocatable resources, what is free, and its pods."""

    node: Node
    nominees: Nominees = field(default_factory=dict)
    pods: dict[Key, Pod] = field(default_factory=dict)
    allocatable: dict[str, int] = field(default_factory=dict)  # nano units
    free: dict[str, int] = field(default_factory=dict)  # nano units; negative for an overcommitted resource
    load: float = 0.0
    """Requested cpu plus requested memory, each as a share of allocatable; the scheduler prefers low values."""
    soft_taints: tuple[Taint, ...] = ()

    def update(self, node: Node) -> None:
        """Replace the node; recompute the free resources if its allocatable changed."""
        if node.status.allocatable is not self.node.status.allocatable or not self.allocatable:
            requested = {name: self.allocatable.get(name, 0) - free for name, free in self.free.items()}
            self.allocatable = {name: amount.nano for name, amount in node.status.allocatable.items()}
            self.free = dict(self.allocatable)
            self._subtract(requested)
        self.node = node
        self.soft_taints = tuple(taint for taint in node.spec.taints if taint.effect == PREFER_NO_SCHEDULE)

    def avoided_by(self, pod: Pod) -> int:
        """The number of PreferNoSchedule taints that the pod does not tolerate; the scheduler prefers low values."""
        return sum(not tolerates(pod.spec.tolerations, taint) for taint in self.soft_taints)

    def add_pod(self, pod: Pod, request: Mapping[str, int]) -> None:
        """Add a pod and subtract its requests from the free resources."""
        self.pods[pod.key] = pod
        self._subtract(request)

    def remove_pod(self, key: Key, request: Mapping[str, int]) -> None:
        """Remove a pod and free its requests."""
        if self.pods.pop(key, None) is not None:
            self._subtract({name: -amount for name, amount in request.items()})

    def _subtract(self, request: Mapping[str, int]) -> None:
        for name, amount in request.items():
            self.free[name] = self.free.get(name, 0) - amount
        cpu, memory = self.allocatable.get("cpu"), self.allocatable.get("memory")
        self.load = ((cpu - self.free["cpu"]) / cpu if cpu else 0) + (
            (memory - self.free["memory"]) / memory if memory else 0
        )

    def missing(self, request: Mapping[str, int], reserved: Mapping[str, int] = NOTHING) -> list[str]:
        """The resources of which less is free than requested."""
        free = self.free
        return [name for name, amount in request.items() if amount > free.get(name, 0) - reserved.get(name, 0)]

    def reserving(self, pod: Pod) -> list[tuple[Pod, dict[str, int]]]:
        """The other nominees of the same or a higher priority."""
        priority = pod.spec.priority
        return [each for key, each in self.nominees.items() if key != pod.key and each[0].spec.priority >= priority]


class SchedulerNodes:
    """All nodes and the pods bound to them."""

    def __init__(self) -> None:
        self.namespace_labels: dict[str, Mapping[str, str]] = {}
        self.with_anti_affinity: dict[Key, tuple[str, Pod]] = {}  # bound pods with anti-affinity, and their nodes
        self._nodes: dict[str, SchedulerNode] = {}
        self._sorted: list[SchedulerNode] | None = None
        self._bound: dict[Key, tuple[str, Pod]] = {}
        self._requests: dict[Key, dict[str, int]] = {}
        self._nominees: dict[str, Nominees] = {}  # by node, which may not exist
        self.nominated: dict[Key, str] = {}  # the node of each nominated pod that is pending

    def sorted_nodes(self) -> list[SchedulerNode]:
        """All nodes, by name."""
        if self._sorted is None:
            self._sorted = [self._nodes[name] for name in sorted(self._nodes)]
        return self._sorted

    def scheduler_node(self, name: str) -> SchedulerNode | None:
        """The node of that name, or None."""
        return self._nodes.get(name)

    def note_node(self, node: Node, *, gone: bool) -> bool:
        """Add, update or remove a node; returns whether a pending pod may fit now."""
        name = node.name
        known = self._nodes.get(name)
        if gone:
            self._nodes.pop(name, None)
            self._sorted = None
            return False
        if known is None:
            self._nodes[name] = scheduler_node = SchedulerNode(node, self._nominees.setdefault(name, {}))
            scheduler_node.update(node)
            self._sorted = None
            for bound_to, pod in self._bound.values():
                if bound_to == name:
                    self._add_pod(scheduler_node, pod, nano_requests(pod.spec))
            return True
        before = known.node
        known.update(node)
        relevant = (before.spec, before.metadata.labels, before.status.allocatable, before.deleting)
        return relevant != (node.spec, node.metadata.labels, node.status.allocatable, node.deleting)

    def note_pod(self, pod: Pod, *, gone: bool) -> bool:
        """Add, update or remove a pod; returns whether a pending pod may fit now."""
        key = pod.key
        known = self._bound.get(key)
        if gone or pod.terminal or not pod.node_name:
            if known is None or (known[1].metadata.uid != pod.metadata.uid):
                return False
            if not gone and not pod.terminal:
                return False  # assumed; the change that binds it has not arrived yet
            self._release(*self._bound.pop(key))
            return True
        if known is not None and known[1].metadata.uid == pod.metadata.uid:
            self._bound[key] = (known[0], pod)
            if (scheduler_node := self._nodes.get(known[0])) is not None:
                scheduler_node.pods[key] = pod
            return False
        self.assume(pod, pod.node_name, nano_requests(pod.spec))
        return False

    def assume(self, pod: Pod, node: str, request: dict[str, int]) -> None:
        """Count a pod as bound to a node before the binding is visible in the store."""
        self._nominate(pod, "")
        self._bound[pod.key] = (node, pod)
        if pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None:
            self.with_anti_affinity[pod.key] = (node, pod)
        if (scheduler_node := self._nodes.get(node)) is not None:
            self._add_pod(scheduler_node, pod, request)

    def note_nomination(self, pod: Pod, *, gone: bool) -> str:
        """Reserve the requests of a nominated pod until that ends; returns the node on which it has ended, or empty."""
        pending = not gone and not pod.node_name and pod.active
        return self._nominate(pod, pod.status.nominated_node_name if pending else "")

    def _nominate(self, pod: Pod, node: str) -> str:
        before = self.nominated.get(pod.key, "")
        if before == node:
            return ""
        if before:
            del self._nominees[before][pod.key], self.nominated[pod.key]
        if node:
            self.nominated[pod.key] = node
            self._nominees.setdefault(node, {})[pod.key] = (pod, nano_requests(pod.spec))
        return before

    def _add_pod(self, scheduler_node: SchedulerNode, pod: Pod, request: dict[str, int]) -> None:
        self._requests[pod.key] = request
        scheduler_node.add_pod(pod, request)

    def _release(self, node: str, pod: Pod) -> None:
        request = self._requests.pop(pod.key, {})
        self.with_anti_affinity.pop(pod.key, None)
        if (scheduler_node := self._nodes.get(node)) is not None:
            scheduler_node.remove_pod(pod.key, request)


def nano_requests(spec: PodSpec) -> dict[str, int]:
    """The requests of a pod in nano units, without zeros."""
    return {name: amount.nano for name, amount in spec_requests(spec).items() if amount.nano}


class PodDemand(NamedTuple):
    """The scheduling inputs of a pod, computed once and checked against many nodes."""

    pod: Pod
    request: dict[str, int]
    ports: list[HostPort]
    selects_nodes: bool  # has a node selector or affinity


class PodDemands:
    """Cache of pod demands. Pods of one template share their decoded containers, and so their demand."""

    def __init__(self) -> None:
        # By id of the containers tuple; the spec in the value keeps it alive, so that the id stays unique.
        self._known: dict[int, tuple[PodSpec, dict[str, int], list[HostPort]]] = {}

    def of(self, pod: Pod) -> PodDemand:
        """The demand of a pod, computed or taken from a pod of the same template."""
        spec = pod.spec
        known = self._known.get(id(spec.containers))
        if known is None or not _equal_demand(known[0], spec):
            if len(self._known) >= _MOST_TEMPLATES:
                self._known.clear()
            known = self._known[id(spec.containers)] = (spec, nano_requests(spec), _host_ports(pod))
        return PodDemand(pod, known[1], known[2], bool(spec.node_selector) or spec.affinity is not None)


def _equal_demand(one: PodSpec, other: PodSpec) -> bool:
    return (
        one.containers is other.containers
        and one.init_containers is other.init_containers
        and one.resources == other.resources
        and one.overhead == other.overhead
    )


def refusal(demand: PodDemand, scheduler_node: SchedulerNode) -> list[str]:
    """Why the pod cannot run on the node, as kube-scheduler words it; empty if it can."""
    pod, spec = demand.pod, scheduler_node.node.spec
    if (spec.unschedulable or spec.taints) and (why := _taint_refusal(pod, scheduler_node)):
        return [why]
    if demand.selects_nodes and not matches_node(pod.spec, scheduler_node.node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    reserving = scheduler_node.reserving(pod) if scheduler_node.nominees else []
    if demand.ports and _port_taken(demand.ports, [*scheduler_node.pods.values(), *(each for each, _ in reserving)]):
        return ["node(s) didn't have free ports for the requested pod ports"]
    missing = scheduler_node.missing(
        demand.request, _sum(request for _, request in reserving) if reserving else NOTHING
    )
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(missing)]


def _taint_refusal(pod: Pod, scheduler_node: SchedulerNode) -> str:
    if scheduler_node.node.spec.unschedulable and not tolerates(pod.spec.tolerations, _UNSCHEDULABLE):
        return "node(s) were unschedulable"
    for taint in scheduler_node.node.spec.taints:
        if taint.effect != PREFER_NO_SCHEDULE and not tolerates(pod.spec.tolerations, taint):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def _sum(requests: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for request in requests:
        total.update(request)
    return total


def _port_taken(wanted: list[HostPort], others: Iterable[Pod]) -> bool:
    taken = [port for other in others for port in _host_ports(other)]
    return any(_clash(one, other) for one in wanted for other in taken)


def _host_ports(pod: Pod) -> list[HostPort]:
    return [
        (port.host_ip or "0.0.0.0", port.protocol, port.host_port)  # noqa: S104 - how Kubernetes spells any address
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    ]


def _clash(one: HostPort, other: HostPort) -> bool:
    anywhere = "0.0.0.0" in (one[0], other[0])  # noqa: S104 - as above
    return one[1:] == other[1:] and (anywhere or one[0] == other[0])


def matches_node(spec: PodSpec, node: Node) -> bool:
    """Whether node selector and required node affinity accept the node."""
    labels = node.metadata.labels
    if spec.node_selector and any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or any(_term_holds(term, node) for term in required.node_selector_terms)


def _term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether all expressions hold; an empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(_holds(each, node.metadata.labels) for each in term.match_expressions) and all(
        _holds(each, fields) for each in term.match_fields
    )


def _holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(requirement.values[0])
        case "Lt":
            return value is not None and int(value) < int(requirement.values[0])
        case _:
            return False


def summary(refusals: Iterable[Iterable[str]]) -> str:
    """The message of the PodScheduled condition: how many nodes refused the pod, and why."""
    listed = [tuple(whys) for whys in refusals]
    if not listed:
        return "no nodes available to schedule pods"
    counts = Counter(why for whys in listed for why in whys)
    parts = ", ".join(f"{count} {why}" for why, count in sorted(counts.items()))
    return f"0/{len(listed)} nodes are available: {parts}."
