"""Whether a pod fits a node: the scheduler's filters, in its order and with its words.

Plain and complete rather than fast: taints, node selectors and affinity, host ports and resources here; what depends on
other pods in `neighbours`. Never decides which of the fitting nodes is best.
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

_MOST_TEMPLATES = 256
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(slots=True)
class SchedulerNode:
    """A node as the scheduler sees it: what it has, what is taken, and by whom."""

    node: Node
    pods: dict[Key, Pod] = field(default_factory=dict)
    room: dict[str, int] = field(default_factory=dict)  # allocatable, nano units
    free: dict[str, int] = field(default_factory=dict)  # what the pods leave of it; below zero where there is none
    load: float = 0.0
    """How full the node is; the scheduler prefers the emptiest."""

    def renew(self, node: Node) -> None:
        """The node changed."""
        if node.status.allocatable is not self.node.status.allocatable or not self.room:
            taken = {name: self.room.get(name, 0) - free for name, free in self.free.items()}
            self.room = {name: amount.nano for name, amount in node.status.allocatable.items()}
            self.free = dict(self.room)
            self._take(taken)
        self.node = node

    def occupy(self, pod: Pod, request: Mapping[str, int]) -> None:
        """A pod takes its place."""
        self.pods[pod.key] = pod
        self._take(request)

    def vacate(self, key: Key, request: Mapping[str, int]) -> None:
        """A pod gives its place back."""
        if self.pods.pop(key, None) is not None:
            self._take({name: -amount for name, amount in request.items()})

    def _take(self, request: Mapping[str, int]) -> None:
        for name, amount in request.items():
            self.free[name] = self.free.get(name, 0) - amount
        cpu, memory = self.room.get("cpu"), self.room.get("memory")
        self.load = ((cpu - self.free["cpu"]) / cpu if cpu else 0) + (
            (memory - self.free["memory"]) / memory if memory else 0
        )

    def missing(self, request: Mapping[str, int]) -> list[str]:
        """The resources the request is short of."""
        free = self.free
        return [name for name, amount in request.items() if amount > free.get(name, 0)]


class SchedulerNodes:
    """All nodes and the pods bound to them."""

    def __init__(self) -> None:
        self.namespace_labels: dict[str, Mapping[str, str]] = {}
        self.repelling: dict[Key, tuple[str, Pod]] = {}  # bound pods with anti-affinity of their own, and their nodes
        self._sites: dict[str, SchedulerNode] = {}
        self._ordered: list[SchedulerNode] | None = None
        self._bound: dict[Key, tuple[str, Pod]] = {}
        self._requests: dict[Key, dict[str, int]] = {}

    def sites(self) -> list[SchedulerNode]:
        """The nodes by name."""
        if self._ordered is None:
            self._ordered = [self._sites[name] for name in sorted(self._sites)]
        return self._ordered

    def scheduler_node(self, name: str) -> SchedulerNode | None:
        """One node."""
        return self._sites.get(name)

    def note_node(self, node: Node, *, gone: bool) -> bool:
        """A node came, changed or went; whether that may let a waiting pod in."""
        name = node.name
        known = self._sites.get(name)
        if gone:
            self._sites.pop(name, None)
            self._ordered = None
            return False
        if known is None:
            self._sites[name] = scheduler_node = SchedulerNode(node)
            scheduler_node.renew(node)
            self._ordered = None
            for home, pod in self._bound.values():
                if home == name:
                    self._occupy(scheduler_node, pod, nano_requests(pod.spec))
            return True
        before = known.node
        known.renew(node)
        same = (before.spec, before.metadata.labels, before.status.allocatable, before.deleting)
        return same != (node.spec, node.metadata.labels, node.status.allocatable, node.deleting)

    def note_pod(self, pod: Pod, *, gone: bool) -> bool:
        """A pod came, changed or went; whether that may let a waiting pod in."""
        key = pod.key
        known = self._bound.get(key)
        if gone or pod.terminal or not pod.node_name:
            if known is None or (known[1].metadata.uid != pod.metadata.uid):
                return False
            if not gone and not pod.terminal:
                return False  # assumed here, and the binding has not come back yet
            self._release(*self._bound.pop(key))
            return True
        if known is not None and known[1].metadata.uid == pod.metadata.uid:
            self._bound[key] = (known[0], pod)
            if (scheduler_node := self._sites.get(known[0])) is not None:
                scheduler_node.pods[key] = pod
            return False
        self.assume(pod, pod.node_name, nano_requests(pod.spec))
        return False

    def assume(self, pod: Pod, node: str, request: dict[str, int]) -> None:
        """Count a pod on a node."""
        self._bound[pod.key] = (node, pod)
        if pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None:
            self.repelling[pod.key] = (node, pod)
        if (scheduler_node := self._sites.get(node)) is not None:
            self._occupy(scheduler_node, pod, request)

    def _occupy(self, scheduler_node: SchedulerNode, pod: Pod, request: dict[str, int]) -> None:
        self._requests[pod.key] = request
        scheduler_node.occupy(pod, request)

    def _release(self, node: str, pod: Pod) -> None:
        request = self._requests.pop(pod.key, {})
        self.repelling.pop(pod.key, None)
        if (scheduler_node := self._sites.get(node)) is not None:
            scheduler_node.vacate(pod.key, request)


def nano_requests(spec: PodSpec) -> dict[str, int]:
    """What a pod needs, in nano units; what it does not ask for is left out."""
    return {name: amount.nano for name, amount in spec_requests(spec).items() if amount.nano}


class PodDemand(NamedTuple):
    """What a pod asks of a node: found once, held against many."""

    pod: Pod
    request: dict[str, int]
    ports: list[HostPort]
    choosy: bool  # by labels of the node


class PodDemands:
    """What pods ask for. Those made from one template share their containers, and with them what was found."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[PodSpec, dict[str, int], list[HostPort]]] = {}  # by identity of the containers

    def of(self, pod: Pod) -> PodDemand:
        """Read it out of the pod, or out of one like it."""
        spec = pod.spec
        known = self._known.get(id(spec.containers))
        if known is None or not _asks_alike(known[0], spec):
            if len(self._known) >= _MOST_TEMPLATES:
                self._known.clear()
            known = self._known[id(spec.containers)] = (spec, nano_requests(spec), _host_ports(pod))
        return PodDemand(pod, known[1], known[2], bool(spec.node_selector) or spec.affinity is not None)


