"""Pod index: the pods of each node with their shapes, kept from one problem to the next.

While no pod mentions a label, volume or resource that no pod mentioned before, an unchanged node has the same pods in
the same shapes, and as much left. Entries are keyed by node name and valid for an equal node. Otherwise
everything is read again; problems built before keep the index they were built with.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from dovetail.core.scheduling.pod_shapes import PodShape, PodShapes, relevant_label_keys
from dovetail.core.scheduling.resource_vector import ResourceUnits
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot

Resident = tuple[Pod, PodShape]
MOST_FORMER = 2
"""So many times the nodes and pods that are there may be remembered."""
FEW = 1_000
"""So many pods are remembered in any case."""


class NodeEntry(msgspec.Struct, eq=False):
    """A node, the pods that use its resources, and what they leave of each."""

    node: ClusterNode
    bound_pods: list[Resident]
    left: list[int] | None = None


class NodePods:
    """Nodes with their pods, in one set of shapes and one set of resource columns."""

    def __init__(self, shapes: PodShapes, units: ResourceUnits) -> None:
        self.shapes = shapes
        self.units = units
        self._entries: dict[str, NodeEntry] = {}

    def bound_pods(self, node: ClusterNode) -> list[Resident]:
        """The pods that use resources of a node."""
        return self._entry(node).bound_pods

    def left(self, node: ClusterNode) -> list[int]:
        """What the pods leave of a node, by column; a new list that the caller may change."""
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

    def crowded(self, people: int) -> bool:
        """Whether most of those remembered are gone, of whom so many are there."""
        return self.shapes.met > MOST_FORMER * people + FEW

    def shrink(self, nodes: int) -> None:
        """Nodes come and go: forget when most of what is known is of nodes that went."""
        if len(self._entries) > MOST_FORMER * nodes:
            self._entries.clear()


class PodIndex:
    """Keeps the pods by node of the last problem for the next one."""

    def __init__(self) -> None:
        self._label_keys: dict[str, tuple[ClusterNode, frozenset[str]]] = {}
        self._latest: NodePods | None = None

    def node_pods(self, snapshot: Snapshot, existing_nodes: Sequence[ClusterNode], others: Iterable[Pod]) -> NodePods:
        """The pods of these nodes by shape, where the labels that selectors of `others` read count as well."""
        if len(self._label_keys) > MOST_FORMER * len(existing_nodes):
            self._label_keys.clear()
        keys = relevant_label_keys(others).union(*[self._looked_at(node) for node in existing_nodes])
        latest = self._latest
        people = sum([len(node.pods) for node in existing_nodes])
        if latest is None or latest.crowded(people) or not latest.shapes.made_from(snapshot, keys):
            latest = self._latest = NodePods(PodShapes(snapshot.namespaces, snapshot.storage, keys), ResourceUnits(()))
        latest.shrink(len(existing_nodes))
        return latest

    def measured(self, node_pods: NodePods, names: set[str]) -> NodePods:
        """The same, if they measure these resources; otherwise new ones that do."""
        if not names <= node_pods.units.column.keys():
            self._latest = node_pods = NodePods(node_pods.shapes.anew(), ResourceUnits(names))
        return node_pods

    def _looked_at(self, node: ClusterNode) -> frozenset[str]:
        known = self._label_keys.get(node.name)
        if known is None or (known[0] is not node and known[0] != node):
            known = self._label_keys[node.name] = node, relevant_label_keys(node.pods)
        return known[1]


def left_of(node: ClusterNode, bound_pods: Iterable[Resident], units: ResourceUnits) -> list[int]:
    """What these pods leave of a node, by column."""
    left = units.amounts(node.allocatable)
    for column, amount in chain.from_iterable([shape.need for _, shape in bound_pods]):
        left[column] -= amount
    return left
