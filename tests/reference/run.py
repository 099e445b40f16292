"""The state of one run: rooms, drafts, and the pods in them. Nothing here decides where a pod may go."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dovetail.model.catalog import InstanceType
from dovetail.model.kube_object import Key
from dovetail.model.labels import INITIALIZED, NODEPOOL, REGISTERED
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.requirements import Requirements
from dovetail.model.resources import Resources
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint

CORDON = Taint("node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


@dataclass
class Room:
    """An existing node, or a NodeClaim on its way, without the pods the run is asked to place."""

    node: ClusterNode
    bound: tuple[Pod, ...]
    going: bool = False  # takes nobody any more, but is still there
    placed: list[Pod] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def taints(self) -> tuple[Taint, ...]:
        cordoned = self.node.node is not None and self.node.node.spec.unschedulable
        return (*self.node.taints, CORDON) if cordoned else self.node.taints

    @property
    def present(self) -> list[Pod]:
        """Pods that have not ended: those on their way out still take their room, ports and volumes."""
        return [pod for pod in self.bound if not pod.terminal] + self.placed

    @property
    def counted(self) -> list[Pod]:
        """Placed pods in the sense of topology: neither finished nor being deleted, or placed by this run."""
        return [pod for pod in self.bound if pod.active] + self.placed


@dataclass(frozen=True)
class Draft:
    """A node this run would buy."""

    number: int
    pool: NodePool
    pods: tuple[Pod, ...]
    requirements: Requirements
    types: tuple[InstanceType, ...]

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.pool.spec.template.spec.taints

    @property
    def counted(self) -> tuple[Pod, ...]:
        return self.pods


Bin = Room | Draft


@dataclass
class Run:
    """Everything a run knows. The sweep sets the last three; a run without a ceiling buys at any price."""

    snapshot: Snapshot
    pools: Sequence[NodePool]
    asked: frozenset[Key]
    rooms: list[Room]
    drafts: list[Draft] = field(default_factory=list)
    spent: list[Resources] = field(default_factory=list)  # by draft, when it was opened
    removed: str | None = None  # the name of a node that does not count against limits
    price_ceiling: float | None = None
    max_drafts: int | None = None

    @property
    def bins(self) -> list[Bin]:
        return [*self.rooms, *self.drafts]

    @property
    def placed_pods(self) -> Iterator[tuple[Bin, Pod]]:
        return ((each, pod) for each in self.bins for pod in each.counted)

    @property
    def soft_taints_exist(self) -> bool:
        everywhere = [*self.rooms, *(pool.spec.template.spec for pool in self.pools)]
        return any(taint.effect == PREFER_NO_SCHEDULE for each in everywhere for taint in each.taints)


def open_run(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    pools: Sequence[NodePool],
    without: str | None = None,
    *,
    standing: bool = False,
) -> Run:
    """The start of a run; `without` names a node that is no room. With `standing`, whoever is still there counts."""
    asked = frozenset(pod.key for pod in pods)
    rooms = [
        Room(node, tuple(pod for pod in node.pods if pod.key not in asked), going=not is_room(node) or disrupted(node))
        for node in snapshot.nodes
        if (is_room(node) or (standing and node.node is not None)) and node.name != without
    ]
    rooms.sort(key=lambda room: (not room.node.initialized, room.name))
    return Run(snapshot, pools, asked, rooms)


def is_room(node: ClusterNode) -> bool:
    """Neither a node being deleted, nor one whose claim is, nor a claim whose node has vanished."""
    going = node.deleting or (node.node is not None and node.node.deleting)
    return not going and not node.vanished


def disrupted(node: ClusterNode) -> bool:
    """A command is about to delete the node."""
    return node.claim is not None and "dovetail.sh/command" in node.claim.metadata.annotations


def template_requirements(pool: NodePool) -> Requirements:
    """What every node of the pool will be: its requirements, its labels, and the labels every node of ours gets."""
    given = {
        NODEPOOL: pool.name,
        pool.node_class_ref.label: pool.node_class_ref.name,
        REGISTERED: "true",
        INITIALIZED: "true",
    }
    return pool.requirements.add(Requirements.from_labels(given))
