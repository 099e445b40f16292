"""The `CloudProvider` port over the simulated cloud, for one controller process.

The catalog, the node classes and the choice of an offering are those of another provider, handed in; only the instances
are the cloud's. An offering the cloud turns out to be short of is avoided for a while, and the next best is requested.
Nothing is kept here that a later process would miss.

The simulated cloud as one controller process reaches it: every call takes time and can fail.

Calls pass the gate of the cluster they are made beside, so that the same faults strike both: an error before the
effect, an error after it, a slow call, the death of the process. The gate sees calls of the kind `Instance`. What it
raises becomes a `CloudError`, as a provider raises it.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from dovetail.model.catalog import Instance
from dovetail.model.kube_object import Key
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.cloud import CloudProvider, CloudWrapper
from dovetail.ports.errors import ApiError, CloudError, InsufficientCapacity, NodeClassNotReady
from dovetail.sim.cloud.service import InstanceRecord, LaunchRequest, OfferingUnavailable, SimulatedCloud

T = TypeVar("T")
INSTANCE = "Instance"


class CallGate(Protocol):
    """Where calls take their time and faults come in."""

    async def enter(self, operation: str, kind: object, key: Key | None) -> None:
        """Before the call has any effect."""
        ...

    async def leave(self, operation: str, kind: object, key: Key | None) -> None:
        """After its effect, before its answer."""
        ...


class CloudClient:
    """The API of the cloud for one process."""

    def __init__(self, cloud: SimulatedCloud, gate: CallGate) -> None:
        self._cloud = cloud
        self._gate = gate

    async def launch(self, request: LaunchRequest) -> InstanceRecord:
        """Launch an instance, or return the one launched with the token before, though it may have ended since."""
        return await self._write("launch", request.claim, lambda: self._cloud.launch(request))

    async def terminate(self, provider_id: str) -> None:
        """Begin to end an instance; `InstanceNotFound` once it is gone."""
        await self._write("terminate", provider_id, lambda: self._cloud.terminate(provider_id))

    async def describe(self, provider_id: str) -> InstanceRecord:
        """One instance that exists, or `InstanceNotFound`."""
        return await self._read("get", provider_id, lambda: self._cloud.describe(provider_id))

    async def find(self, token: str) -> InstanceRecord | None:
        """The instance launched with a token, though it may have ended since."""
        return await self._read("get", token, lambda: self._cloud.find(token))

    async def list(self) -> tuple[InstanceRecord, ...]:
        """Every instance that exists; the answer may be some time behind."""
        return await self._read("list", "", self._cloud.list)

    async def _read(self, operation: str, name: str, call: Callable[[], T]) -> T:
        await self._pass(self._gate.enter, operation, name)
        return call()

    async def _write(self, operation: str, name: str, call: Callable[[], T]) -> T:
        answer = await self._read(operation, name, call)
        await self._pass(self._gate.leave, operation, name)
        return answer

    async def _pass(
        self, side: Callable[[str, object, Key | None], Awaitable[None]], operation: str, name: str
    ) -> None:
        try:
            await side(operation, INSTANCE, Key("", name) if name else None)
        except ApiError as error:
            raise CloudError(f"{operation} {name or 'instances'}: {error}") from error


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
