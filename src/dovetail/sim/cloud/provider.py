"""The `CloudProvider` port over the simulated cloud, for one controller process.

The catalog, the node classes and the choice of an offering are those of another provider, handed in; only the instances
are the cloud's. An offering the cloud turns out to be short of is avoided for a while, and the next best is requested.
Nothing is kept here that a later process would miss.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from dovetail.model.catalog import Instance
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.cloud import CloudProvider
from dovetail.ports.cloud_wrapper import CloudWrapper
from dovetail.ports.errors import InsufficientCapacity, NodeClassNotReady
from dovetail.sim.cloud.client import CloudClient
from dovetail.sim.cloud.instances import InstanceRecord, LaunchRequest
from dovetail.sim.cloud.service import OfferingUnavailable

M = TypeVar("M", bound=CloudProvider)
ChooseOffering = Callable[[NodeClaim], Awaitable[LaunchRequest]]
"""The launch of the cheapest available offering for a claim; `InsufficientCapacity` or `NodeClassNotReady` if none."""


class SimulatedProvider(CloudWrapper, Generic[M]):
    """A provider of simulated instances. `market` says what can be bought."""

    def __init__(self, client: CloudClient, market: M, choose: ChooseOffering) -> None:
        super().__init__(market)
        self.market = market
        self._client = client
        self._choose = choose
        self._records: tuple[InstanceRecord, ...] = ()  # as last listed
        self._listed: dict[str, tuple[InstanceRecord, Instance]] = {}
        self._instances: tuple[Instance, ...] = ()

    async def launch(self, claim: NodeClaim) -> Instance:
        """Launch the cheapest instance the cloud has capacity for, or return the one launched for the claim before."""
        try:
            record = await self._launch(claim)
        except (InsufficientCapacity, NodeClassNotReady):
            known = await self._client.find(claim.metadata.uid)
            if known is None:
                raise
            record = known
        if not record.runs:
            raise InsufficientCapacity(f"instance {record.provider_id} was terminated before it became a node")
        return instance_of(record)

    async def _launch(self, claim: NodeClaim) -> InstanceRecord:
        while True:
            request = await self._choose(claim)
            try:
                return await self._client.launch(request)
            except OfferingUnavailable:
                self.avoid(request.instance_type, request.zone, request.capacity_type)

    async def terminate(self, claim: NodeClaim) -> None:
        """Begin to end the claim's instance."""
        await self._client.terminate(claim.provider_id)

    async def get(self, provider_id: str) -> Instance:
        """One instance, one that shuts down included and marked."""
        return instance_of(await self._client.describe(provider_id))

    async def list(self) -> tuple[Instance, ...]:
        """Every instance. What has not changed is the same value again: callers compare lists."""
        records = await self._client.list()
        if records is not self._records:
            known, self._listed, self._records = self._listed, {}, records
            for each in records:
                before = known.get(each.provider_id)
                same = before if before is not None and before[0] is each else None
                self._listed[each.provider_id] = same or (each, instance_of(each))
            self._instances = tuple([instance for _, instance in self._listed.values()])
        return self._instances

    async def recover(self) -> None:
        """Nothing: the cloud goes on whether or not a process watches."""

    async def run(self) -> None:
        """Nothing has to be done all the time."""

    async def aclose(self) -> None:
        """Nothing is held."""


def instance_of(record: InstanceRecord) -> Instance:
    """The record as the port describes instances."""
    launched = record.launched
    return Instance(
        provider_id=record.provider_id,
        labels=dict(launched.tags),
        capacity=launched.capacity,
        allocatable=launched.allocatable,
        annotations=dict(launched.annotations),
        terminating=not record.runs,
        launched_at=record.launched_on,
    )
