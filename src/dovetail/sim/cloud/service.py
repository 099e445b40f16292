"""The simulated cloud itself: which instances exist, what can be bought, and what happens to instances.

`SimulatedCloud.instances` maps provider ids to records (`InstanceRecord`), those of ended instances included; of these
only the last `ended_limit` are kept. `listen(callback)` calls `callback(before, after)` on every change of a record, in
the same instant; `before` is None for a launch. Both are for tests and invariants: controllers reach the cloud only
through a `CloudClient`, where calls take time and can fail.

Nothing here waits. What takes time (boot, shutdown) is done by the agents in `machines`.

What the simulated cloud records of each instance, and what it is asked for to launch one.

A record is a frozen value; every change replaces it in `SimulatedCloud.instances` and notifies the listeners. All
instants are seconds of the event loop, as everywhere in `sim`.

    pending -> running -> shutting-down -> terminated

`pending` ends when the instance has booted, whether or not its kubelet then joins the cluster. `shutting-down` begins
with the first call of terminate: from here on nothing runs on the instance. An instance that is reclaimed or lost goes
to `terminated` at once.
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
    """One launch as the provider asks for it. `token` makes it safe to repeat: the cloud launches once for a token."""

    token: str  # uid of the NodeClaim
    name: str  # of the Node that the instance will register
    claim: str
    nodepool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float  # per hour
    tags: Mapping[str, str] = field(default_factory=dict)  # labels of the NodeClaim and of what was bought
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Resources = field(default_factory=dict)
    allocatable: Resources = field(default_factory=dict)
    registration_delay: float = 0.0  # seconds from the end of the boot to the Node


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """One instance, from its launch to its end and after."""

    provider_id: str
    launched: LaunchRequest
    launched_at: float
    launched_on: datetime  # the same instant by the calendar
    state: State = "pending"
    joins: bool = True  # False: its kubelet never registers a Node
    node_name: str | None = None  # of the Node it registered, also after that Node is gone
    joined_at: float | None = None
    terminate_called_at: float | None = None  # the first call
    ended_at: float | None = None
    ended_by: EndedBy = ""

    @property
    def claim(self) -> str:
        """Name of the NodeClaim it was launched for; empty for an instance that was there before."""
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
        """Where it runs."""
        return self.launched.zone

    @property
    def capacity_type(self) -> str:
        """How it is bought."""
        return self.launched.capacity_type

    @property
    def price(self) -> float:
        """What it costs per hour."""
        return self.launched.price

    @property
    def tags(self) -> Mapping[str, str]:
        """Labels it was launched with."""
        return self.launched.tags

    @property
    def runs(self) -> bool:
        """Whether pods can run on it: it has neither ended nor begun to."""
        return self.state in ("pending", "running")

    @property
    def exists(self) -> bool:
        """Whether it is still paid for."""
        return self.state != "terminated"


PROVIDER_PREFIX = "kwok://"
"""As on the Nodes of the kwok provider, so that manifests and scenarios work on both."""

RecordListener = Callable[[InstanceRecord | None, InstanceRecord], None]


@dataclass(frozen=True, slots=True)
class CloudOptions:
    """How the cloud behaves; times in seconds."""

    boot: DelayRange = (0.0, 0.0)  # from the launch to the start of the kubelet
    shutdown: DelayRange = (0.0, 0.0)  # from the call of terminate to the end
    deletes_nodes: bool = False  # whether a cloud controller deletes the Nodes of instances that are gone
    ended_limit: int = 10_000  # records of ended instances that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityShortage:
    """Offerings the cloud has run out of. An empty field stands for every value."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""

    def covers(self, request: LaunchRequest) -> bool:
        """Whether the cloud cannot launch what is requested."""
        return (
            self.instance_type in ("", request.instance_type)
            and self.zone in ("", request.zone)
            and self.capacity_type in ("", request.capacity_type)
        )


