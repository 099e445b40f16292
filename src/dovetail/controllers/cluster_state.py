"""What the controllers know of the cluster: informers for every kind, joined and indexed as changes arrive.

An event replaces what changed and leaves the rest shared, so a snapshot costs little however large the cluster is.
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
    """The cluster as last heard of."""

    def __init__(
        self,
        cluster: Cluster,
        well_known: frozenset[str] = frozenset(),
        namespace: str = "default",
        stale_after: timedelta = timedelta(seconds=STALE_AFTER),
    ) -> None:
        self.caches: list[Informer[Any]] = []
        """Every informer whose staleness counts; a controller that runs one of its own adds it."""
        self.stale_after = stale_after
        self.pods = self._cache(cluster, POD)
        self.nodes = self._cache(cluster, NODE)
        self.claims = self._cache(cluster, NODE_CLAIM)
        self.nodepools = self._cache(cluster, NODE_POOL)
        self.daemon_sets = self._cache(cluster, DAEMON_SET)
        self.namespaces = self._cache(cluster, NAMESPACE)
        self.volume_claims = self._cache(cluster, PERSISTENT_VOLUME_CLAIM)
        self.volumes = self._cache(cluster, PERSISTENT_VOLUME)
        self.storage_classes = self._cache(cluster, STORAGE_CLASS)
        self.csi_nodes = self._cache(cluster, CSI_NODE)
        self.pdbs = self._cache(cluster, POD_DISRUPTION_BUDGET)
        self.attachments = self._cache(cluster, VOLUME_ATTACHMENT)
        switch = ListOptions(namespace=namespace, field_selector=f"metadata.name={SWITCH}")
        self.switch = self._cache(cluster, CONFIG_MAP, switch)
        """Where everything is paused. Nobody waits for it: until it is known, disruption is paused."""
        self.hidden = UnreadableObjects(self.informers)
        self._nominated_until: dict[str, datetime] = {}
        self._well_known = WELL_KNOWN | well_known
        self._pods_by_node: dict[str, dict[Key, Pod]] = {}
        self._unbound: dict[Key, Pod] = {}
        self._attachments_by_node: dict[str, dict[Key, VolumeAttachment]] = {}
        self._nodes_by_provider_id: dict[str, dict[str, Node]] = {}
        self._claims_by_provider_id: dict[str, dict[str, NodeClaim]] = {}
        self._joined: dict[str, ClusterNode] = {}
        self._alone: dict[str, ClusterNode] = {}  # claims without a node
        self._everything: tuple[ClusterNode, ...] | None = None  # until a node, a claim or a bound pod changes
        self.revision = 0
        """Grows with every change that means something; a heartbeat does not."""
        self._news = asyncio.Event()
        self._informer_by_kind = {each.kind.name: each for each in (*self.informers, self.switch)}
        self._listen()

    def _listen(self) -> None:
        for informer in (*self.informers, self.switch):
            if informer is not self.claims:
                informer.listen(self._changed)
            informer.listen_unreadable(self._unreadable_changed)
        self.pods.listen(self._pod_changed)
        self.nodes.listen(self._node_changed)
        self.claims.listen(self._claim_changed)
        self.attachments.listen(self._attachment_changed)

    def _cache(self, cluster: Cluster, kind: Kind[T], options: ListOptions = EVERYTHING) -> Informer[T]:
        made = Informer(cluster, kind, options, stale_after=self.stale_after.total_seconds())
        self.caches.append(made)
        return made

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All of them, to be run."""
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
        """The kinds not listed yet, as a sentence each."""
        return tuple(f"{each.kind.plural} are not listed yet" for each in self.informers if not each.synced.is_set())

    def stale(self) -> tuple[Informer[Any], ...]:
        """The caches that may no longer be true; while there are any, nothing new is disrupted."""
        return tuple(each for each in self.caches if each.stale)

    def observe(self, kind: Kind[T], value: T) -> T:
        """Take in the answer to a write of our own."""
        informer = self._informer_by_kind.get(kind.name)
        if informer is not None:
            informer.observe(value)
        return value

    def observe_all(self, kind: Kind[T], listing: Listing[T]) -> None:
        """Take in a list that was asked for, with what in it cannot be read."""
        for each in (*listing.items, *listing.unreadable):
            self._informer_by_kind[kind.name].observe(each)

    def _changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        if before is None or after is None or not _alike(before, after):
            self._move_on()

    def _unreadable_changed(self, before: UnreadableObject | None, after: UnreadableObject | None) -> None:
        self._everything = None
        if (
            before is None
            or after is None
            or before.faults != after.faults
            or not _alike(before.partial, after.partial)
        ):
            self._move_on()

    def _move_on(self) -> None:
        self.revision += 1
        self._news.set()

    async def moved_on(self, revision: int) -> None:
        """Wait until there is a later revision than this one."""
        while self.revision == revision:
            self._news.clear()
            await self._news.wait()

    @property
    def pause(self) -> str | None:
        """What the annotation that pauses everything says."""
        if not self.switch.synced.is_set() or self.switch.unreadable:
            return UNREAD
        return next((each.metadata.annotations.get(PAUSE) for each in self.switch.items.values()), None)

    @property
    def unbound_pods(self) -> Iterable[Pod]:
        """The pods that have no node."""
        return self._unbound.values()

    def pool(self, name: str) -> NodePool | None:
        """A NodePool by name."""
        return self.nodepools.items.get(Key("", name))

    def nodes_of(self, claim: NodeClaim) -> tuple[Node, ...]:
        """The nodes with this claim's provider id; more than one is a fault."""
        return _by_name(self._nodes_by_provider_id.get(claim.status.provider_id))

    def claims_of(self, node: Node) -> tuple[NodeClaim, ...]:
        """The claims with this node's provider id; more than one is a fault."""
        return _by_name(self._claims_by_provider_id.get(node.spec.provider_id))

    def claim_of(self, node: Node) -> NodeClaim | None:
        """The claim of a node, if there is exactly one."""
        found = self.claims_of(node)
        return found[0] if len(found) == 1 else None

    def latest(self, claim: NodeClaim) -> NodeClaim:
        """The claim as it was written since; as it is given where it is gone."""
        known = self.claims.items.get(claim.key)
        return known if known is not None and known.metadata.uid == claim.metadata.uid else claim

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        """The pods bound to a node, by name."""
        bound = self._pods_by_node.get(node_name, {})
        return tuple(bound[key] for key in sorted(bound))

    def attachments_of(self, node_name: str) -> tuple[VolumeAttachment, ...]:
        """The volumes attached to a node, by name."""
        held = self._attachments_by_node.get(node_name, {})
        return tuple(held[key] for key in sorted(held))

    def cluster_node(self, node: Node) -> ClusterNode:
        """A node joined with its claim and pods; not told apart by what of the claim only people read."""
        name = node.metadata.name
        joined = self._joined.get(name)
        if joined is None:
            joined = self._joined[name] = ClusterNode(node, self.claim_of(node), self.pods_on(name))
        return joined

    def cluster_nodes(self) -> tuple[ClusterNode, ...]:
        """Every node, and every claim that has none yet, by name; the same value while nothing decisive changes."""
        if self._everything is not None:
            return self._everything
        known = self._joined
        joined = [known.get(key.name) or self.cluster_node(node) for key, node in self.nodes.items.items()]
        for claim in self.claims.items.values():
            if claim.status.provider_id not in self._nodes_by_provider_id:
                if claim.name not in self._alone:
                    self._alone[claim.name] = ClusterNode(None, claim)
                joined.append(self._alone[claim.name])
        if self.nodes.unreadable or self.claims.unreadable:
            joined = self.hidden.join(joined, self.pods_on)
        self._everything = tuple(sorted(joined, key=_name_of))
        return self._everything

    def snapshot(self, now: datetime, catalogs: Mapping[str, tuple[InstanceType, ...]]) -> Snapshot:
        """The cluster at this instant."""
        return Snapshot(
            at=now,
            nodes=self.cluster_nodes(),
            unbound_pods=tuple(self._unbound[key] for key in sorted(self._unbound)),
            nodepools={key.name: pool for key, pool in sorted(self.nodepools.items.items())},
            daemon_sets=tuple(value for _, value in sorted(self.daemon_sets.items.items())),
            catalogs=catalogs,
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
            unreadable=self.hidden.unread(),
        )

    def nominate(self, name: str, until: datetime) -> None:
        """Pods are on their way to this node, or to this claim's node: leave it alone until then."""
        self._nominated_until[name] = max(until, self._nominated_until.get(name, until))

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
                self._everything = None
                self._joined.pop(pod.node_name, None)
        if before is not None:
            key = before.key
            self._unbound.pop(key, None)
            bound = self._pods_by_node.get(before.node_name, {})
            bound.pop(key, None)
            if not bound:
                self._pods_by_node.pop(before.node_name, None)
        if after is not None and after.node_name:
            self._pods_by_node.setdefault(after.node_name, {})[after.key] = after
        elif after is not None:
            self._unbound[after.key] = after

    def _attachment_changed(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        if before is not None:
            self._attachments_by_node.get(before.spec.node_name, {}).pop(before.key, None)
        if after is not None:
            self._attachments_by_node.setdefault(after.spec.node_name, {})[after.key] = after

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        _reindex(self._nodes_by_provider_id, before, after)
        self._everything = None
        for node in (before, after):
            if node is not None:
                self._joined.pop(node.name, None)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        _reindex(self._claims_by_provider_id, before, after)
        if before is not None and after is not None and _decide_alike(before, after):
            return
        self._move_on()
        self._everything = None
        for claim in (before, after):
            if claim is not None:
                self._alone.pop(claim.name, None)
                for node in self.nodes_of(claim):
                    self._joined.pop(node.name, None)


_name_of = attrgetter("name")


def _alike(before: KubeObject, after: KubeObject) -> bool:
    """Whether two versions of an object differ in nothing but the number of the version."""
    if getattr(before, "status", None) != getattr(after, "status", None):
        return False
    metadata = msgspec.structs.replace(after.metadata, resource_version=before.metadata.resource_version)
    return before == msgspec.structs.replace(after, metadata=metadata)


def _decide_alike(before: NodeClaim, after: NodeClaim) -> bool:
    """Whether two versions of a claim differ in nothing but what only people read: nobody decides by that condition."""
    old, new = before.status, after.status
    if old.last_pod_event_time != new.last_pod_event_time:
        return False
    if without(old.conditions, CONSOLIDATABLE) != without(new.conditions, CONSOLIDATABLE):
        return False
    return _alike(
        before, msgspec.structs.replace(after, status=msgspec.structs.replace(new, conditions=old.conditions))
    )


Indexed = TypeVar("Indexed", Node, NodeClaim)


def _by_name(found: dict[str, Indexed] | None) -> tuple[Indexed, ...]:
    """Almost always there is one."""
    if not found:
        return ()
    return tuple(found.values()) if len(found) == 1 else tuple(found[name] for name in sorted(found))


def _reindex(index: dict[str, dict[str, Indexed]], before: Indexed | None, after: Indexed | None) -> None:
    if before is not None and before.provider_id:
        held = index.get(before.provider_id, {})
        held.pop(before.name, None)
        if not held:
            index.pop(before.provider_id, None)
    if after is not None and after.provider_id:
        index.setdefault(after.provider_id, {})[after.name] = after
