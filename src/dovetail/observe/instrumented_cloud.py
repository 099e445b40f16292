"""Wraps a provider to time its calls and count its errors, with Karpenter's metric names."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TypeVar

from dovetail.model.catalog import Instance, InstanceType
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.ports.cloud import CloudProvider, CloudWrapper
from dovetail.ports.errors import InstanceNotFound, InsufficientCapacity, NodeClassNotReady, WorldError
from dovetail.ports.metrics import Metrics

R = TypeVar("R")
_CONTROLLERS: Mapping[str, str] = {
    "Provisioner.run": "provisioner",
    "Disruption.run": "disruption",
    "GarbageCollection.run": "nodeclaim.garbagecollection",
}
"""Controller labels by task name; reconcilers name their tasks after themselves."""
_ERRORS: Mapping[type[WorldError], str] = {
    InsufficientCapacity: "InsufficientCapacityError",
    InstanceNotFound: "NodeClaimNotFoundError",
    NodeClassNotReady: "NodeClassNotReadyError",
}
"""Error labels as in Karpenter; every other error has an empty label."""


class InstrumentedCloud(CloudWrapper):
    """A provider with timed calls. `node_class` is not timed: it reads a Kubernetes object, not the cloud."""

    def __init__(self, cloud: CloudProvider, metrics: Metrics) -> None:
        super().__init__(cloud)
        self._metrics = metrics

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Timed."""
        return await self._timed("GetInstanceTypes", super().instance_types(pool))

    async def launch(self, claim: NodeClaim) -> Instance:
        """Timed."""
        return await self._timed("Create", super().launch(claim))

    async def terminate(self, claim: NodeClaim) -> None:
        """Timed."""
        await self._timed("Delete", super().terminate(claim))

    async def get(self, provider_id: str) -> Instance:
        """Timed."""
        return await self._timed("Get", super().get(provider_id))

    async def list(self) -> tuple[Instance, ...]:
        """Timed."""
        return await self._timed("List", super().list())

    async def drift(self, claim: NodeClaim) -> str:
        """Timed."""
        return await self._timed("IsDrifted", super().drift(claim))

    async def _timed(self, method: str, call: Awaitable[R]) -> R:
        loop = asyncio.get_running_loop()
        labels = {"controller": _controller(), "method": method, "provider": self.name}
        began = loop.time()
        try:
            return await call
        except WorldError as error:
            self._metrics.count("karpenter_cloudprovider_errors_total", **labels, error=_ERRORS.get(type(error), ""))
            raise
        finally:
            self._metrics.observe("karpenter_cloudprovider_duration_seconds", loop.time() - began, **labels)


def _controller() -> str:
    """Return the calling controller, by the name of its task."""
    task = asyncio.current_task()
    name = task.get_name().partition(":")[0] if task is not None else ""
    return "" if name.startswith("Task-") else _CONTROLLERS.get(name, name)
