"""The controllers' view of the cluster: one informer per kind, joined and indexed as watch events arrive.

The main structures are indexes of pods and volume attachments by node name, of Nodes and NodeClaims by provider id,
and a cache of `ClusterNode` values (a Node joined with its NodeClaim and pods). An event invalidates only the
`ClusterNode` it concerns, and all other values are shared between snapshots: a snapshot joins only what changed, and
reuses the sorted tuple of nodes while no node, claim or bound pod changes.

`revision` grows with every change that may alter a decision. A new resource version alone, as after a heartbeat, and a
change of the `Consolidatable` condition, which no decision reads, do not count.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from dovetail.controllers.unreadable_objects import UnreadableObjects
from dovetail.model.catalog import InstanceType
from dovetail.model.conditions import without
from dovetail.model.kinds import (
    CONFIG_MAP,
    CSI_NODE,
    DAEMON_SET,
    NAMESPACE,
    NODE,
    NODE_CLAIM,
    NODE_POOL,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    Kind,
)
from dovetail.model.kube_object import Key, KubeObject, UnreadableObject
from dovetail.model.labels import WELL_KNOWN
from dovetail.model.node import Node
from dovetail.model.nodeclaim import CONSOLIDATABLE, NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pause import PAUSE, SWITCH, UNREAD
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.storage import Storage, VolumeAttachment, attach_limits
from dovetail.model.unreadable_objects import completed
from dovetail.ports.cluster import EVERYTHING, Cluster, Listing, ListOptions
from dovetail.runtime.informer import STALE_AFTER, Informer

T = TypeVar("T", bound=KubeObject)


class ClusterState:
    """The informers of all kinds, and the indexes over them."""

    def __init__(
        self,
        cluster: Cluster,
        well_known: frozenset[str] = frozenset(),
        namespace: str = "default",
        stale_after: timedelta = timedelta(seconds=STALE_AFTER),
        *,
        relax_min_values: bool = False,
    ) -> None:
        self.caches: list[Informer[Any]] = []
        """Every informer whose staleness stops disruption; a controller that runs another informer adds it here."""
        self.stale_after = stale_after
        self._relax_min_values = relax_min_values
        self.pods = self._new_informer(cluster, POD)
        self.nodes = self._new_informer(cluster, NODE)
        self.claims = self._new_informer(cluster, NODE_CLAIM)
        self.nodepools = self._new_informer(cluster, NODE_POOL)
        self.daemon_sets = self._new_informer(cluster, DAEMON_SET)
        self.namespaces = self._new_informer(cluster, NAMESPACE)
        self.volume_claims = self._new_informer(cluster, PERSISTENT_VOLUME_CLAIM)
        self.volumes = self._new_informer(cluster, PERSISTENT_VOLUME)
        self.storage_classes = self._new_informer(cluster, STORAGE_CLASS)
        self.csi_nodes = self._new_informer(cluster, CSI_NODE)
        self.pdbs = self._new_informer(cluster, POD_DISRUPTION_BUDGET)
        self.attachments = self._new_informer(cluster, VOLUME_ATTACHMENT)
        switch = ListOptions(namespace=namespace, field_selector=f"metadata.name={SWITCH}")
        self.switch = self._new_informer(cluster, CONFIG_MAP, switch)
        """The ConfigMap that pauses all disruption. Not part of `synced`: until it is listed, disruption is paused."""
        self.unreadable = UnreadableObjects(self.informers)
        self._nominated_until: dict[str, datetime] = {}
        self._well_known = WELL_KNOWN | well_known
        self._pods_by_node: dict[str, dict[Key, Pod]] = {}
        self._unbound_pods: dict[Key, Pod] = {}
        self._attachments_by_node: dict[str, dict[Key, VolumeAttachment]] = {}
        self._nodes_by_provider_id: dict[str, dict[str, Node]] = {}
        self._claims_by_provider_id: dict[str, dict[str, NodeClaim]] = {}
        self._cluster_node_by_name: dict[str, ClusterNode] = {}
        self._nodeless_claim_by_name: dict[str, ClusterNode] = {}  # ClusterNodes without a Node
        self._cluster_nodes: tuple[ClusterNode, ...] | None = None  # until a node, a claim or a bound pod changes
        self.revision = 0
        """Grows with every change that may alter a decision."""
        self._changed_event = asyncio.Event()
        self._informer_by_kind = {each.kind.name: each for each in (*self.informers, self.switch)}
        self._add_listeners()

    def _add_listeners(self) -> None:
        for informer in (*self.informers, self.switch):
            if informer is not self.claims:
                informer.listen(self._changed)
            informer.listen_unreadable(self._unreadable_changed)
        self.pods.listen(self._pod_changed)
        self.nodes.listen(self._node_changed)
        self.claims.listen(self._claim_changed)
        self.attachments.listen(self._attachment_changed)

    def _new_informer(self, cluster: Cluster, kind: Kind[T], options: ListOptions = EVERYTHING) -> Informer[T]:
        informer = Informer(cluster, kind, options, stale_after=self.stale_after.total_seconds())
        self.caches.append(informer)
        return informer

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """The informers that must be listed before controllers start."""
        return (
            self.nodepools,
            self.claims,
            self.nodes,
            self.namespaces,
            self.volume_claims,
            self.volumes,
            self.storage_classes,
            self.csi_nodes,
            self.daemon_sets,
            self.pdbs,
            self.attachments,
            self.pods,
        )

    async def synced(self) -> None:
        """Wait until every kind has been listed once."""
        await asyncio.gather(*(informer.synced.wait() for informer in self.informers))

    def unsynced(self) -> tuple[str, ...]:
        """Return a sentence for each kind that is not listed yet."""
        return tuple(f"{each.kind.plural} are not listed yet" for each in self.informers if not each.synced.is_set())

    def stale(self) -> tuple[Informer[Any], ...]:
        """Return the stale caches; while there is one, no new disruption starts."""
        return tuple(each for each in self.caches if each.stale)

    def observe(self, kind: Kind[T], value: T) -> T:
        """Store the answer to one of our writes or reads in the cache, and return it."""
        informer = self._informer_by_kind.get(kind.name)
        if informer is not None:
            informer.observe(value)
        return value

    def observe_all(self, kind: Kind[T], listing: Listing[T]) -> None:
        """Store every object of a list, unreadable ones included, in the cache."""
        for each in (*listing.items, *listing.unreadable):
            self._informer_by_kind[kind.name].observe(each)

    def _changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        if before is None or after is None or not _equal_ignoring_version(before, after):
            self._bump_revision()

    def _unreadable_changed(self, before: UnreadableObject | None, after: UnreadableObject | None) -> None:
        self._cluster_nodes = None
        if (
            before is None
            or after is None
            or before.faults != after.faults
            or not _equal_ignoring_version(before.partial, after.partial)
        ):
            self._bump_revision()

    def _bump_revision(self) -> None:
        self.revision += 1
        self._changed_event.set()

    async def wait_for_change(self, revision: int) -> None:
        """Wait until the revision differs from this one."""
        while self.revision == revision:
            self._changed_event.clear()
            await self._changed_event.wait()

    @property
    def pause(self) -> str | None:
        """The value of the annotation that pauses all disruption, or None."""
        if not self.switch.synced.is_set() or self.switch.unreadable:
            return UNREAD
        return next((each.metadata.annotations.get(PAUSE) for each in self.switch.items.values()), None)

    @property
    def unbound_pods(self) -> Iterable[Pod]:
        """The pods that are not bound to a node."""
        return self._unbound_pods.values()

    def pool(self, name: str) -> NodePool | None:
        """Return a NodePool by name."""
        return self.nodepools.items.get(Key("", name))

    def nodes_of(self, claim: NodeClaim) -> tuple[Node, ...]:
        """Return the nodes with this claim's provider id; more than one is a fault."""
        return _by_name(self._nodes_by_provider_id.get(claim.status.provider_id))

    def claims_of(self, node: Node) -> tuple[NodeClaim, ...]:
        """Return the claims with this node's provider id; more than one is a fault."""
        return _by_name(self._claims_by_provider_id.get(node.spec.provider_id))

    def claim_of(self, node: Node) -> NodeClaim | None:
        """Return the claim of a node, if there is exactly one."""
        found = self.claims_of(node)
        return found[0] if len(found) == 1 else None

    def latest(self, claim: NodeClaim) -> NodeClaim:
        """Return the cached version of the claim, or the given one if the cache no longer has it."""
        known = self.claims.items.get(claim.key)
        return known if known is not None and known.metadata.uid == claim.metadata.uid else claim

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        """Return the pods bound to a node, sorted by name."""
        bound = self._pods_by_node.get(node_name, {})
        return tuple(bound[key] for key in sorted(bound))

    def attachments_of(self, node_name: str) -> tuple[VolumeAttachment, ...]:
        """Return the volume attachments of a node, sorted by name."""
        held = self._attachments_by_node.get(node_name, {})
        return tuple(held[key] for key in sorted(held))

    def cluster_node(self, node: Node) -> ClusterNode:
        """Return a node joined with its claim and pods. The claim's `Consolidatable` condition may be out of date."""
        name = node.metadata.name
        joined = self._cluster_node_by_name.get(name)
        if joined is None:
            joined = self._cluster_node_by_name[name] = ClusterNode(node, self.claim_of(node), self.pods_on(name))
        return joined

    def cluster_nodes(self) -> tuple[ClusterNode, ...]:
        """Return every node, and every claim without a node, by name; the same tuple while nothing changes."""
        if self._cluster_nodes is not None:
            return self._cluster_nodes
        known = self._cluster_node_by_name
        joined = [known.get(key.name) or self.cluster_node(node) for key, node in self.nodes.items.items()]
        for claim in self.claims.items.values():
            if claim.status.provider_id not in self._nodes_by_provider_id:
                if claim.name not in self._nodeless_claim_by_name:
                    self._nodeless_claim_by_name[claim.name] = ClusterNode(None, claim)
                joined.append(self._nodeless_claim_by_name[claim.name])
        if self.nodes.unreadable or self.claims.unreadable:
            joined = self.unreadable.join(joined, self.pods_on)
        self._cluster_nodes = tuple(sorted(joined, key=_name_of))
        return self._cluster_nodes

    def snapshot(
        self, now: datetime, catalogs: Mapping[str, tuple[InstanceType, ...]], missing: Mapping[str, str] | None = None
    ) -> Snapshot:
        """Return the cluster at this instant, with the catalogs of NodePools or why they are missing."""
        return Snapshot(
            at=now,
            nodes=self.cluster_nodes(),
            unbound_pods=tuple(self._unbound_pods[key] for key in sorted(self._unbound_pods)),
            nodepools={key.name: pool for key, pool in sorted(self.nodepools.items.items())},
            daemon_sets=tuple(value for _, value in sorted(self.daemon_sets.items.items())),
            catalogs=catalogs,
            missing_catalogs=missing or {},
            well_known=self._well_known,
            storage=self._storage(),
            namespaces={key.name: each.metadata.labels for key, each in self.namespaces.items.items()},
            pdbs=completed(
                POD_DISRUPTION_BUDGET,
                (value for _, value in sorted(self.pdbs.items.items())),
                (bad for _, bad in sorted(self.pdbs.unreadable.items())),
            ),
            nominated=self._nominated(now),
            pause=self.pause,
            relax_min_values=self._relax_min_values,
            unreadable=self.unreadable.unread(),
        )

    def nominate(self, name: str, until: datetime) -> None:
        """Do not disrupt this node, or the node of this claim, until then: pods are about to be scheduled on it."""
        self._nominated_until[name] = max(until, self._nominated_until.get(name, until))

    def is_nominated(self, name: str, now: datetime) -> bool:
        """Whether pods are about to be scheduled on this node."""
        until = self._nominated_until.get(name)
        return until is not None and until > now

    def _nominated(self, now: datetime) -> frozenset[str]:
        self._nominated_until = {name: until for name, until in self._nominated_until.items() if until > now}
        return frozenset(self._nominated_until)

    def _storage(self) -> Storage:
        return Storage(
            claims=dict(self.volume_claims.items),
            volumes={key.name: volume for key, volume in self.volumes.items.items()},
            classes={key.name: each for key, each in self.storage_classes.items.items()},
            attach_limits=attach_limits(self.csi_nodes.items),
        )

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            if pod is not None and pod.node_name:
                self._cluster_nodes = None
                self._cluster_node_by_name.pop(pod.node_name, None)
        if before is not None:
            key = before.key
            self._unbound_pods.pop(key, None)
            bound = self._pods_by_node.get(before.node_name, {})
            bound.pop(key, None)
            if not bound:
                self._pods_by_node.pop(before.node_name, None)
        if after is not None and after.node_name:
            self._pods_by_node.setdefault(after.node_name, {})[after.key] = after
        elif after is not None:
            self._unbound_pods[after.key] = after

    def _attachment_changed(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        if before is not None:
            self._attachments_by_node.get(before.spec.node_name, {}).pop(before.key, None)
        if after is not None:
            self._attachments_by_node.setdefault(after.spec.node_name, {})[after.key] = after

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        _reindex(self._nodes_by_provider_id, before, after)
        self._cluster_nodes = None
        for node in (before, after):
            if node is not None:
                self._cluster_node_by_name.pop(node.name, None)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        _reindex(self._claims_by_provider_id, before, after)
        if before is not None and after is not None and _equal_for_decisions(before, after):
            return
        self._bump_revision()
        self._cluster_nodes = None
        for claim in (before, after):
            if claim is not None:
                self._nodeless_claim_by_name.pop(claim.name, None)
                for node in self.nodes_of(claim):
                    self._cluster_node_by_name.pop(node.name, None)


_name_of = attrgetter("name")


def _equal_ignoring_version(before: KubeObject, after: KubeObject) -> bool:
    """Whether two versions of an object are equal except for their resource version."""
    if getattr(before, "status", None) != getattr(after, "status", None):
        return False
    metadata = msgspec.structs.replace(after.metadata, resource_version=before.metadata.resource_version)
    return before == msgspec.structs.replace(after, metadata=metadata)


def _equal_for_decisions(before: NodeClaim, after: NodeClaim) -> bool:
    """Whether two versions of a claim are equal except for `Consolidatable`, which no decision reads."""
    old, new = before.status, after.status
    if old.last_pod_event_time != new.last_pod_event_time:
        return False
    if without(old.conditions, CONSOLIDATABLE) != without(new.conditions, CONSOLIDATABLE):
        return False
    return _equal_ignoring_version(
        before, msgspec.structs.replace(after, status=msgspec.structs.replace(new, conditions=old.conditions))
    )


Indexed = TypeVar("Indexed", Node, NodeClaim)


def _by_name(found: dict[str, Indexed] | None) -> tuple[Indexed, ...]:
    return tuple(found[name] for name in sorted(found)) if found else ()


def _reindex(index: dict[str, dict[str, Indexed]], before: Indexed | None, after: Indexed | None) -> None:
    if before is not None and before.provider_id:
        held = index.get(before.provider_id, {})
        held.pop(before.name, None)
        if not held:
            index.pop(before.provider_id, None)
    if after is not None and after.provider_id:
        index.setdefault(after.provider_id, {})[after.name] = after
