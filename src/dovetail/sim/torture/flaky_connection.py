"""The world as one controller process reaches it: the same port, with watches that break, lag and repeat themselves.

What a watch may do here a real one does too: end early, fail, be too old, deliver late, go silent while it stays open,
or deliver its last steps once more in their order. It never leaves a step out for good: what is lost is lost together
with the watch. A write of the Lease may take effect after its caller has given up waiting.
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
from dovetail.sim.torture.fault_injector import FaultInjector, Lifeline, Line
from dovetail.sim.world import World

T = TypeVar("T", bound=KubeObject)
_PODS_OF = "spec.nodeName="


@dataclass
class WatchFaults:
    """What is wrong with the watches of each kind."""

    breaking: set[str] = field(default_factory=set)
    too_old: set[str] = field(default_factory=set)
    replaying: dict[str, int] = field(default_factory=dict)
    lagging_until: dict[str, float] = field(default_factory=dict)
    silent: dict[str, tuple[float, float]] = field(default_factory=dict)  # from, until: for streams opened before
    last_silence: float = -math.inf  # when a stream was last kept silent
    injected: int = 0

    def calm(self) -> None:
        """Nothing is wrong any more."""
        self.breaking.clear()
        self.too_old.clear()
        self.replaying.clear()
        self.lagging_until.clear()
        self.silent.clear()


class FlakyConnection:
    """Implements the `Cluster` port for one process."""

    def __init__(self, world: World, trouble: FaultInjector, watches: WatchFaults, life: Lifeline) -> None:
        self._trouble = trouble
        self._world = copy(world)  # the same cluster behind a gate of its own
        self._world.interference = Line(trouble, life)
        self._life = life
        self._watches = watches
        self._under_way: set[asyncio.Task[Any]] = set()

    async def list(self, kind: Kind[T], options: ListOptions = EVERYTHING) -> Listing[T]:
        """Every object of the kind. A list of the pods of one node is noted: it shows what was known, and when."""
        listing = await self._world.list(kind, options)
        name = options.field_selector.removeprefix(_PODS_OF)
        if kind.name == POD.name and name != options.field_selector:
            self._trouble.pods_listed_at[name] = asyncio.get_running_loop().time()
        return listing

    def watch(self, kind: Kind[T], since: str, options: ListOptions = EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Changes, with whatever befalls watches."""
        return FlakyStream(self._world.watch(kind, since, options), kind.name, self._life, self._watches)

    async def get(self, kind: Kind[T], key: Key) -> T:
        """One object."""
        return await self._world.get(kind, key)

    async def create(self, kind: Kind[T], value: T) -> T:
        """Create it."""
        writing = self._world.create(kind, value)
        return await (self._anyway(writing) if kind.name == LEASE.name else writing)

    async def patch(self, kind: Kind[T], key: Key, patch: Patch) -> T:
        """Merge a patch."""
        writing = self._world.patch(kind, key, patch)
        return await (self._anyway(writing) if kind.name == LEASE.name else writing)

    async def delete(self, kind: Kind[T], key: Key, deletion: Deletion = GRACEFULLY) -> None:
        """Ask for deletion."""
        await self._world.delete(kind, key, deletion)

    async def evict(self, pod: Pod) -> None:
        """Evict, if the budgets allow it."""
        await self._world.evict(pod)

    def cloud_client(self) -> CloudClient:
        """The cloud, behind the same gate."""
        return self._world.cloud_client()

    async def _anyway(self, writing: Coroutine[Any, Any, T]) -> T:
        """Once sent, a write takes its course."""
        task = asyncio.get_running_loop().create_task(writing, name="write of the Lease")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # somebody may have stopped waiting
        return await asyncio.shield(task)


class FlakyStream(AsyncIterator[WatchEvent[T]], Generic[T]):
    """One watch."""

    def __init__(self, stream: AsyncIterator[WatchEvent[T]], kind: str, life: Lifeline, watches: WatchFaults) -> None:
        self._stream = stream
        self._kind = kind
        self._life = life
        self._watches = watches
        self._opened_at = asyncio.get_running_loop().time()
        self._told: deque[WatchEvent[T]] = deque(maxlen=5)
        self._again: list[WatchEvent[T]] = []

    def __aiter__(self) -> "FlakyStream[T]":
        return self

    async def __anext__(self) -> WatchEvent[T]:
        if self._again:
            return self._again.pop(0)
        if steps := self._watches.replaying.pop(self._kind, 0):
            self._watches.injected += 1
            self._again = list(self._told)[-steps:]
            if self._again:
                return self._again.pop(0)
        change = await anext(self._stream)
        await self._lag()
        self._fail()
        self._life.check()
        if change.object is not None:
            self._told.append(change)
        return change

    async def _lag(self) -> None:
        """Hold everything back, bookmarks too. A new watch is as late as this one, but not silent as this one."""
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
