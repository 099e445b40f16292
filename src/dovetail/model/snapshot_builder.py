"""Builds a Snapshot from lists of objects, and takes a Snapshot apart into objects.

Nodes and NodeClaims are joined by provider id, pods by the name of their node, as `ClusterState` does from watches.
Everything is sorted by name, so equal objects give equal snapshots.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from dovetail.model.catalog import InstanceType
from dovetail.model.cluster_objects import Namespace
from dovetail.model.kinds import (
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
    Kind,
)
from dovetail.model.kube_object import KubeObject, ObjectMeta
from dovetail.model.labels import WELL_KNOWN
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.storage import CSINode, CSINodeAllocatable, CSINodeDriver, CSINodeSpec, Storage, attach_limits

T = TypeVar("T", bound=KubeObject)
Joinable = TypeVar("Joinable", Node, NodeClaim)

INVENTORY: tuple[Kind[Any], ...] = (
    POD,
    NODE,
    NODE_CLAIM,
    NODE_POOL,
    DAEMON_SET,
    POD_DISRUPTION_BUDGET,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    STORAGE_CLASS,
    CSI_NODE,
)
"""The kinds that decisions read, in the order to list them: a kind that others refer to comes after them."""


class ClusterObjects:
    """The objects of each kind, by namespace and name."""

    def __init__(self, objects_by_kind: Mapping[Kind[Any], Iterable[KubeObject]]) -> None:
        self._by_kind: dict[Kind[Any], tuple[Any, ...]] = {
            kind: tuple(sorted(objects, key=lambda each: each.key)) for kind, objects in objects_by_kind.items()
        }

    def of(self, kind: Kind[T]) -> tuple[T, ...]:
        """Every object of a kind."""
        return self._by_kind.get(kind, ())

    def by_name(self, kind: Kind[T]) -> dict[str, T]:
        """The objects of a cluster-scoped kind."""
        return {each.name: each for each in self.of(kind)}


def build_snapshot(
    inventory: ClusterObjects,
    at: datetime,
    catalogs: Mapping[str, tuple[InstanceType, ...]],
    well_known: frozenset[str] = WELL_KNOWN,
    nominated: frozenset[str] = frozenset(),
) -> Snapshot:
    """The snapshot of these objects."""
    return Snapshot(
        at=at,
        nodes=join_nodes(inventory),
        unbound_pods=tuple(pod for pod in inventory.of(POD) if not pod.node_name),
        nodepools=inventory.by_name(NODE_POOL),
        daemon_sets=inventory.of(DAEMON_SET),
        catalogs=catalogs,
        well_known=well_known,
        storage=Storage(
            claims={each.key: each for each in inventory.of(PERSISTENT_VOLUME_CLAIM)},
            volumes=inventory.by_name(PERSISTENT_VOLUME),
            classes=inventory.by_name(STORAGE_CLASS),
            attach_limits=attach_limits({each.key: each for each in inventory.of(CSI_NODE)}),
        ),
        namespaces={each.name: each.metadata.labels for each in inventory.of(NAMESPACE)},
        pdbs=inventory.of(POD_DISRUPTION_BUDGET),
        nominated=nominated,
    )


def join_nodes(inventory: ClusterObjects) -> tuple[ClusterNode, ...]:
    """Every node with its claim and pods, and every claim that has no node yet, sorted by name.

    A node that several claims refer to counts as not managed, so that nothing is done to it.
    """
    nodes_by_instance = _by_provider_id(inventory.of(NODE))
    claims_by_instance = _by_provider_id(inventory.of(NODE_CLAIM))
    pods: dict[str, list[Pod]] = {}
    for pod in inventory.of(POD):
        pods.setdefault(pod.node_name, []).append(pod)
    joined = []
    for node in inventory.of(NODE):
        claims = claims_by_instance.get(node.provider_id, ())
        claim = claims[0] if len(claims) == 1 else None
        joined.append(ClusterNode(node, claim, tuple(pods.get(node.name, ()))))
    joined += [
        ClusterNode(None, claim) for claim in inventory.of(NODE_CLAIM) if claim.provider_id not in nodes_by_instance
    ]
    return tuple(sorted(joined, key=lambda each: each.name))


def _by_provider_id(values: Iterable[Joinable]) -> dict[str, list[Joinable]]:
    found: dict[str, list[Joinable]] = {}
    for value in values:
        if value.provider_id:
            found.setdefault(value.provider_id, []).append(value)
    return found


def snapshot_objects(snapshot: Snapshot) -> ClusterObjects:
    """The objects of a snapshot. Namespaces and CSINodes have only the fields that decisions read."""
    claims = {each.claim.key: each.claim for each in snapshot.nodes if each.claim is not None}
    bound = (pod for each in snapshot.nodes for pod in each.pods)
    return ClusterObjects(
        {
            POD: (*bound, *snapshot.unbound_pods),
            NODE: [each.node for each in snapshot.nodes if each.node is not None],
            NODE_CLAIM: claims.values(),
            NODE_POOL: snapshot.nodepools.values(),
            DAEMON_SET: snapshot.daemon_sets,
            POD_DISRUPTION_BUDGET: snapshot.pdbs,
            NAMESPACE: [
                Namespace(metadata=ObjectMeta(name=name, labels=labels)) for name, labels in snapshot.namespaces.items()
            ],
            PERSISTENT_VOLUME_CLAIM: snapshot.storage.claims.values(),
            PERSISTENT_VOLUME: snapshot.storage.volumes.values(),
            STORAGE_CLASS: snapshot.storage.classes.values(),
            CSI_NODE: [_csi_node(name, limits) for name, limits in snapshot.storage.attach_limits.items()],
        }
    )


def _csi_node(name: str, limits: Mapping[str, int]) -> CSINode:
    drivers = tuple(
        CSINodeDriver(name=driver, allocatable=CSINodeAllocatable(count=count))
        for driver, count in sorted(limits.items())
    )
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers))
