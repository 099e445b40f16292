"""The simulated cloud: its instances, their states, capacity shortages and API faults.

`SimulatedCloud.instances` maps provider ids to `InstanceRecord`, a frozen value that every change replaces. Records of
ended instances are kept too, up to `ended_limit`, so that tests can find leaked instances and double launches.

    pending -> running -> shutting-down -> terminated

`pending` ends when the instance has booted, whether or not its kubelet registers a Node. `shutting-down` begins with
the first terminate call; nothing runs on the instance from then on. An instance that is reclaimed or lost becomes
`terminated` at once. Instants are seconds of the event loop.

Listeners get (before, after) on every change of a record, in the same instant. They are for tests and invariants:
controllers reach the cloud through a `CloudClient`, where calls take time and can fail. Nothing here waits; boot and
shutdown times are simulated in `boot`.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, count
from types import MappingProxyType
from typing import Any, Literal

from dovetail.model.resources import Resources
from dovetail.ports.clock import Clock
from dovetail.ports.errors import InstanceNotFound, InsufficientCapacity
from dovetail.sim.kubernetes.controller import DelayRange

State = Literal["pending", "running", "shutting-down", "terminated"]
EndedBy = Literal["", "terminate", "reclaimed", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One launch request. `token` makes it idempotent: the cloud launches one instance for each token."""

    token: str  # uid of the NodeClaim
    name: str  # of the Node that the instance will register
    claim: str
    nodepool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float  # per hour
    tags: Mapping[str, str] = field(default_factory=dict)  # labels of the NodeClaim and of the offering
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Resources = field(default_factory=dict)
    allocatable: Resources = field(default_factory=dict)
    registration_delay: float = 0.0  # seconds from the end of the boot to the Node


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """One instance; its record stays after its end."""

    provider_id: str
    launched: LaunchRequest
    launched_at: float
    launched_on: datetime  # the same instant as a date
    state: State = "pending"
    joins: bool = True  # False: its kubelet never registers a Node
    node_name: str | None = None  # of the Node it registered, also after that Node is gone
    joined_at: float | None = None
    terminate_called_at: float | None = None  # the first call
    ended_at: float | None = None
    ended_by: EndedBy = ""

    @property
    def claim(self) -> str:
        """Name of the NodeClaim it was launched for; empty for an adopted instance."""
        return self.launched.claim

    @property
    def claim_uid(self) -> str:
        """Uid of that NodeClaim."""
        return self.launched.token

    @property
    def nodepool(self) -> str:
        """Name of the NodePool it was launched for."""
        return self.launched.nodepool

    @property
    def instance_type(self) -> str:
        """Name of its instance type."""
        return self.launched.instance_type

    @property
    def zone(self) -> str:
        """Its zone."""
        return self.launched.zone

    @property
    def capacity_type(self) -> str:
        """Its capacity type, such as spot."""
        return self.launched.capacity_type

    @property
    def price(self) -> float:
        """Its price per hour."""
        return self.launched.price

    @property
    def tags(self) -> Mapping[str, str]:
        """Labels it was launched with."""
        return self.launched.tags

    @property
    def runs(self) -> bool:
        """Whether pods can run on it: it neither has ended nor is shutting down."""
        return self.state in ("pending", "running")

    @property
    def exists(self) -> bool:
        """Whether it is still billed."""
        return self.state != "terminated"


PROVIDER_PREFIX = "kwok://"
"""The same as for the kwok provider, so that manifests and scenarios work with both."""

RecordListener = Callable[[InstanceRecord | None, InstanceRecord], None]


