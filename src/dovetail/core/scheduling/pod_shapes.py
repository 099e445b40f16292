"""Pod shapes: pods that are equal to the scheduler share one shape; and an index of the pods of each node with shapes.

A shape is a set of constraints, a priority and requests. Constraints are made from the pod spec without its requests,
the namespace, and the values of those labels that some selector in the cluster reads. Ports, volumes and topology rules
are computed once for each set of constraints, so that pods which differ only in their requests share them. Both compare
by identity.

`PodShapes` looks a pod up by the ids of the parts of its spec, which pods of one workload share in memory, and if that
fails by content. It keeps the specs, pods and labels whose ids are keys, so that an id cannot be reused for another
object.

`PodIndex` keeps the pods of each node from one problem to the next, by node name; an entry is valid for an equal node.
It starts again when a selector reads a new label, a pod requests a new resource, or namespaces or storage change.
Problems built before keep the index they were built with.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from dovetail.core.scheduling.host_ports import HostPort, host_ports
from dovetail.core.scheduling.preferences import PreferenceLevel, read_preference_levels, required_anti_terms
from dovetail.core.scheduling.resource_vector import Need, ResourceUnits
from dovetail.core.scheduling.topology_rules import Owner, Term
from dovetail.core.scheduling.volumes import NO_VOLUMES, VolumeNeeds, volume_needs
from dovetail.model.kube_object import LabelSelector
from dovetail.model.pod import Affinity, Pod, PodSpec, spec_requests
from dovetail.model.resources import CPU, MEMORY, ZERO, Resources
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.storage import Storage


class PodConstraints:
    """What decides where a pod may run, apart from its requests. Compared by identity; made by `PodShapes`."""

    def __init__(self, owner: Owner, ports: tuple[HostPort, ...], volumes: VolumeNeeds) -> None:
        self.owner = owner
        self.namespace = owner.namespace
        self.labels = owner.labels
        self.volumes = volumes
        self.ports = ports
        self.required_anti_affinity: tuple[Term, ...] = required_anti_terms(owner)
        self.shapes: dict[object, PodShape] = {}  # by priority and requests
        self._levels: dict[tuple[bool, bool], tuple[PreferenceLevel, ...]] = {}

    def preference_levels(self, *, respect_preferences: bool, soft_taints: bool) -> tuple[PreferenceLevel, ...]:
        """The preference levels; each call returns the same objects."""
        key = (respect_preferences, soft_taints)
        if key not in self._levels:
            self._levels[key] = tuple(
                read_preference_levels(self.owner, respect_preferences=respect_preferences, soft_taints=soft_taints)
            )
        return self._levels[key]


class PodShape:
    """Pods with the same constraints, priority and requests. Compared by identity; made by `PodShapes`.

    `need` and `least` (its size class, see `resource_vector`) are set by the problem, which has the columns.
    """

    __slots__ = ("constraints", "least", "need", "ports", "rank", "requests", "volumes")

    def __init__(self, constraints: PodConstraints, priority: int, requests: Resources) -> None:
        self.constraints = constraints
        self.ports = constraints.ports
        self.volumes = constraints.volumes
        self.requests = requests
        self.rank = (-priority, -requests.get(CPU, ZERO).milli, -requests.get(MEMORY, ZERO).units)
        self.need: Need = ()
        self.least: Need = ()

    def measure(self, units: ResourceUnits) -> None:
        """Set `need` and `least` in these columns."""
        self.need = units.need(self.requests)
        self.least = units.least(self.need)


Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of each namespace."""


