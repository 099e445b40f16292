"""The `Cluster` port over a real API server.

It only translates: it stores no cluster state, retries no write and decides nothing. The informers above it combine
lists and watches.
"""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec

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
from dovetail.ports.metrics import Metrics

T = TypeVar("T", bound=KubeObject)


class _ServerVersion(msgspec.Struct):
    major: str
    minor: str


_NO_OPTIONS = ListOptions()
_DEFAULT_DELETION = Deletion()


class KubeCluster:
    """A real Kubernetes API server. Close it with `aclose`, or use it as an async context manager."""

    def __init__(self, transport: Transport, random: Random) -> None:
        self._transport = transport
        self._random = random
        self._interner = Interner()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def report_to(self, metrics: Metrics) -> None:
        """Count and time all further requests."""
        self._transport.metrics = metrics

    async def aclose(self) -> None:
        """Close every connection; requests in flight fail."""
        await self._transport.aclose()

    async def list(self, kind: Kind[T], options: ListOptions = _NO_OPTIONS) -> Listing[T]:
        """List every object of the kind in pages. If the pages expire meanwhile, list everything in one request."""
        try:
            pages = await self._list_pages(kind, options, self._transport.limits.page_size)
        except Gone:
            pages = await self._list_pages(kind, options, 0)
        return Listing(tuple(pages.items), pages.meta.resource_version, tuple(pages.unreadable))

    async def _list_pages(self, kind: Kind[T], options: ListOptions, size: int) -> ListPages:
        pages = ListPages(kind, self._interner)
        page = {"limit": str(size)} if size else {}
        while True:
            pages.add(await self._transport.fetch(list_call(kind, options, page)))
            if not pages.meta.continue_:
                return pages
            page = {**page, "continue": pages.meta.continue_}

    async def watch(
        self, kind: Kind[T], since: str, options: ListOptions = _NO_OPTIONS
    ) -> AsyncIterator[WatchEvent[T]]:
        """Yield the changes after `since`, until the server ends the watch."""
        limits = self._transport.limits
        seconds = self._random.randint(*limits.watch_seconds)
        call = watch_call(kind, since, options, seconds)
        lines = LineReader(limits.most_bytes)
        async with self._transport.stream(call) as content:
            while chunk := await _chunk(call, content, seconds + limits.watch_grace):
                for line in lines.feed(chunk):
                    yield change_of(kind, line, call, self._interner)

    async def get(self, kind: Kind[T], key: Key) -> T:
        """Read one object. Raises `Invalid` with its faults if it cannot be decoded."""
        call = get_call(kind, key)
        value = _decoded(kind, call, await self._transport.fetch(call))
        if isinstance(value, UnreadableObject):
            raise Invalid(f"{call}: the {kind} cannot be decoded: {_faults(value)}", value.faults)
        return value

    async def create(self, kind: Kind[T], value: T) -> T:
        """Create an object and return it as the server stored it."""
        return await self._write(kind, create_call(kind, value))

    async def patch(self, kind: Kind[T], key: Key, patch: Patch) -> T:
        """Apply a merge patch and return the resulting object."""
        return await self._write(kind, patch_call(kind, key, patch))

    async def delete(self, kind: Kind[T], key: Key, deletion: Deletion = _DEFAULT_DELETION) -> None:
        """Delete an object."""
        await self._transport.fetch(delete_call(kind, key, deletion))

    async def server_version(self) -> str:
        """Read the minor version of the API server; providers append a plus sign or more to the number."""
        call = ApiRequest(method="GET", path="/version")
        data = await self._transport.fetch(call)
        try:
            found = msgspec.json.decode(data, type=_ServerVersion)
        except UNDECODABLE as error:
            raise Unavailable(f"{call}: the response is not a version: {error}") from error
        return f"{found.major}.{found.minor.rstrip('+')}"

    async def evict(self, pod: Pod) -> None:
        """Evict the pod with this uid through the Eviction API."""
        await self._transport.fetch(evict_call(POD, pod))

    async def _write(self, kind: Kind[T], call: ApiRequest) -> T:
        value = _decoded(kind, call, await self._transport.fetch(call))
        if isinstance(value, UnreadableObject):
            raise OutcomeUnknown(f"{call}: succeeded, but the returned {kind} cannot be decoded: {_faults(value)}")
        return value


async def _chunk(call: ApiRequest, content: aiohttp.StreamReader, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await content.readany()
    except TimeoutError as error:
        raise Unavailable(f"{call}: no data for {seconds:g} s") from error
    except Exception as error:
        raise Unavailable(f"{call}: connection broken: {str(error) or type(error).__name__}") from error


def _decoded(kind: Kind[T], call: ApiRequest, data: bytes) -> T | UnreadableObject:
    try:
        return decode(kind, data)
    except UNDECODABLE as error:
        problem = f"{call}: the response is not a valid {kind}: {error}"
        raise (OutcomeUnknown(problem) if call.writes else Unavailable(problem)) from error


def _faults(value: UnreadableObject) -> str:
    return "; ".join(str(fault) for fault in value.faults)
