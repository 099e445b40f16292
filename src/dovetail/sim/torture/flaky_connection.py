"""A `Cluster` connection with faults: the connection of one controller process to the simulated cluster.

Every call passes the fault injector. A watch can do what a real watch can do: end early, fail, expire (410 Gone),
deliver late, stay open without any event, or deliver its last events again in their order. It never skips an event for
good: lost events are lost together with the stream. A write of the Lease can take effect after its caller timed out.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dovetail.model.kinds import LEASE, POD, Kind
from dovetail.model.kube_object import Key, KubeObject
from dovetail.model.pod import Pod
from dovetail.ports.cluster import EVERYTHING, GRACEFULLY, Deletion, Listing, ListOptions, Patch, WatchEvent
from dovetail.ports.errors import Gone, Unavailable
from dovetail.sim.cloud.provider import CloudClient
from dovetail.sim.torture.fault_injector import CallHooks, FaultInjector, ProcessState
from dovetail.sim.world import World

T = TypeVar("T", bound=KubeObject)
_NODE_NAME_SELECTOR = "spec.nodeName="


@dataclass
class WatchFaults:
    """The current faults of watches, by kind."""

    breaking: set[str] = field(default_factory=set)
    too_old: set[str] = field(default_factory=set)
    replaying: dict[str, int] = field(default_factory=dict)
    lagging_until: dict[str, float] = field(default_factory=dict)
    silent: dict[str, tuple[float, float]] = field(
        default_factory=dict
    )  # from, until: affects streams opened before `from`
    last_silence: float = -math.inf  # the end of the last silence of a stream
    injected: int = 0

    def clear_faults(self) -> None:
        """End all faults of watches."""
        self.breaking.clear()
        self.too_old.clear()
        self.replaying.clear()
        self.lagging_until.clear()
        self.silent.clear()


class FlakyConnection:
    """Implements the `Cluster` port for one process, with faults."""

    def __init__(
        self, world: World, fault_injector: FaultInjector, watches: WatchFaults, process_state: ProcessState
    ) -> None:
        self._fault_injector = fault_injector
        self._world = copy(world)  # the same cluster, with separate call hooks
        self._world.interference = CallHooks(fault_injector, process_state)
        self._process_state = process_state
        self._watches = watches
        self._lease_writes: set[asyncio.Task[Any]] = set()

    async def list(self, kind: Kind[T], options: ListOptions = EVERYTHING) -> Listing[T]:
        """List objects. Records when the pods of a node were listed: the process knows these pods from then on."""
        listing = await self._world.list(kind, options)
        name = options.field_selector.removeprefix(_NODE_NAME_SELECTOR)
        if kind.name == POD.name and name != options.field_selector:
            self._fault_injector.pods_listed_at[name] = asyncio.get_running_loop().time()
        return listing

    def watch(self, kind: Kind[T], since: str, options: ListOptions = EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Watch objects, with the current faults of watches."""
        return FlakyStream(self._world.watch(kind, since, options), kind.name, self._process_state, self._watches)

    async def get(self, kind: Kind[T], key: Key) -> T:
        """Get an object."""
        return await self._world.get(kind, key)

    async def create(self, kind: Kind[T], value: T) -> T:
        """Create an object."""
        writing = self._world.create(kind, value)
        return await (self._finish_despite_cancellation(writing) if kind.name == LEASE.name else writing)

    async def patch(self, kind: Kind[T], key: Key, patch: Patch) -> T:
        """Apply a merge patch."""
        writing = self._world.patch(kind, key, patch)
        return await (self._finish_despite_cancellation(writing) if kind.name == LEASE.name else writing)

    async def delete(self, kind: Kind[T], key: Key, deletion: Deletion = GRACEFULLY) -> None:
        """Request the deletion of an object."""
        await self._world.delete(kind, key, deletion)

    async def server_version(self) -> str:
        """The Kubernetes version."""
        return await self._world.server_version()

    async def evict(self, pod: Pod) -> None:
        """Evict a pod if its PodDisruptionBudgets allow it."""
        await self._world.evict(pod)

    def cloud_client(self) -> CloudClient:
        """A client of the cloud whose calls pass the same hooks."""
        return self._world.cloud_client()

    async def _finish_despite_cancellation(self, writing: Coroutine[Any, Any, T]) -> T:
        """Finish a write even if its caller is cancelled: the request has already been sent."""
        task = asyncio.get_running_loop().create_task(writing, name="Lease write")
        self._lease_writes.add(task)
        task.add_done_callback(self._lease_writes.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved: the caller may be gone
        return await asyncio.shield(task)


class FlakyStream(AsyncIterator[WatchEvent[T]], Generic[T]):
    """A watch stream with faults."""

    def __init__(
        self, stream: AsyncIterator[WatchEvent[T]], kind: str, process_state: ProcessState, watches: WatchFaults
    ) -> None:
        self._stream = stream
        self._kind = kind
        self._process_state = process_state
        self._watches = watches
        self._opened_at = asyncio.get_running_loop().time()
        self._delivered: deque[WatchEvent[T]] = deque(maxlen=5)
        self._to_replay: list[WatchEvent[T]] = []

    def __aiter__(self) -> "FlakyStream[T]":
        return self

    async def __anext__(self) -> WatchEvent[T]:
        if self._to_replay:
            return self._to_replay.pop(0)
        if steps := self._watches.replaying.pop(self._kind, 0):
            self._watches.injected += 1
            self._to_replay = list(self._delivered)[-steps:]
            if self._to_replay:
                return self._to_replay.pop(0)
        event = await anext(self._stream)
        await self._delay_watch()
        self._fail()
        self._process_state.check()
        if event.object is not None:
            self._delivered.append(event)
        return event

    async def _delay_watch(self) -> None:
        """Hold back all events and bookmarks. A lag also affects new streams; a silence only those already open."""
        now = asyncio.get_running_loop().time()
        until = self._watches.lagging_until.get(self._kind, 0.0)
        began, ends = self._watches.silent.get(self._kind, (0.0, 0.0))
        if self._opened_at <= began and ends > now:
            until = max(until, ends)
            self._watches.last_silence = ends
        if until > now:
            await asyncio.sleep(until - now)

    def _fail(self) -> None:
        if self._kind in self._watches.breaking:
            self._watches.breaking.discard(self._kind)
            self._watches.injected += 1
            raise Unavailable("the connection was reset")
        if self._kind in self._watches.too_old:
            self._watches.too_old.discard(self._kind)
            self._watches.injected += 1
            raise Gone("too old resource version")
