"""A provider that hands every call on to another: what stands around one says only what it does differently."""

from dovetail.model.catalog import Instance, InstanceType
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.model.repair import ProviderRepairPolicy
from dovetail.ports.cloud import CloudProvider, NodeClassState


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
