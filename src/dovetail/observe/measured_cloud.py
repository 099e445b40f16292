"""A provider whose calls are timed and whose failures are counted; otherwise it is the provider itself."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TypeVar

from dovetail.model.catalog import Instance, InstanceType
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodeClassRef, NodePool
from dovetail.ports.cloud import CloudProvider, NodeClassState, RepairStatement
from dovetail.ports.errors import InstanceNotFound, WorldError
from dovetail.ports.metrics import Metrics

R = TypeVar("R")
_CONTROLLERS: Mapping[str, str] = {
    "Provisioner.run": "provisioner",
    "Disruption.run": "disruption",
    "GarbageCollection.run": "nodeclaim.garbagecollection",
}
"""Loops by the name of their task; reconcilers name theirs themselves."""


class MeasuredCloud:
    """Wraps a provider."""

    def __init__(self, cloud: CloudProvider, metrics: Metrics) -> None:
        self._cloud = cloud
        self._metrics = metrics

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

    def supports(self, ref: NodeClassRef) -> bool:
        """Ask the provider."""
        return self._cloud.supports(ref)

    def repair_statements(self) -> tuple[RepairStatement, ...]:
        """Ask the provider."""
        return self._cloud.repair_statements()

    def avoid(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Tell the provider."""
        self._cloud.avoid(instance_type, zone, capacity_type)

    async def node_class(self, ref: NodeClassRef) -> NodeClassState | None:
        """Ask the provider; reading an API object is no call worth timing."""
        return await self._cloud.node_class(ref)

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Timed."""
        return await self._timed("GetInstanceTypes", self._cloud.instance_types(pool))

    async def launch(self, claim: NodeClaim) -> Instance:
        """Timed."""
        return await self._timed("Create", self._cloud.launch(claim))

    async def terminate(self, claim: NodeClaim) -> None:
        """Timed."""
        await self._timed("Delete", self._cloud.terminate(claim))

    async def get(self, provider_id: str) -> Instance:
        """Timed."""
        return await self._timed("Get", self._cloud.get(provider_id))

    async def list(self) -> tuple[Instance, ...]:
        """Timed."""
        return await self._timed("List", self._cloud.list())

    async def drift(self, claim: NodeClaim) -> str:
        """Timed."""
        return await self._timed("IsDrifted", self._cloud.drift(claim))

    async def _timed(self, method: str, call: Awaitable[R]) -> R:
        loop = asyncio.get_running_loop()
        labels = {"controller": _controller(), "method": method, "provider": self.name}
        began = loop.time()
        try:
            return await call
        except WorldError as error:
            if not isinstance(error, InstanceNotFound):  # that is an answer
                self._metrics.count("karpenter_cloudprovider_errors_total", **labels, error=type(error).__name__)
            raise
        finally:
            self._metrics.observe("karpenter_cloudprovider_duration_seconds", loop.time() - began, **labels)


def _controller() -> str:
    """Who is calling, by the name of its task."""
    task = asyncio.current_task()
    name = task.get_name().partition(":")[0] if task is not None else ""
    return "" if name.startswith("Task-") else _CONTROLLERS.get(name, name)