def _asks_alike(one: PodSpec, other: PodSpec) -> bool:
    return (
        one.containers is other.containers
        and one.init_containers is other.init_containers
        and one.resources == other.resources
        and one.overhead == other.overhead
    )


def refusal(demand: PodDemand, scheduler_node: SchedulerNode) -> list[str]:
    """Why the pod cannot run on the node, in the scheduler's words; empty if it can."""
    pod, spec = demand.pod, scheduler_node.node.spec
    if (spec.unschedulable or spec.taints) and (why := _kept_off(pod, scheduler_node)):
        return [why]
    if demand.choosy and not matches_node(pod.spec, scheduler_node.node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    if demand.ports and _port_taken(demand.ports, scheduler_node):
        return ["node(s) didn't have free ports for the requested pod ports"]
    missing = scheduler_node.missing(demand.request)
    return (
        ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(missing)]
        if missing
        else missing
    )


def _kept_off(pod: Pod, scheduler_node: SchedulerNode) -> str:
    if scheduler_node.node.spec.unschedulable and not tolerates(pod.spec.tolerations, _UNSCHEDULABLE):
        return "node(s) were unschedulable"
    for taint in scheduler_node.node.spec.taints:
        if taint.effect != PREFER_NO_SCHEDULE and not tolerates(pod.spec.tolerations, taint):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def _port_taken(wanted: list[HostPort], scheduler_node: SchedulerNode) -> bool:
    taken = [port for other in scheduler_node.pods.values() for port in _host_ports(other)]
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
    """All expressions hold; a term without any matches nothing."""
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
    """The message on the pod: how many nodes refused it, and why."""
    listed = [tuple(whys) for whys in refusals]
    if not listed:
        return "no nodes available to schedule pods"
    counts = Counter(why for whys in listed for why in whys)
    parts = ", ".join(f"{count} {why}" for why, count in sorted(counts.items()))
    return f"0/{len(listed)} nodes are available: {parts}."
