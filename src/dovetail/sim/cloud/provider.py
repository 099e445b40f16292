"""The `CloudProvider` port on the simulated cloud, and the API client that it uses.

`SimulatedProvider` takes catalog, node classes and the choice of an offering from another provider (`market`); only the
instances come from the simulated cloud. If an offering has no capacity, it is avoided for a while and the next best one
is requested. It keeps no state that a restarted process would need.

`CloudClient` is the cloud API of one controller process. Its calls pass the same gate as the calls to the Kubernetes
API, with kind `Instance`, so the same faults apply: an error before or after the effect, a slow call, the death of the
process. API errors become `CloudError`.
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
    """Adds latency and faults to calls; `World` implements it."""

    async def enter(self, operation: str, kind: object, key: Key | None) -> None:
        """Called before the call has any effect."""
        ...

    async def leave(self, operation: str, kind: object, key: Key | None) -> None:
        """Called after a write took effect and before the caller gets its result."""
        ...


class CloudClient:
    """The API of the cloud for one process."""

    def __init__(self, cloud: SimulatedCloud, gate: CallGate) -> None:
        self._cloud = cloud
        self._gate = gate

    async def launch(self, request: LaunchRequest) -> InstanceRecord:
        """Launch an instance, or return the one launched earlier with the same token, even if it has ended."""
        return await self._write("launch", request.claim, lambda: self._cloud.launch(request))

    async def terminate(self, provider_id: str) -> None:
        """Start to shut an instance down; `InstanceNotFound` once it is gone."""
        await self._write("terminate", provider_id, lambda: self._cloud.terminate(provider_id))

    async def describe(self, provider_id: str) -> InstanceRecord:
        """One instance that exists, or `InstanceNotFound`."""
        return await self._read("get", provider_id, lambda: self._cloud.describe(provider_id))

    async def find(self, token: str) -> InstanceRecord | None:
        """The instance launched with a token, even if it has ended."""
        return await self._read("get", token, lambda: self._cloud.find(token))

    async def list(self) -> tuple[InstanceRecord, ...]:
        """Every instance that exists; the list may be outdated."""
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
"""Chooses the cheapest available offering for a claim; raises `InsufficientCapacity` or `NodeClassNotReady`."""


class SimulatedProvider(CloudWrapper, Generic[M]):
    """A provider of simulated instances; `market` provides the instance types and offerings."""

    def __init__(self, client: CloudClient, market: M, choose: ChooseOffering) -> None:
        super().__init__(market)
        self.market = market
        self._client = client
        self._choose = choose
        self._records: tuple[InstanceRecord, ...] = ()  # as last listed
        self._listed: dict[str, tuple[InstanceRecord, Instance]] = {}
        self._instances: tuple[Instance, ...] = ()

    async def launch(self, claim: NodeClaim) -> Instance:
        """Launch the cheapest instance with capacity, or return the one launched earlier for the claim."""
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
        """Start to shut the claim's instance down."""
        await self._client.terminate(claim.provider_id)

    async def get(self, provider_id: str) -> Instance:
        """One instance; one that shuts down is marked as terminating."""
        return instance_of(await self._client.describe(provider_id))

    async def list(self) -> tuple[Instance, ...]:
        """Every instance. Unchanged instances are the identical values as before: callers compare lists."""
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
        """Do nothing: the cloud does not depend on this process."""

    async def run(self) -> None:
        """Do nothing: there is no background work."""

    async def aclose(self) -> None:
        """Do nothing: there are no resources to release."""


def instance_of(record: InstanceRecord) -> Instance:
    """The record as an `Instance` of the port."""
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
