"""The cluster at one instant: an immutable value with the indexes every decision needs.

A `ClusterNode` joins a Node and its NodeClaim. Until the node has registered, the claim speaks for it; afterwards the
node does. A claim without a node yet counts as a node with the room its pods asked for, so nothing is bought twice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain

from dovetail.model.cached import lazy
from dovetail.model.catalog import InstanceType
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
from dovetail.model.taints import CORDON, Taint, is_ephemeral
from dovetail.model.unreadable_objects import UnreadableEntry, UnreadableIndex

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class ClusterNode:
    """A Node, its NodeClaim, or both, and the pods bound to it."""

    node: Node | None
    claim: NodeClaim | None
    pods: tuple[Pod, ...] = ()

    def __post_init__(self) -> None:
        assert self.node is not None or self.claim is not None, "a cluster node is at least one of the two"

    @property
    def managed(self) -> bool:
        """Whether Dovetail made it."""
        return self.claim is not None

    @lazy
    def registered(self) -> bool:
        """Whether the node speaks for itself."""
        if self.claim is None:
            return True
        return self.node is not None and self.node.metadata.labels.get(REGISTERED) == "true"

    @lazy
    def initialized(self) -> bool:
        """Whether it is ready to take pods; the label says so, not the condition."""
        if self.claim is None:
            return True
        return self.node is not None and self.node.metadata.labels.get(INITIALIZED) == "true"

    @property
    def vanished(self) -> bool:
        """Whether its node was there and is gone, behind our back."""
        return self.node is None and self.claim is not None and self.claim.has(REGISTERED_CONDITION)

    @lazy
    def _speaker(self) -> Node | NodeClaim:
        if self.node is not None and (self.registered or self.claim is None):
            return self.node
        assert self.claim is not None
        return self.claim

    @lazy
    def name(self) -> str:
        """The node's name, or the claim's until it has registered."""
        return self._speaker.name

    @lazy
    def labels(self) -> Mapping[str, str]:
        """Labels of whoever speaks for it."""
        return self._speaker.metadata.labels

    @lazy
    def nodepool_name(self) -> str:
        """The pool it belongs to, or empty."""
        return self.labels.get(NODEPOOL, "")

    @lazy
    def managed_by(self) -> str:
        """The pool that Dovetail made it for, or empty."""
        return self.nodepool_name if self.claim is not None else ""

    @lazy
    def deleting(self) -> bool:
        """Whether it is on its way out. Deleting only the Node counts once its claim is deleted too."""
        if self.claim is not None:
            return self.claim.deleting or self.claim.has(INSTANCE_TERMINATING)
        return self.node is not None and self.node.deleting

    @lazy
    def leaving(self) -> bool:
        """Whether it is on its way out in whichever way, or gone."""
        return self.deleting or self.vanished or (self.node is not None and self.node.deleting)

    @lazy
    def record(self) -> CommandRecord | None:
        """The command that is taking it away, if any."""
        return read_record(self.claim) if self.claim is not None else None

    @lazy
    def quiet_since(self) -> datetime | None:
        """When something last happened to its pods, or when it was initialised; only of managed ones that is known."""
        return None if self.claim is None else self.claim.quiet_since

    @lazy
    def replaces(self) -> str | None:
        """The id of the command it was bought for, if any."""
        return None if self.claim is None else self.claim.metadata.annotations.get(REPLACES_ANNOTATION)

    @lazy
    def in_command(self) -> bool:
        """Whether a command takes it away, or has bought it."""
        return self.record is not None or self.replaces is not None

    @lazy
    def counted(self) -> bool:
        """Whether budgets count it: managed and initialised, its instance not yet terminating.

        One whose node vanished is still missed: it counts, as busy, until its claim has gone, too.
        """
        if self.claim is None or self.claim.has(INSTANCE_TERMINATING):
            return False
        return self.initialized or (self.node is None and self.claim.has(INITIALIZED_CONDITION))

    @lazy
    def busy(self) -> bool:
        """NotReady, on its way out, or marked by a command that is still waiting for its replacements."""
        return self.record is not None or self.deleting or self.node is None or not self.node.ready

    @lazy
    def taints(self) -> tuple[Taint, ...]:
        """Taints that will still be there when it is initialised."""
        if self.claim is None:
            return self.node.spec.taints if self.node is not None else ()
        written = self.node.spec.taints if self.node is not None and self.registered else self.claim.spec.taints
        if self.initialized:
            return written
        passing = self.claim.spec.startup_taints
        return tuple(
            taint for taint in written if not is_ephemeral(taint) and not any(taint.matches(other) for other in passing)
        )

    @lazy
    def all_taints(self) -> tuple[Taint, ...]:
        """Its taints; a cordoned one has that taint, written or not."""
        cordoned = self.node is not None and self.node.spec.unschedulable
        if not cordoned or any(taint.matches(CORDON) for taint in self.taints):
            return tuple(self.taints)
        return (*self.taints, CORDON)

    @lazy
    def requirements(self) -> Requirements:
        """What is settled about it. Before launch a claim still leaves room for choice."""
        settled = Requirements.from_labels(self.labels)
        if self.launched or self.claim is None:
            return settled
        return self.claim.requirements.add(settled)

    @property
    def launched(self) -> bool:
        """Whether there is an instance, or a node that needs none."""
        return self.node is not None or (self.claim is not None and bool(self.claim.provider_id))

    @property
    def undefined_labels(self) -> frozenset[str]:
        """Labels that may be assumed to come: none for a real node, the well-known ones before launch."""
        return frozenset() if self.launched else WELL_KNOWN

    @lazy
    def capacity(self) -> Resources:
        """Everything it has, itself counted as one node."""
        claimed = self.claim.status.capacity if self.claim is not None else {}
        return {**_filled(self._node_capacity, claimed, settled=self.initialized), NODES: Quantity.of(1)}

    @property
    def _node_capacity(self) -> Resources:
        return self.node.status.capacity if self.node is not None else {}

    @lazy
    def allocatable(self) -> Resources:
        """What pods can have. A claim that is not launched has at least what its own pods need."""
        reported = self.node.status.allocatable if self.node is not None else {}
        if self.claim is None:
            return reported
        promised = self.claim.status.allocatable if self.launched else self.claim.spec.resources.requests
        return _filled(reported, promised, settled=self.initialized)

    @lazy
    def daemon_pods(self) -> tuple[tuple[str, tuple[datetime, str], Pod], ...]:
        """Its live pods of DaemonSets, each with the uid of its DaemonSet and its place in the order of age."""
        return tuple(_daemon_pods(self.pods))

    @lazy
    def requested(self) -> Resources:
        """What its pods that have not ended ask for."""
        return add(*(spec_requests(pod.spec) for pod in self.pods if not pod.terminal))

    @lazy
    def available(self) -> Resources:
        """What is left for more pods."""
        return subtract(self.allocatable, self.requested)


def _filled(reported: Resources, promised: Resources, *, settled: bool) -> Resources:
    """What the node reports; until it is settled, amounts it does not report yet are taken from the promise."""
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
    """Everything a decision may look at."""

    at: datetime
    nodes: tuple[ClusterNode, ...]
    unbound_pods: tuple[Pod, ...]
    nodepools: Mapping[str, NodePool]
    daemon_sets: tuple[DaemonSet, ...]
    catalogs: Mapping[str, tuple[InstanceType, ...]]
    well_known: frozenset[str] = field(default=WELL_KNOWN)
    storage: Storage = field(default_factory=Storage)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of each namespace, for the namespace selectors of affinity terms."""
    pdbs: tuple[PodDisruptionBudget, ...] = ()
    nominated: frozenset[str] = frozenset()
    """Names of nodes that pods were just sent to; they are not disrupted for a moment."""
    pause: str | None = None
    """What the annotation that pauses everything says, if it is there."""
    repair_statements: tuple[ProviderRepairPolicy, ...] = ()
    """The node conditions that the provider calls unhealthy."""
    unreadable: tuple[UnreadableEntry, ...] = ()
    """Objects that cannot be read. Nodes and NodeClaims among them are in `nodes` with what is known of them."""

    def pause_of(self, pool: str) -> Pause | None:
        """The pause in force for a pool, its own or everybody's."""
        everywhere = read_pause(self.pause, f"ConfigMap {SWITCH}", self.at)
        if everywhere is not None or pool not in self.nodepools:
            return everywhere
        return read_pause(self.nodepools[pool].metadata.annotations.get(PAUSE), f"NodePool {pool}", self.at)

    @lazy
    def unread(self) -> UnreadableIndex:
        """The unreadable objects by what they concern."""
        return UnreadableIndex(self.unreadable)

    def unread_on(self, node: ClusterNode) -> UnreadableEntry | None:
        """An unreadable object that concerns this node: what runs on it or what room it has is not known; or None."""
        return self.unread.of(node.node, node.claim) if self.unreadable else None

    @lazy
    def nodes_by_pool(self) -> Mapping[str, tuple[ClusterNode, ...]]:
        """The managed nodes of each pool."""
        grouped: dict[str, list[ClusterNode]] = {}
        for node in self.nodes:
            if pool := node.managed_by:
                grouped.setdefault(pool, []).append(node)
        return {pool: tuple(nodes) for pool, nodes in grouped.items()}

    @lazy
    def replaced(self) -> frozenset[str]:
        """Names of nodes that a command takes away and whose replacements are all on their way, or there."""
        concerned = [node for node in self.nodes if node.in_command]  # few of many
        coming = Counter(node.replaces for node in concerned)
        records = {node.name: node.record for node in concerned if node.record is not None}
        return frozenset(name for name, record in records.items() if coming[record.id] >= record.replacements)

    @lazy
    def running_commands(self) -> frozenset[str]:
        """Ids of disruptions whose nodes are not gone yet."""
        return frozenset([node.record.id for node in self.nodes if node.record is not None])

    @lazy
    def newest_daemon_pods(self) -> Mapping[str, Pod]:
        """The newest live pod of each DaemonSet, bound or not, by the uid of the DaemonSet; of equals the last by name.

        It shows what the API server and its webhooks make of the template.
        """
        newest: dict[str, tuple[tuple[datetime, str], Pod]] = {}
        for uid, age, pod in chain(_daemon_pods(self.unbound_pods), *[node.daemon_pods for node in self.nodes]):
            known = newest.get(uid)
            if known is None or known[0] < age:
                newest[uid] = age, pod
        return {uid: pod for uid, (_, pod) in newest.items()}

    @lazy
    def types_by_pool(self) -> Mapping[str, Mapping[str, InstanceType]]:
        """Each pool's catalogue by name."""
        return {pool: {each.name: each for each in types} for pool, types in self.catalogs.items()}

    def usage(self, pool: str) -> Resources:
        """What the nodes of a pool have together, those on their way out left aside.

        A claim that is not launched yet counts as the largest it may become: limits hold whatever the provider picks.
        """
        return add(*(self.size(node) for node in self.nodes_by_pool.get(pool, ()) if not node.deleting))

    def size(self, node: ClusterNode) -> Resources:
        """What a node has; one that is not launched yet, the most it may have."""
        return node.capacity if node.launched else self._largest(node)

    def _largest(self, node: ClusterNode) -> Resources:
        wanted = node.requirements.get(INSTANCE_TYPE)
        types = self.types_by_pool.get(node.managed_by, {}).values()
        sizes = [each.capacity for each in types if wanted.has(each.name)]
        names = {name for size in sizes for name in size}
        most = {name: max(size[name] for size in sizes if name in size) for name in names}
        return {**most, **node.capacity}
