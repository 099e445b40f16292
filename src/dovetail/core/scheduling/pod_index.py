"""Who lives where, kept from one base state to the next.

While nobody speaks of labels, volumes or resources that nobody spoke of before, a node that has not changed has the
same residents, and as much left over. When somebody does, everything is read anew; what was made before keeps the
lodgings it was made with. Nodes are compared by value; one that is the same object needs no comparison, because nodes
are never edited in place.
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
    """A node, those who take room there, and what they leave of each resource."""

    node: ClusterNode
    bound_pods: list[Resident]
    left: list[int] | None = None


class NodePods:
    """Nodes with those who live there, in one set of shapes and of resources."""

    def __init__(self, shapes: PodShapes, units: ResourceUnits) -> None:
        self.shapes = shapes
        self.units = units
        self._entries: dict[str, NodeEntry] = {}

    def bound_pods(self, node: ClusterNode) -> list[Resident]:
        """The pods that take room on a node."""
        return self._entry(node).bound_pods

    def left(self, node: ClusterNode) -> list[int]:
        """What the residents leave of a node, resource by resource; a list of one's own."""
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
    """The lodgings of the last base state, for the next one."""

    def __init__(self) -> None:
        self._label_keys: dict[str, tuple[ClusterNode, frozenset[str]]] = {}
        self._latest: NodePods | None = None

    def node_pods(self, snapshot: Snapshot, existing_nodes: Sequence[ClusterNode], others: Iterable[Pod]) -> NodePods:
        """Those of the pods in these rooms, and of some others."""
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
    """What these residents leave of a node, resource by resource."""
    left = units.amounts(node.allocatable)
    for column, amount in chain.from_iterable([shape.need for _, shape in bound_pods]):
        left[column] -= amount
    return left