class ContainersRead(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What is read from the containers of a pod spec. `amounts` are the requests as a value that can be a key."""

    spec: PodSpec  # keeps the ids of its parts from being reused
    requests: Resources
    ports: tuple[HostPort, ...]
    amounts: tuple[tuple[str, ...], tuple[int, ...]]


class PodShapes:
    """Finds the shape of a pod; creates one shape for all pods that are equal."""

    def __init__(self, namespaces: Namespaces, storage: Storage, label_keys: Iterable[str]) -> None:
        self._namespaces = namespaces
        self._storage = storage
        self._label_keys = tuple(sorted({*label_keys}))
        self._by_content: dict[object, PodConstraints] = {}
        self._by_identity: dict[object, tuple[PodConstraints, Pod]] = {}
        self._containers: dict[object, ContainersRead] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}  # equal names of resources are one object
        self._label_values: dict[int, tuple[str | None, ...]] = {}
        self._kept_labels: list[Mapping[str, str]] = []

    def of(self, pod: Pod) -> PodShape:
        """The shape of `pod`; the node it is bound to does not count."""
        read = self._read_containers(pod.spec)
        constraints = self._constraints(pod, read.ports)
        key = (pod.spec.priority, read.amounts)
        shape = constraints.shapes.get(key)
        if shape is None:
            shape = constraints.shapes[key] = PodShape(constraints, pod.spec.priority, read.requests)
        return shape

    def _read_containers(self, spec: PodSpec) -> ContainersRead:
        """Requests and ports. Pods of a workload share the parts of their spec: parts that are one object are equal."""
        simple = not (spec.init_containers or spec.overhead or spec.resources)
        identity: object = id(spec.containers)
        if not simple:
            identity = (identity, id(spec.init_containers), id(spec.overhead), id(spec.resources))
        read = self._containers.get(identity)
        if read is None:
            requests = spec_requests(spec)
            names = tuple(sorted(requests))
            names = self._names.setdefault(names, names)
            amounts = names, tuple([requests[name].nano for name in names])
            read = self._containers[identity] = ContainersRead(spec, requests, host_ports(spec), amounts)
        return read

    def _constraints(self, pod: Pod, ports: tuple[HostPort, ...]) -> PodConstraints:
        spec, labels = pod.spec, pod.metadata.labels
        seen = self._label_values.get(id(labels))
        if seen is None:
            seen = tuple([labels.get(key) for key in self._label_keys]) if labels else ()
            self._label_values[id(labels)] = seen
            self._kept_labels.append(labels)  # keeps the id of this mapping from being reused
        # A fast path before `_by_equality`, which compares values: pods of a workload share the parts of their spec.
        # Parts that are the same objects are equal, because specs are never edited in place; equal parts that are
        # different objects are found by value. It names every field that constraints are made from.
        identity = (
            id(spec.affinity),
            id(spec.tolerations),
            id(spec.topology_spread_constraints) if spec.topology_spread_constraints else 0,
            id(spec.node_selector) if spec.node_selector else 0,
            id(spec.volumes) if spec.volumes else 0,
            pod.metadata.namespace,
            pod.metadata.name if spec.volumes else "",
            seen,
            ports,
        )
        found = self._by_identity.get(identity)
        if found is None:
            # The pod is kept with its constraints, which keeps all ids above from being reused.
            found = self._by_identity[identity] = (self._by_equality(pod, seen, ports), pod)
        return found[0]

    def has_inputs(self, snapshot: Snapshot, label_keys: Iterable[str]) -> bool:
        """Whether this snapshot and these label keys give the same shapes."""
        return (
            self._label_keys == tuple(sorted({*label_keys}))
            and self._namespaces == snapshot.namespaces
            and self._storage == snapshot.storage
        )

    @property
    def remembered(self) -> int:
        """About how many pods it remembers, including pods that no longer exist."""
        return max(len(self._kept_labels), len(self._containers))

    def empty_copy(self) -> "PodShapes":
        """A new object with the same inputs and without shapes."""
        return PodShapes(self._namespaces, self._storage, self._label_keys)

    def covers_selectors_of(self, pod: Pod) -> bool:
        """Whether the selectors of `pod` read only labels that were known when the first shape was made."""
        return relevant_label_keys([pod]) <= {*self._label_keys}

    def _by_equality(self, pod: Pod, seen: tuple[str | None, ...], ports: tuple[HostPort, ...]) -> PodConstraints:
        spec = msgspec.structs.replace(
            pod.spec, node_name="", containers=(), init_containers=(), overhead={}, resources=None, priority=0
        )
        ephemeral = any(volume.ephemeral is not None for volume in spec.volumes)
        name = pod.metadata.name if ephemeral else ""
        key = (msgspec.json.encode(spec, enc_hook=str), pod.metadata.namespace, name, seen, ports)
        constraints = self._by_content.get(key)
        if constraints is None:
            labels = {label: value for label, value in zip(self._label_keys, seen, strict=False) if value is not None}
            volumes = volume_needs(pod.key, spec, self._storage) if spec.volumes else NO_VOLUMES
            owner = Owner(pod.metadata.namespace, labels, spec, self._namespaces)
            constraints = self._by_content[key] = PodConstraints(owner, ports, volumes)
        return constraints


def relevant_label_keys(pods: Iterable[Pod]) -> frozenset[str]:
    """The pod labels that some affinity term or spread constraint of these pods reads."""
    keys: set[str] = set()
    seen: set[int] = set()
    for pod in pods:
        spec = pod.spec
        if spec.affinity is not None and id(spec.affinity) not in seen:
            seen.add(id(spec.affinity))
            keys.update(_affinity_keys(spec.affinity))
        if spec.topology_spread_constraints and id(spec.topology_spread_constraints) not in seen:
            seen.add(id(spec.topology_spread_constraints))
            keys.update(_spread_keys(spec))
    return frozenset(keys)


def _affinity_keys(affinity: Affinity) -> Iterable[str]:
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is None:
            continue
        preferred = (each.pod_affinity_term for each in side.preferred_during_scheduling_ignored_during_execution)
        for term in (*side.required_during_scheduling_ignored_during_execution, *preferred):
            yield from _selector_keys(term.label_selector)
            yield from term.match_label_keys
            yield from term.mismatch_label_keys


def _spread_keys(spec: PodSpec) -> Iterable[str]:
    for constraint in spec.topology_spread_constraints:
        yield from _selector_keys(constraint.label_selector)
        yield from constraint.match_label_keys


def _selector_keys(selector: LabelSelector | None) -> Iterable[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (each.key for each in selector.match_expressions)


BoundPod = tuple[Pod, PodShape]
MAX_STALE_FACTOR = 2
"""Entries are dropped when there are more than this many times the nodes or pods that exist."""
MIN_REMEMBERED = 1_000
"""Up to this many pods are always remembered."""


class NodeEntry(msgspec.Struct, eq=False):
    """A node, the pods that use its resources, those of them to reschedule without it, and its free resources."""

    node: ClusterNode
    bound_pods: list[BoundPod]
    reschedulable: list[BoundPod] | None = None
    left: list[int] | None = None  # by column


class NodePods:
    """Nodes with their pods, in one set of shapes and one set of resource columns."""

    def __init__(self, shapes: PodShapes, units: ResourceUnits) -> None:
        self.shapes = shapes
        self.units = units
        self._entries: dict[str, NodeEntry] = {}

    def bound_pods(self, node: ClusterNode) -> list[BoundPod]:
        """The pods that use resources of a node."""
        return self._entry(node).bound_pods

    def reschedulable(self, node: ClusterNode) -> list[BoundPod]:
        """The pods that have to run elsewhere when the node is removed."""
        entry = self._entry(node)
        if entry.reschedulable is None:
            entry.reschedulable = [each for each in entry.bound_pods if each[0].reschedulable]
        return entry.reschedulable

    def left(self, node: ClusterNode) -> list[int]:
        """The free resources of a node by column, in a new list that the caller may change."""
        entry = self._entry(node)
        if entry.left is None:
            entry.left = left_of(node, entry.bound_pods, self.units)
        return list(entry.left)

    def _entry(self, node: ClusterNode) -> NodeEntry:
        entry = self._entries.get(node.name)
        if entry is None or (entry.node is not node and entry.node != node):
            of = self.shapes.of
            bound_pods = [(pod, of(pod)) for pod in node.pods if not pod.terminal]
            entry = self._entries[node.name] = NodeEntry(node, bound_pods)
        return entry

    def mostly_stale(self, pods: int) -> bool:
        """Whether most remembered pods no longer exist, given the number of pods that do."""
        return self.shapes.remembered > MAX_STALE_FACTOR * pods + MIN_REMEMBERED

    def drop_stale_entries(self, nodes: int) -> None:
        """Forget all entries when most of them are of nodes that no longer exist."""
        if len(self._entries) > MAX_STALE_FACTOR * nodes:
            self._entries.clear()


class PodIndex:
    """Keeps the pods of each node, with their shapes, from one problem to the next."""

    def __init__(self) -> None:
        self._label_keys: dict[str, tuple[ClusterNode, frozenset[str]]] = {}
        self._latest: NodePods | None = None

    def node_pods(self, snapshot: Snapshot, existing_nodes: Sequence[ClusterNode], others: Iterable[Pod]) -> NodePods:
        """The pods of these nodes with their shapes. The selectors of `others` count for which labels matter."""
        if len(self._label_keys) > MAX_STALE_FACTOR * len(existing_nodes):
            self._label_keys.clear()
        keys = relevant_label_keys(others).union(*[self._keys_read_on(node) for node in existing_nodes])
        latest = self._latest
        pods = sum([len(node.pods) for node in existing_nodes])
        if latest is None or latest.mostly_stale(pods) or not latest.shapes.has_inputs(snapshot, keys):
            latest = self._latest = NodePods(PodShapes(snapshot.namespaces, snapshot.storage, keys), ResourceUnits(()))
        latest.drop_stale_entries(len(existing_nodes))
        return latest

    def with_resources(self, node_pods: NodePods, names: set[str]) -> NodePods:
        """`node_pods` if it has columns for these resources; otherwise an empty one that has."""
        if not names <= node_pods.units.column.keys():
            if node_pods.units.names:
                node_pods = NodePods(node_pods.shapes.empty_copy(), ResourceUnits(names))
            node_pods.units = ResourceUnits(names)  # of new ones: nothing was measured in columns yet
            self._latest = node_pods
        return node_pods

    def _keys_read_on(self, node: ClusterNode) -> frozenset[str]:
        known = self._label_keys.get(node.name)
        if known is None or (known[0] is not node and known[0] != node):
            known = self._label_keys[node.name] = node, relevant_label_keys(node.pods)
        return known[1]


def left_of(node: ClusterNode, bound_pods: Iterable[BoundPod], units: ResourceUnits) -> list[int]:
    """Allocatable of a node less the requests of these pods, by column."""
    left = units.amounts(node.allocatable)
    for column, amount in chain.from_iterable([shape.need for _, shape in bound_pods]):
        left[column] -= amount
    return left