@dataclass(frozen=True, slots=True)
class CloudOptions:
    """Timing and limits of the cloud; times in seconds."""

    boot: DelayRange = (0.0, 0.0)  # from the launch to the start of the kubelet
    shutdown: DelayRange = (0.0, 0.0)  # from the terminate call to the end
    deletes_nodes: bool = False  # whether a cloud controller deletes the Nodes of instances that are gone
    ended_limit: int = 10_000  # records of ended instances that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityShortage:
    """Offerings without capacity. An empty field matches every value."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""

    def covers(self, request: LaunchRequest) -> bool:
        """Whether the shortage prevents this launch."""
        return (
            self.instance_type in ("", request.instance_type)
            and self.zone in ("", request.zone)
            and self.capacity_type in ("", request.capacity_type)
        )


class OfferingUnavailable(InsufficientCapacity):
    """The requested offering has no capacity; another may have."""


class SimulatedCloud:
    """All instances of one cloud account. It outlives every controller process."""

    def __init__(self, clock: Clock, time: Callable[[], float], options: CloudOptions | None = None) -> None:
        self.options = options or CloudOptions()
        self._clock = clock
        self._time = time
        self._records: dict[str, InstanceRecord] = {}
        self._by_token: dict[str, str] = {}  # provider ids
        self._ended: deque[str] = deque()
        self._listeners: list[RecordListener] = []
        self._present: tuple[InstanceRecord, ...] | None = None
        self._frozen: tuple[float, tuple[InstanceRecord, ...]] = (0.0, ())
        self.shortages: list[CapacityShortage] = []
        self.hidden: set[str] = set()  # provider ids of running instances that the API does not return
        self.launches_without_node = 0  # how many of the next launches never register a Node
        self.registration_delays: deque[float] = deque()  # registration delays, in seconds, of the next launches

    @property
    def instances(self) -> Mapping[str, InstanceRecord]:
        """Every record by provider id, ended instances included."""
        return MappingProxyType(self._records)

    def listen(self, callback: RecordListener) -> None:
        """Call back on every change with the record before (None for a launch) and after it."""
        self._listeners.append(callback)

    def stop_listening(self, callback: RecordListener) -> None:
        """Remove a listener."""
        self._listeners.remove(callback)

    # -- API calls

    def launch(self, request: LaunchRequest) -> InstanceRecord:
        """Launch an instance, or return the one launched earlier with the same token, even if it has ended."""
        known = self.find(request.token)
        if known is not None:
            return known
        if any(shortage.covers(request) for shortage in self.shortages):
            where = f"{request.instance_type} in {request.zone} as {request.capacity_type}"
            raise OfferingUnavailable(f"the cloud has no capacity for {where}")
        request = replace(request, name=self._unused_name(request.name))
        record = InstanceRecord(
            provider_id=PROVIDER_PREFIX + request.name,
            launched=self._delayed(request),
            launched_at=self._time(),
            launched_on=self._clock.now(),
            joins=self.launches_without_node == 0,
        )
        self.launches_without_node -= not record.joins
        self._by_token[request.token] = record.provider_id
        self._put(None, record)
        return record

    def _unused_name(self, name: str) -> str:
        """The name, or the name with a number: each launch gets a new name, also a second one for the same claim."""
        numbers = (f"{name}-{number}" for number in count(2))
        return next(each for each in chain([name], numbers) if PROVIDER_PREFIX + each not in self._records)

    def find(self, token: str) -> InstanceRecord | None:
        """The instance launched with a token, even if it has ended."""
        return self._records.get(self._by_token.get(token, ""))

    def describe(self, provider_id: str) -> InstanceRecord:
        """One instance that exists, or `InstanceNotFound`."""
        record = self._records.get(provider_id)
        if record is None or not record.exists or provider_id in self.hidden:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        return record

    def list(self) -> tuple[InstanceRecord, ...]:
        """Every instance that exists, oldest first; an outdated list while it is frozen."""
        until, frozen = self._frozen
        if self._time() < until:
            return frozen
        if self._present is None:
            shown = [each for id_, each in self._records.items() if each.exists and id_ not in self.hidden]
            self._present = tuple(shown)
        return self._present

    def terminate(self, provider_id: str) -> None:
        """Start to shut an instance down; `InstanceNotFound` if it is gone, or ends at once."""
        record = self.describe(provider_id)
        if record.terminate_called_at is None:
            changed = replace(record, terminate_called_at=self._time(), state="shutting-down")
            self._put(record, changed)
            if self.options.shutdown[1] <= 0:
                self.end(provider_id, "terminate")
        self.describe(provider_id)

    # -- state changes and faults

    def boot(self, provider_id: str) -> None:
        """Mark the instance as booted."""
        self._change(provider_id, state="running")

    def join(self, provider_id: str, node_name: str) -> None:
        """Record the Node that its kubelet registered."""
        self._change(provider_id, node_name=node_name, joined_at=self._time())

    def end(self, provider_id: str, by: EndedBy) -> None:
        """End the instance; no effect if it has ended already."""
        record = self._records.get(provider_id)
        if record is None or not record.exists:
            return
        self._put(record, replace(record, state="terminated", ended_at=self._time(), ended_by=by))
        self._ended.append(provider_id)
        while len(self._ended) > self.options.ended_limit:
            oldest = self._records.pop(self._ended.popleft())
            self._by_token.pop(oldest.launched.token, None)

    def adopt(self, record: InstanceRecord) -> None:
        """Add an instance that was not launched through this API."""
        self._put(None, record)

    def hide(self, provider_id: str) -> None:
        """Hide a running instance from the API."""
        self.hidden.add(provider_id)
        self._present = None

    def freeze_list(self, seconds: float) -> None:
        """Freeze the list for some seconds: it lacks later launches and still has instances that ended since."""
        self._frozen = (0.0, ())
        self._frozen = (self._time() + seconds, self.list())

    def calm(self) -> None:
        """Remove all faults."""
        self._frozen = (0.0, ())
        self.shortages.clear()
        self.launches_without_node = 0
        self.registration_delays.clear()

    def _delayed(self, request: LaunchRequest) -> LaunchRequest:
        if not self.registration_delays:
            return request
        return replace(request, registration_delay=request.registration_delay + self.registration_delays.popleft())

    def _change(self, provider_id: str, **fields: Any) -> None:
        record = self._records[provider_id]
        self._put(record, replace(record, **fields))

    def _put(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        self._records[after.provider_id] = after
        self._present = None
        for listener in self._listeners:
            listener(before, after)
