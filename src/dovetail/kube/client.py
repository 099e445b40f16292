"""The `Cluster` port over a real API server.

Translates and nothing else: it keeps no state of the cluster, repeats no write and decides nothing. How to follow a
kind through lists and watches is for whoever holds the port.
"""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from types import TracebackType
from typing import Self, TypeVar

import aiohttp

from dovetail.kube.decode import LineReader, ListPages, change_of
from dovetail.kube.requests import (
    ApiRequest,
    create_call,
    delete_call,
    evict_call,
    get_call,
    list_call,
    patch_call,
    watch_call,
)
from dovetail.kube.transport import Transport
from dovetail.manifest.codec import UNDECODABLE, Interner, decode
from dovetail.model.kinds import POD, Kind
from dovetail.model.kube_object import Key, KubeObject, UnreadableObject
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Deletion, Listing, ListOptions, Patch, WatchEvent
from dovetail.ports.errors import Gone, Invalid, OutcomeUnknown, Unavailable

T = TypeVar("T", bound=KubeObject)

_EVERYTHING = ListOptions()
_PLAINLY = Deletion()


class KubeCluster:
    """A real Kubernetes API. Close it with `aclose`, or use it as an async context."""

    def __init__(self, transport: Transport, random: Random) -> None:
        self._transport = transport
        self._random = random
        self._sharing = Interner()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection; calls still under way fail."""
        await self._transport.aclose()

    async def list(self, kind: Kind[T], options: ListOptions = _EVERYTHING) -> Listing[T]:
        """Every object of the kind, page by page. Pages that expire while they are read give way to one whole list."""
        try:
            gathered = await self._gather(kind, options, self._transport.limits.page_size)
        except Gone:
            gathered = await self._gather(kind, options, 0)
        return Listing(tuple(gathered.items), gathered.meta.resource_version, tuple(gathered.unreadable))

    async def _gather(self, kind: Kind[T], options: ListOptions, size: int) -> ListPages:
        gathered = ListPages(kind, self._sharing)
        page = {"limit": str(size)} if size else {}
        while True:
            gathered.add(await self._transport.fetch(list_call(kind, options, page)))
            if not gathered.meta.continue_:
                return gathered
            page = {**page, "continue": gathered.meta.continue_}

    async def watch(
        self, kind: Kind[T], since: str, options: ListOptions = _EVERYTHING
    ) -> AsyncIterator[WatchEvent[T]]:
        """Changes after `since`, until the server ends the watch in its own time."""
        limits = self._transport.limits
        seconds = self._random.randint(*limits.watch_seconds)
        call = watch_call(kind, since, options, seconds)
        lines = LineReader(limits.most_bytes)
        async with self._transport.stream(call) as content:
            while chunk := await _chunk(call, content, seconds + limits.watch_grace):
                for line in lines.feed(chunk):
                    yield change_of(kind, line, call, self._sharing)

    async def get(self, kind: Kind[T], key: Key) -> T:
        """One object. One that cannot be understood is `Invalid`, with its faults."""
        call = get_call(kind, key)
        value = _decoded(kind, call, await self._transport.fetch(call))
        if isinstance(value, UnreadableObject):
            raise Invalid(f"{call}: the {kind} cannot be understood: {_faults(value)}", value.faults)
        return value

    async def create(self, kind: Kind[T], value: T) -> T:
        """Create it and return what the server made of it."""
        return await self._write(kind, create_call(kind, value))

    async def patch(self, kind: Kind[T], key: Key, patch: Patch) -> T:
        """Apply a merge patch and return what it made."""
        return await self._write(kind, patch_call(kind, key, patch))

    async def delete(self, kind: Kind[T], key: Key, deletion: Deletion = _PLAINLY) -> None:
        """Ask for deletion."""
        await self._transport.fetch(delete_call(kind, key, deletion))

    async def evict(self, pod: Pod) -> None:
        """Evict this very pod through the eviction API."""
        await self._transport.fetch(evict_call(POD, pod))

    async def _write(self, kind: Kind[T], call: ApiRequest) -> T:
        value = _decoded(kind, call, await self._transport.fetch(call))
        if isinstance(value, UnreadableObject):
            raise OutcomeUnknown(f"{call}: done, but the {kind} it made cannot be understood: {_faults(value)}")
        return value


async def _chunk(call: ApiRequest, content: aiohttp.StreamReader, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await content.readany()
    except TimeoutError as error:
        raise Unavailable(f"{call}: silent for {seconds:g} s") from error
    except Exception as error:
        raise Unavailable(f"{call}: connection broken: {str(error) or type(error).__name__}") from error


def _decoded(kind: Kind[T], call: ApiRequest, data: bytes) -> T | UnreadableObject:
    try:
        return decode(kind, data)
    except UNDECODABLE as error:
        problem = f"{call}: the answer is not what a {kind} looks like: {error}"
        raise (OutcomeUnknown(problem) if call.writes else Unavailable(problem)) from error


def _faults(value: UnreadableObject) -> str:
    return "; ".join(str(fault) for fault in value.faults)
