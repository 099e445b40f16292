"""Placing pods on nodes that exist or are on their way."""

from dataclasses import dataclass, field

from dovetail.core.scheduling.daemons import Daemons
from dovetail.core.scheduling.shape import Shape
from dovetail.model.pod import Pod
from dovetail.model.resources import Resources, fits, shortfall, subtract
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import untolerated


@dataclass(eq=False)
class Room:
    """The free room of one node while pods are being placed. Room only ever shrinks, so a refusal is final."""

    node: ClusterNode
    free: Resources
    pods: list[Pod] = field(default_factory=list)

    def refusal(self, shape: Shape) -> str:
        """Why a pod of this shape cannot go here, in the scheduler's words; empty if it can."""
        taint = untolerated(shape.tolerations, self.node.taints)
        if taint is not None:
            return f"node(s) had untolerated taint {{{taint}}}"
        reached = self.node.requirements
        undefined = self.node.undefined_labels
        if not any(reached.compatible(wanted, undefined) is None for wanted in shape.alternatives):
            return "node(s) didn't match Pod's node affinity/selector"
        if not fits(shape.requests, self.free):
            return "Insufficient " + ", ".join(shortfall(shape.requests, self.free))
        return ""

    def place(self, pod: Pod, shape: Shape) -> None:
        """Take the room for one pod."""
        self.free = subtract(self.free, shape.requests)
        self.pods.append(pod)


def open_rooms(nodes: tuple[ClusterNode, ...], daemons: Daemons) -> list[Room]:
    """The nodes that may take pods: those that stay, initialised ones first, then by name."""
    staying = [
        node
        for node in nodes
        if not node.deleting and not node.vanished and not (node.node is not None and node.node.deleting)
    ]
    staying.sort(key=lambda node: (not node.initialized, node.name))
    return [
        Room(node, subtract(node.available, daemons.still_to_come(node)))
        for node in staying
        if node.node is None or not node.node.spec.unschedulable
    ]
