"""The interface of a cloud provider.

`launch` is idempotent: called twice for one NodeClaim it returns the same instance. `terminate` is idempotent as well,
and raises `InstanceNotFound` once the instance is gone, so callers repeat it until then. An instance without a
NodeClaim is terminated through a NodeClaim that has only a provider id.

`UnusableProvider` names a provider that NodePools refer to but that cannot run, and why.

`NodeClassReconciler` is the optional part of a provider that maintains its node classes. `CloudWrapper` delegates every
call to another provider, so that a wrapper overrides only what it changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dovetail.model.catalog import Instance, InstanceType
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Condition
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.model.repair import ProviderRepairPolicy

__all__ = ["CloudProvider", "Kept", "NodeClassReconciler", "NodeClassState", "ProviderRepairPolicy", "UnusableProvider"]


@dataclass(frozen=True, slots=True)
class NodeClassState:
    """The state of a node class that NodePools depend on."""

    name: str
    generation: int
    deleting: bool
    ready: Condition | None
    state: str = ""
    """A digest of the fields that drift depends on; empty if nothing can drift."""


class CloudProvider(Protocol):
    """A provider of instances."""

    @property
    def name(self) -> str:
        """Short name, as in `--provider`."""
        ...

    @property
    def well_known_labels(self) -> frozenset[str]:
        """Labels that this provider sets on its nodes, in addition to the well-known Kubernetes labels."""
        ...

    @property
    def node_class_labels(self) -> frozenset[str]:
        """The labels of this provider's nodes: `<group>/<lowercase kind>`. Nodes without one are never changed."""
        ...

    @property
    def can_drift(self) -> bool:
        """Whether instances can drift from their node class. If not, `drift` need not be called."""
        ...

    def supports(self, ref: NodeClassRef) -> bool:
        """Whether node classes of this group and kind belong to this provider."""
        ...

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """Return the state of the node class, or None if it does not exist."""
        ...

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Return the full catalog of a pool, including unavailable offerings, marked as such."""
        ...

    async def launch(self, claim: NodeClaim) -> Instance:
        """Launch the cheapest instance that satisfies the claim, or return the instance it already has."""
        ...

    async def terminate(self, claim: NodeClaim) -> None:
        """Start to terminate the claim's instance; raises `InstanceNotFound` once it is gone."""
        ...

    async def get(self, provider_id: str) -> Instance:
        """Return one instance, or raise `InstanceNotFound`."""
        ...

    async def list(self) -> tuple[Instance, ...]:
        """Return every instance of this cluster, including terminating ones, marked as such."""
        ...

    async def drift(self, claim: NodeClaim) -> str:
        """Return why the instance no longer matches its node class, or an empty string."""
        ...

    def repair_statements(self) -> tuple[ProviderRepairPolicy, ...]:
        """Return the node conditions that make a node unhealthy, with their tolerations."""
        ...

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Mark an offering as unavailable for a while: its capacity is being reclaimed. Never raises or waits."""
        ...


@dataclass(frozen=True, slots=True)
class UnusableProvider:
    """A provider that lacks a setting or a package. Objects that refer to its node classes are left alone."""

    name: str
    node_class_kind: Kind[Any]
    why: str

    def supports(self, ref: NodeClassRef) -> bool:
        """Whether node classes of this group and kind belong to the provider; v1beta1 allows to leave both out."""
        return ref.api_group in ("", self.node_class_kind.group) and ref.kind in ("", self.node_class_kind.name)


@dataclass(frozen=True, slots=True)
class Kept:
    """The result of reconciling a node class: the seconds until the next call, None for only after a change.

    `waiting_for` says what blocks the deletion of a class. `shifted_zones` are the zones of the class that a zonal
    shift excludes: ids by name.
    """

    after: float | None
    waiting_for: str = ""
    shifted_zones: Mapping[str, str] = field(default_factory=dict)


class NodeClassReconciler(Protocol):
    """Maintains node classes: resolves what they select, writes their status, removes their finalizer."""

    @property
    def node_class_kind(self) -> Kind[Any]:
        """The kind of the node classes."""
        ...

    def definition(self, node_class: Any, /) -> object:
        """Return the part of the class that drift depends on: while it is equal, no instance changes its drift."""
        ...

    async def keep(self, node_class: Any, claims: Sequence[NodeClaim], /) -> Kept:
        """Reconcile one class. `claims` are the NodeClaims that refer to it."""
        ...


class CloudWrapper:
    """A provider that delegates every call to another one."""

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud

    @property
    def name(self) -> str:
        """Delegate."""
        return self._cloud.name

    @property
    def well_known_labels(self) -> frozenset[str]:
        """Delegate."""
        return self._cloud.well_known_labels

    @property
    def node_class_labels(self) -> frozenset[str]:
        """Delegate."""
        return self._cloud.node_class_labels

    @property
    def can_drift(self) -> bool:
        """Delegate."""
        return self._cloud.can_drift

    def supports(self, ref: NodeClassRef) -> bool:
        """Delegate."""
        return self._cloud.supports(ref)

    def repair_statements(self) -> tuple[ProviderRepairPolicy, ...]:
        """Delegate."""
        return self._cloud.repair_statements()

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Delegate."""
        self._cloud.avoid(instance_type, zone, capacity_type)

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """Delegate."""
        return await self._cloud.node_class(ref)

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Delegate."""
        return await self._cloud.instance_types(pool)

    async def launch(self, claim: NodeClaim) -> Instance:
        """Delegate."""
        return await self._cloud.launch(claim)

    async def terminate(self, claim: NodeClaim) -> None:
        """Delegate."""
        await self._cloud.terminate(claim)

    async def get(self, provider_id: str) -> Instance:
        """Delegate."""
        return await self._cloud.get(provider_id)

    async def list(self) -> tuple[Instance, ...]:
        """Delegate."""
        return await self._cloud.list()

    async def drift(self, claim: NodeClaim) -> str:
        """Delegate."""
        return await self._cloud.drift(claim)
