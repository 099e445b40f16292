"""The cluster at one instant: an immutable value with the indexes that decisions need.

A `ClusterNode` joins a Node, its NodeClaim and its pods. Until the node registers, labels and taints are read from the
claim; afterwards from the node. A claim without a node counts as a node with at least the resources that its pods
request, so that no second node is launched for them. Properties are computed on first access and kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain

from dovetail.model.cached import lazy
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.cluster_objects import DaemonSet, PodDisruptionBudget
from dovetail.model.command import REPLACES_ANNOTATION, CommandRecord, read_record
from dovetail.model.labels import INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED, WELL_KNOWN
from dovetail.model.node import Node
from dovetail.model.nodeclaim import INITIALIZED as INITIALIZED_CONDITION
from dovetail.model.nodeclaim import INSTANCE_TERMINATING, NodeClaim
from dovetail.model.nodeclaim import REGISTERED as REGISTERED_CONDITION
from dovetail.model.nodepool import NodePool
from dovetail.model.pause import PAUSE, SWITCH, Pause, read_pause
from dovetail.model.pod import Pod, spec_requests
from dovetail.model.repair import ProviderRepairPolicy
from dovetail.model.requirements import Requirements
from dovetail.model.resources import NODES, Quantity, Resources, add, subtract
from dovetail.model.storage import Storage
from dovetail.model.taints import CORDON, REMOVED_NEXT_TAINT, Taint, is_ephemeral
from dovetail.model.unreadable_objects import UnreadableEntry, UnreadableIndex

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class ClusterNode:
    """A Node, its NodeClaim, or both, and the pods bound to it."""

    node: Node | None
    claim: NodeClaim | None
    pods: tuple[Pod, ...] = ()

    def __post_init__(self) -> None:
        assert self.node is not None or self.claim is not None, "a cluster node has a Node or a NodeClaim"

    @property
    def managed(self) -> bool:
        """Whether it has a NodeClaim."""
        return self.claim is not None

    @lazy
    def registered(self) -> bool:
        """Whether the node has registered; a node without a claim counts as registered."""
        if self.claim is None:
            return True
        return self.node is not None and self.node.metadata.labels.get(REGISTERED) == "true"

    @lazy
    def initialized(self) -> bool:
        """Whether the node is initialized, by its label; a node without a claim counts as initialized."""
        if self.claim is None:
            return True
        return self.node is not None and self.node.metadata.labels.get(INITIALIZED) == "true"

    @property
    def vanished(self) -> bool:
        """Whether the Node registered and was deleted while the NodeClaim still exists."""
        return self.node is None and self.claim is not None and self.claim.has(REGISTERED_CONDITION)

    @lazy
    def _representative(self) -> Node | NodeClaim:
        if self.node is not None and (self.registered or self.claim is None):
            return self.node
        assert self.claim is not None
        return self.claim

    @lazy
    def name(self) -> str:
        """The node's name, or the claim's until it has registered."""
        return self._representative.name

    @lazy
    def labels(self) -> Mapping[str, str]:
        """The labels of the node, or of the claim until it has registered."""
        return self._representative.metadata.labels

    @lazy
    def nodepool_name(self) -> str:
        """The NodePool it belongs to, or empty."""
        return self.labels.get(NODEPOOL, "")

    @lazy
    def managed_by(self) -> str:
        """The NodePool of a managed node, or empty."""
        return self.nodepool_name if self.claim is not None else ""

    @lazy
    def deleting(self) -> bool:
        """Whether its claim is being deleted or its instance terminates; without a claim, whether its Node is."""
        if self.claim is not None:
            return self.claim.deleting or self.claim.has(INSTANCE_TERMINATING)
        return self.node is not None and self.node.deleting

    @lazy
    def leaving(self) -> bool:
        """Whether its claim or its Node is being deleted, or its Node has vanished."""
        return self.deleting or self.vanished or (self.node is not None and self.node.deleting)

    @lazy
    def record(self) -> CommandRecord | None:
        """The command that removes it, if any."""
        return read_record(self.claim) if self.claim is not None else None

    @lazy
    def pods_unchanged_since(self) -> datetime | None:
        """When its pods last changed, or else when it was initialized; None if it is not managed."""
        return None if self.claim is None else self.claim.pods_unchanged_since

    @lazy
    def replaces(self) -> str | None:
        """The id of the command that launched it as a replacement, if any."""
        return None if self.claim is None else self.claim.metadata.annotations.get(REPLACES_ANNOTATION)

    @lazy
    def in_command(self) -> bool:
        """Whether a command removes it or launched it."""
        return self.record is not None or self.replaces is not None

    @lazy
    def counted(self) -> bool:
        """Whether budgets count it: managed and initialized, and its instance not yet terminating.

        One whose Node vanished counts, as busy, until its claim is gone too.
        """
        if self.claim is None or self.claim.has(INSTANCE_TERMINATING):
            return False
        return self.initialized or (self.node is None and self.claim.has(INITIALIZED_CONDITION))

    @lazy
    def busy(self) -> bool:
        """Whether it uses up a budget: NotReady, being deleted, or part of a running command."""
        return self.record is not None or self.deleting or self.node is None or not self.node.ready

    @lazy
    def taints(self) -> tuple[Taint, ...]:
        """Its taints without those that it loses while it starts, and without the hint that it is removed next."""
        if self.claim is None:
            return self.node.spec.taints if self.node is not None else ()
        written = self.node.spec.taints if self.node is not None and self.registered else self.claim.spec.taints
        if any(taint.matches(REMOVED_NEXT_TAINT) for taint in written):
            written = tuple(taint for taint in written if not taint.matches(REMOVED_NEXT_TAINT))
        if self.initialized:
            return written
        passing = self.claim.spec.startup_taints
        return tuple(
            taint for taint in written if not is_ephemeral(taint) and not any(taint.matches(other) for other in passing)
        )

    @lazy
    def all_taints(self) -> tuple[Taint, ...]:
        """Its taints; a cordoned node always has the unschedulable taint."""
        cordoned = self.node is not None and self.node.spec.unschedulable
        if not cordoned or any(taint.matches(CORDON) for taint in self.taints):
            return tuple(self.taints)
        return (*self.taints, CORDON)

    @lazy
    def requirements(self) -> Requirements:
        """Its labels as requirements; before launch, with the requirements of its claim."""
        settled = Requirements.from_labels(self.labels)
        if self.launched or self.claim is None:
            return settled
        return self.claim.requirements.add(settled)

    @property
    def launched(self) -> bool:
        """Whether it has an instance, or a Node."""
        return self.node is not None or (self.claim is not None and bool(self.claim.provider_id))

    @property
    def undefined_labels(self) -> frozenset[str]:
        """Labels that it is assumed to get: the well-known ones before launch, none afterwards."""
        return frozenset() if self.launched else WELL_KNOWN

    @lazy
    def capacity(self) -> Resources:
        """Its capacity, with 1 for the resource `nodes`."""
        claimed = self.claim.status.capacity if self.claim is not None else {}
        return {**_filled(self._node_capacity, claimed, settled=self.initialized), NODES: Quantity.of(1)}

    @property
    def _node_capacity(self) -> Resources:
        return self.node.status.capacity if self.node is not None else {}

    @lazy
    def allocatable(self) -> Resources:
        """Its allocatable resources; for a claim that is not launched, the requests of its pods."""
        reported = self.node.status.allocatable if self.node is not None else {}
        if self.claim is None:
            return reported
        promised = self.claim.status.allocatable if self.launched else self.claim.spec.resources.requests
        return _filled(reported, promised, settled=self.initialized)

    @lazy
    def daemon_pods(self) -> tuple[tuple[str, tuple[datetime, str], Pod], ...]:
        """Its active DaemonSet pods, each with the uid of its DaemonSet and its sort key by age."""
        return tuple(_daemon_pods(self.pods))

    @lazy
    def requested(self) -> Resources:
        """The sum of the requests of its pods that are not terminal."""
        return add(*(spec_requests(pod.spec) for pod in self.pods if not pod.terminal))

    @lazy
    def available(self) -> Resources:
        """Allocatable less requested."""
        return subtract(self.allocatable, self.requested)


def _filled(reported: Resources, promised: Resources, *, settled: bool) -> Resources:
    """The amounts that the node reports; until it is `settled`, missing or zero amounts come from `promised`."""
    if settled:
        return reported
    return {**promised, **{name: amount for name, amount in reported.items() if amount}}


def _daemon_pods(pods: Iterable[Pod]) -> Iterator[tuple[str, tuple[datetime, str], Pod]]:
    for pod in pods:
        if pod.daemon and pod.active:
            age = pod.metadata.creation_timestamp or _LONG_AGO, pod.metadata.name
            yield from ((owner.uid, age, pod) for owner in pod.metadata.owner_references if owner.controller)


@dataclass(frozen=True)
class Snapshot:
    """All inputs of decisions."""

    at: datetime
    nodes: tuple[ClusterNode, ...]
    unbound_pods: tuple[Pod, ...]
    nodepools: Mapping[str, NodePool]
    daemon_sets: tuple[DaemonSet, ...]
    catalogs: Mapping[str, tuple[InstanceType, ...]]
    missing_catalogs: Mapping[str, str] = field(default_factory=dict)
    """Why the instance types of a NodePool are not known. A NodePool without a provider is neither here nor above."""
    well_known: frozenset[str] = field(default=WELL_KNOWN)
    storage: Storage = field(default_factory=Storage)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of each namespace, for the namespace selectors of affinity terms."""
    pdbs: tuple[PodDisruptionBudget, ...] = ()
    nominated: frozenset[str] = frozenset()
    """Names of nodes that pods were recently nominated to; they are not disrupted for a while."""
    pause: str | None = None
    """The value of the annotation that pauses everything, if it is set."""
    relax_min_values: bool = False
    """Whether a node may be launched from fewer values than `minValues` of its NodePool (MIN_VALUES_POLICY)."""
    repair_statements: tuple[ProviderRepairPolicy, ...] = ()
    """The node conditions that make a node of this provider unhealthy."""
    unreadable: tuple[UnreadableEntry, ...] = ()
    """Objects that cannot be decoded. Nodes and NodeClaims among them are in `nodes` with their readable fields."""

    def pause_of(self, pool: str) -> Pause | None:
        """The pause in force for a NodePool, for everything or for this NodePool."""
        everywhere = read_pause(self.pause, f"ConfigMap {SWITCH}", self.at)
        if everywhere is not None or pool not in self.nodepools:
            return everywhere
        return read_pause(self.nodepools[pool].metadata.annotations.get(PAUSE), f"NodePool {pool}", self.at)

    @lazy
    def unread(self) -> UnreadableIndex:
        """The unreadable objects, indexed by the node or NodePool they concern."""
        return UnreadableIndex(self.unreadable)

    def unread_on(self, node: ClusterNode) -> UnreadableEntry | None:
        """An unreadable object that hides the pods or the resources of this node, or None."""
        return self.unread.of(node.node, node.claim) if self.unreadable else None

    @lazy
    def nodes_by_pool(self) -> Mapping[str, tuple[ClusterNode, ...]]:
        """The managed nodes of each NodePool."""
        grouped: dict[str, list[ClusterNode]] = {}
        for node in self.nodes:
            if pool := node.managed_by:
                grouped.setdefault(pool, []).append(node)
        return {pool: tuple(nodes) for pool, nodes in grouped.items()}

    @lazy
    def replaced(self) -> frozenset[str]:
        """Names of nodes that a command removes and whose replacements have all been created."""
        concerned = [node for node in self.nodes if node.in_command]  # few nodes
        coming = Counter(node.replaces for node in concerned)
        records = {node.name: node.record for node in concerned if node.record is not None}
        return frozenset(name for name, record in records.items() if coming[record.id] >= record.replacements)

    @lazy
    def running_commands(self) -> frozenset[str]:
        """The ids of commands whose nodes are not gone yet."""
        return frozenset([node.record.id for node in self.nodes if node.record is not None])

    @lazy
    def newest_daemon_pods(self) -> Mapping[str, Pod]:
        """The newest active pod of each DaemonSet, bound or not, by the uid of the DaemonSet; ties by name.

        Its requests include the changes of LimitRanges and webhooks.
        """
        newest: dict[str, tuple[tuple[datetime, str], Pod]] = {}
        for uid, age, pod in chain(_daemon_pods(self.unbound_pods), *[node.daemon_pods for node in self.nodes]):
            known = newest.get(uid)
            if known is None or known[0] < age:
                newest[uid] = age, pod
        return {uid: pod for uid, (_, pod) in newest.items()}

    @lazy
    def types_by_pool(self) -> Mapping[str, Mapping[str, InstanceType]]:
        """The instance types of each NodePool by name."""
        return {pool: {each.name: each for each in types} for pool, types in self.catalogs.items()}

    def offering_of(self, node: ClusterNode) -> Offering | None:
        """The offering that a node was launched from; None if its instance type is not known."""
        type_ = self.types_by_pool.get(node.nodepool_name, {}).get(node.labels.get(INSTANCE_TYPE, ""))
        return type_.offering_for_labels(node.labels) if type_ is not None else None

    def price_of(self, node: ClusterNode) -> float | None:
        """Dollars an hour of a node; None if its offering is not in the catalog."""
        offering = self.offering_of(node)
        return offering.price if offering is not None else None

    def usage(self, pool: str) -> Resources:
        """The total capacity of the nodes of a NodePool that are not being deleted.

        A claim that is not launched counts as its largest possible type: limits hold whatever the provider launches.
        """
        return add(*(self.size(node) for node in self.nodes_by_pool.get(pool, ()) if not node.deleting))

    def size(self, node: ClusterNode) -> Resources:
        """The capacity of a node; if it is not launched, the largest capacity it may get."""
        return node.capacity if node.launched else self._largest(node)

    def _largest(self, node: ClusterNode) -> Resources:
        wanted = node.requirements.get(INSTANCE_TYPE)
        types = self.types_by_pool.get(node.managed_by, {}).values()
        sizes = [each.capacity for each in types if wanted.has(each.name)]
        names = {name for size in sizes for name in size}
        most = {name: max(size[name] for size in sizes if name in size) for name in names}
        return {**most, **node.capacity}
