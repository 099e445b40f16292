"""A gate in front of the cluster and the cloud: reads always pass, writes only while this process is the leader.

Leadership is checked immediately before each write is sent, so even the first write after a long computation or a
suspended host is refused. `abort` cancels the writes in flight and raises `OutcomeUnknown` in their callers. A request
that the server has already received cannot be recalled, so writes also carry the resource version or uid they are
meant for.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from dovetail.model.catalog import Instance
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key, KubeObject
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pod import Pod
from dovetail.ports.cloud import CloudProvider, CloudWrapper
from dovetail.ports.cluster import EVERYTHING, GRACEFULLY, Cluster, Deletion, Listing, ListOptions, Patch, WatchEvent
from dovetail.ports.errors import OutcomeUnknown, Unavailable

T = TypeVar("T", bound=KubeObject)


class GateClosed(Unavailable):
    """The gate is closed; the write was not sent."""


class WriteGate:
    """Open while its condition holds, until it is closed. A new gate is closed."""

    def __init__(self) -> None:
        self._holds: Callable[[], bool] | None = None
        self.why = "not started"
        self._in_flight: set[_GatedWrite] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.refused = 0

    @property
    def is_open(self) -> bool:
        """Whether a write may pass now."""
        return self._holds is not None and self._holds()

    def open(self, holds: Callable[[], bool] = lambda: True) -> None:
        """Let writes pass while `holds` returns True."""
        self._holds = holds

    def close(self, why: str) -> None:
        """Refuse new writes; writes in flight continue."""
        self._holds = None
        self.why = why

    def abort(self, why: str) -> None:
        """Refuse new writes and cancel those in flight."""
        self.close(why)
        for write in self._in_flight:
            write.abort()

    async def wait_until_idle(self, within: float) -> bool:
        """Wait for the writes in flight; return False if some are left after that many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._idle.wait()
        return not self._in_flight

    def guard(self, *what: object) -> "_GatedWrite":
        """Guard one write: raises `GateClosed` if it may not pass, `OutcomeUnknown` if it is aborted."""
        return _GatedWrite(self, what)

    def check(self, what: Iterable[object]) -> None:
        """Raise `GateClosed` if a write may not pass now."""
        if not self.is_open:
            self.refused += 1
            why = self.why if self._holds is None else "leadership ran out"
            raise GateClosed(f"{_describe(what)}: not allowed to act: {why}")

    def began(self, write: "_GatedWrite") -> None:
        """Register a write in flight."""
        self._in_flight.add(write)
        self._idle.clear()

    def ended(self, write: "_GatedWrite") -> None:
        """Remove a write that was answered or aborted."""
        self._in_flight.discard(write)
        if not self._in_flight:
            self._idle.set()


class _GatedWrite:
    """One write in flight. Aborting it cancels the task that waits for it, as asyncio.timeout does."""

    __slots__ = ("_aborted", "_cancelled_before", "_gate", "_task", "_what")

    def __init__(self, gate: WriteGate, what: Iterable[object]) -> None:
        self._gate = gate
        self._what = what
        self._task: asyncio.Task[object] | None = None
        self._cancelled_before = 0
        self._aborted = False

    async def __aenter__(self) -> None:
        self._gate.check(self._what)
        task = asyncio.current_task()
        assert task is not None, "writes are made by tasks"
        self._task, self._cancelled_before = task, task.cancelling()
        self._gate.began(self)

    def abort(self) -> None:
        """Cancel the task that waits for the answer."""
        if self._task is not None and not self._aborted:
            self._aborted = True
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.ended(self)
        task, self._task = self._task, None
        cut_off = isinstance(error, TimeoutError)
        if self._aborted and task is not None:
            only_cut = task.uncancel() <= self._cancelled_before
            cut_off = cut_off or (only_cut and isinstance(error, asyncio.CancelledError))
        if cut_off:
            raise OutcomeUnknown(f"{_describe(self._what)}: aborted: {self._gate.why}") from error


def _describe(what: Iterable[object]) -> str:
    return " ".join(map(str, what))


class GatedCluster:
    """A cluster whose writes pass a gate."""

    def __init__(self, cluster: Cluster, gate: WriteGate) -> None:
        self._cluster = cluster
        self._gate = gate

    async def list(self, kind: Kind[T], options: ListOptions = EVERYTHING) -> Listing[T]:
        """Read without a check."""
        return await self._cluster.list(kind, options)

    def watch(self, kind: Kind[T], since: str, options: ListOptions = EVERYTHING) -> AsyncIterator[WatchEvent[T]]:
        """Read without a check."""
        return self._cluster.watch(kind, since, options)

    async def get(self, kind: Kind[T], key: Key) -> T:
        """Read without a check."""
        return await self._cluster.get(kind, key)

    async def create(self, kind: Kind[T], value: T) -> T:
        """Write if the gate is open."""
        name = value.metadata.name or value.metadata.generate_name
        async with self._gate.guard("create", kind, name):
            return await self._cluster.create(kind, value)

    async def patch(self, kind: Kind[T], key: Key, patch: Patch) -> T:
        """Write if the gate is open."""
        async with self._gate.guard("patch", kind, key):
            return await self._cluster.patch(kind, key, patch)

    async def delete(self, kind: Kind[T], key: Key, deletion: Deletion = GRACEFULLY) -> None:
        """Write if the gate is open."""
        async with self._gate.guard("delete", kind, key):
            await self._cluster.delete(kind, key, deletion)

    async def server_version(self) -> str:
        """Read without a check."""
        return await self._cluster.server_version()

    async def evict(self, pod: Pod) -> None:
        """Write if the gate is open."""
        async with self._gate.guard("evict", pod.key):
            await self._cluster.evict(pod)


class GatedCloud(CloudWrapper):
    """A provider whose launches and terminations pass a gate."""

    def __init__(self, cloud: CloudProvider, gate: WriteGate) -> None:
        super().__init__(cloud)
        self._gate = gate

    async def launch(self, claim: NodeClaim) -> Instance:
        """Write if the gate is open."""
        async with self._gate.guard("launch", claim.name):
            return await super().launch(claim)

    async def terminate(self, claim: NodeClaim) -> None:
        """Write if the gate is open."""
        async with self._gate.guard("terminate", claim.name):
            await super().terminate(claim)
