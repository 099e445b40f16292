"""A provider of instances as the controllers see it.

`launch` must be safe to repeat: asked twice for one NodeClaim it returns the same instance. `terminate` is idempotent
and raises `InstanceNotFound` once the instance is gone, which is how the caller knows that it is done. An instance that
nobody claims is terminated through a NodeClaim of which only the provider id is filled in.

A provider that hands every call on to another: what stands around one says only what it does differently.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dovetail.model.catalog import Instance, InstanceType
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Condition
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.model.repair import ProviderRepairPolicy

__all__ = ["CloudProvider", "Kept", "NodeClassReconciler", "NodeClassState", "ProviderRepairPolicy"]


@dataclass(frozen=True, slots=True)
class NodeClassState:
    """What a NodePool needs to know of its node class."""

    name: str
    generation: int
    deleting: bool
    ready: Condition | None
    state: str = ""
    """A digest of all that drift is judged by; empty where nothing can drift."""


class CloudProvider(Protocol):
    """A provider of instances."""

    @property
    def name(self) -> str:
        """Short name, as in `--provider`."""
        ...

    @property
    def well_known_labels(self) -> frozenset[str]:
        """Labels this provider's nodes get by themselves, on top of the general ones."""
        ...

    @property
    def node_class_label(self) -> str:
        """The label that marks a node as this provider's: `<group>/<lowercase kind>`. Others are never touched."""
        ...

    @property
    def can_drift(self) -> bool:
        """Whether an instance can come to differ from its node class. If not, nobody has to ask for `drift`."""
        ...

    def supports(self, ref: NodeClassRef) -> bool:
        """Whether node classes of this group and kind are this provider's."""
        ...

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """The node class referred to, or None if there is none."""
        ...

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """The full catalogue for a pool, offerings that cannot be had now included as unavailable."""
        ...

    async def launch(self, claim: NodeClaim) -> Instance:
        """Launch the cheapest instance that satisfies the claim, or return the one launched for it before."""
        ...

    async def terminate(self, claim: NodeClaim) -> None:
        """Begin to terminate the claim's instance; `InstanceNotFound` once it is gone."""
        ...

    async def get(self, provider_id: str) -> Instance:
        """One instance, or `InstanceNotFound`."""
        ...

    async def list(self) -> tuple[Instance, ...]:
        """Every instance of this cluster, terminating ones included and marked."""
        ...

    async def drift(self, claim: NodeClaim) -> str:
        """Why the instance no longer matches its node class, or empty."""
        ...

    def repair_statements(self) -> tuple[ProviderRepairPolicy, ...]:
        """The node conditions that make a node unhealthy."""
        ...

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """The cloud is about to run short of this: show it as unavailable for a while. Never raises, never waits."""
        ...


@dataclass(frozen=True, slots=True)
class Kept:
    """What came of looking after a node class: the wait until it must be looked at again, None for no need.

    `waiting_for` says what keeps a deleted class from going.
    """

    after: float | None
    waiting_for: str = ""


class NodeClassReconciler(Protocol):
    """Looks after node classes that need it: resolves what they select, reports it, lets them go."""

    @property
    def node_class_kind(self) -> Kind[Any]:
        """The kind it looks after."""
        ...

    def definition(self, node_class: Any, /) -> object:
        """What drift is judged by: while it stays equal, so does what is said of every instance of the class."""
        ...

    async def keep(self, node_class: Any, claims: Sequence[NodeClaim], /) -> Kept:
        """Bring one class up to date. `claims` are those that refer to it."""
        ...


class CloudWrapper:
    """Everything as the provider behind it has it."""

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud

    @property
    def name(self) -> str:
        """The provider's own."""
        return self._cloud.name

    @property
    def well_known_labels(self) -> frozenset[str]:
        """The provider's own."""
        return self._cloud.well_known_labels

    @property
    def node_class_label(self) -> str:
        """The provider's own."""
        return self._cloud.node_class_label

    @property
    def can_drift(self) -> bool:
        """The provider's own."""
        return self._cloud.can_drift

    def supports(self, ref: NodeClassRef) -> bool:
        """Ask the provider."""
        return self._cloud.supports(ref)

    def repair_statements(self) -> tuple[ProviderRepairPolicy, ...]:
        """Ask the provider."""
        return self._cloud.repair_statements()

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Tell the provider."""
        self._cloud.avoid(instance_type, zone, capacity_type)

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """Ask the provider."""
        return await self._cloud.node_class(ref)

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Ask the provider."""
        return await self._cloud.instance_types(pool)

    async def launch(self, claim: NodeClaim) -> Instance:
        """Ask the provider."""
        return await self._cloud.launch(claim)

    async def terminate(self, claim: NodeClaim) -> None:
        """Ask the provider."""
        await self._cloud.terminate(claim)

    async def get(self, provider_id: str) -> Instance:
        """Ask the provider."""
        return await self._cloud.get(provider_id)

    async def list(self) -> tuple[Instance, ...]:
        """Ask the provider."""
        return await self._cloud.list()

    async def drift(self, claim: NodeClaim) -> str:
        """Ask the provider."""
        return await self._cloud.drift(claim)