class OfferingUnavailable(InsufficientCapacity):
    """The cloud has run out of the one offering that was requested; another may be had."""


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
        self.hidden: set[str] = set()  # provider ids of instances that run and that the API does not show
        self.joining_never = 0  # the next launches whose kubelet never registers
        self.joining_late: deque[float] = deque()  # seconds by which the next launches register late

    @property
    def instances(self) -> Mapping[str, InstanceRecord]:
        """Every record by provider id, ended instances included."""
        return MappingProxyType(self._records)

    def listen(self, callback: RecordListener) -> None:
        """Call back on every change of a record with what it was (None for a launch) and what it is."""
        self._listeners.append(callback)

    def stop_listening(self, callback: RecordListener) -> None:
        """Call back no more."""
        self._listeners.remove(callback)

    # -- what the API answers

    def launch(self, request: LaunchRequest) -> InstanceRecord:
        """Launch one instance, or return the one launched with the same token before, though it may have ended."""
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
            joins=self.joining_never == 0,
        )
        self.joining_never -= not record.joins
        self._by_token[request.token] = record.provider_id
        self._put(None, record)
        return record

    def _unused_name(self, name: str) -> str:
        """The name, or the name with a number: a second launch for one claim is a second instance, never the first."""
        numbers = (f"{name}-{number}" for number in count(2))
        return next(each for each in chain([name], numbers) if PROVIDER_PREFIX + each not in self._records)

    def find(self, token: str) -> InstanceRecord | None:
        """The instance launched with a token, though it may have ended."""
        return self._records.get(self._by_token.get(token, ""))

    def describe(self, provider_id: str) -> InstanceRecord:
        """One instance that exists, or `InstanceNotFound`."""
        record = self._records.get(provider_id)
        if record is None or not record.exists or provider_id in self.hidden:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        return record

    def list(self) -> tuple[InstanceRecord, ...]:
        """Every instance that exists, the oldest first; as of some time ago while the list lags."""
        until, frozen = self._frozen
        if self._time() < until:
            return frozen
        if self._present is None:
            shown = [each for id_, each in self._records.items() if each.exists and id_ not in self.hidden]
            self._present = tuple(shown)
        return self._present

    def terminate(self, provider_id: str) -> None:
        """Begin to end an instance; `InstanceNotFound` if it is gone, or is gone at once."""
        record = self.describe(provider_id)
        if record.terminate_called_at is None:
            changed = replace(record, terminate_called_at=self._time(), state="shutting-down")
            self._put(record, changed)
            if self.options.shutdown[1] <= 0:
                self.end(provider_id, "terminate")
        self.describe(provider_id)

    # -- what happens to instances

    def boot(self, provider_id: str) -> None:
        """The instance has booted."""
        self._change(provider_id, state="running")

    def join(self, provider_id: str, node_name: str) -> None:
        """Its kubelet has registered a Node."""
        self._change(provider_id, node_name=node_name, joined_at=self._time())

    def end(self, provider_id: str, by: EndedBy) -> None:
        """The instance is gone; nothing happens if it is already."""
        record = self._records.get(provider_id)
        if record is None or not record.exists:
            return
        self._put(record, replace(record, state="terminated", ended_at=self._time(), ended_by=by))
        self._ended.append(provider_id)
        while len(self._ended) > self.options.ended_limit:
            oldest = self._records.pop(self._ended.popleft())
            self._by_token.pop(oldest.launched.token, None)

    def adopt(self, record: InstanceRecord) -> None:
        """Take up an instance that was there before anything was launched here."""
        self._put(None, record)

    def hide(self, provider_id: str) -> None:
        """The API no longer shows an instance that runs."""
        self.hidden.add(provider_id)
        self._present = None

    def freeze_list(self, seconds: float) -> None:
        """For so long the list shows what it shows now: launches are missing from it, ended instances still in it."""
        self._frozen = (0.0, ())
        self._frozen = (self._time() + seconds, self.list())

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self._frozen = (0.0, ())
        self.shortages.clear()
        self.joining_never = 0
        self.joining_late.clear()

    def _delayed(self, request: LaunchRequest) -> LaunchRequest:
        if not self.joining_late:
            return request
        return replace(request, registration_delay=request.registration_delay + self.joining_late.popleft())

    def _change(self, provider_id: str, **fields: Any) -> None:
        record = self._records[provider_id]
        self._put(record, replace(record, **fields))

    def _put(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        self._records[after.provider_id] = after
        self._present = None
        for listener in self._listeners:
            listener(before, after)
