"""Decodes the bytes of lists and watches into objects of the model.

An object that cannot be decoded does not affect the others: it becomes an `UnreadableObject`, even if the decoder fails
on the whole text because it is nested too deeply (see `manifest.codec.parts`). A text that is not JSON was truncated or
damaged and is `Corrupted`. So is a watch event without a readable object name, because it is unknown which object is
out of date; the informer then lists again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from dovetail.kube.requests import ApiRequest, error_of, read_status
from dovetail.manifest.codec import UNDECODABLE, Interner, decode, no_json, parts
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Fault, KubeObject, ObjectMeta, UnreadableObject
from dovetail.ports.cluster import ChangeType, WatchEvent
from dovetail.ports.errors import Corrupted

T = TypeVar("T", bound=KubeObject)


class PageMeta(msgspec.Struct, frozen=True):
    """The metadata of one page of a list."""

    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: PageMeta = PageMeta()
    items: list[msgspec.Raw] | None = None


class _VersionOnly(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Bookmark(msgspec.Struct):
    metadata: _VersionOnly = _VersionOnly()


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_PAGES = msgspec.json.Decoder(_Page)
_EVENTS = msgspec.json.Decoder(_Event)
_BOOKMARKS = msgspec.json.Decoder(_Bookmark)
_CHANGES: dict[str, ChangeType] = {"ADDED": "ADDED", "MODIFIED": "MODIFIED", "DELETED": "DELETED"}


@dataclass(slots=True)
class ListPages:
    """Accumulates the pages of a list."""

    kind: Kind[Any]
    sharing: Interner
    items: list[Any] = field(default_factory=list)
    unreadable: list[UnreadableObject] = field(default_factory=list)
    meta: PageMeta = field(default_factory=PageMeta)

    def add(self, data: bytes) -> None:
        """Decode one more page. Without a resourceVersion it is no list, and must not look like an empty cluster."""
        try:
            page = _page(data)
            if not page.metadata.resource_version:
                raise ValueError("it has no resourceVersion")
            for raw in page.items or ():
                self._add_item(raw)
        except UNDECODABLE as error:
            raise Corrupted(f"list of {self.kind}: the response is not a valid list: {error}") from error
        self.meta = page.metadata

    def _add_item(self, raw: msgspec.Raw) -> None:
        try:
            value = decode(self.kind, raw)
        except UNDECODABLE as error:
            if no_json(error):
                raise
            value = UnreadableObject(metadata=ObjectMeta(), faults=(Fault("$", f"cannot be decoded: {error}"),))
        if isinstance(value, UnreadableObject):
            self.unreadable.append(value)
        else:
            self.sharing.apply(value)
            self.items.append(value)


def _page(data: bytes) -> _Page:
    try:
        return _PAGES.decode(data)
    except RecursionError:
        members = dict(parts(data))
        items = [msgspec.Raw(item) for _, item in parts(members.get(b"items", b""))]
        return _Page(msgspec.json.decode(members.get(b"metadata", b""), type=PageMeta), items)


def _event(line: bytes) -> _Event:
    try:
        return _EVENTS.decode(line)
    except RecursionError:
        members = dict(parts(line))
        return _Event(
            msgspec.json.decode(members.get(b"type", b""), type=str), msgspec.Raw(members.get(b"object", b""))
        )


def change_of(kind: Kind[T], line: bytes, call: ApiRequest, sharing: Interner) -> WatchEvent[T]:
    """Decode one line of a watch. An ERROR event is raised: `Gone` if the resourceVersion is too old."""
    try:
        event = _event(line)
        if event.type == "BOOKMARK":
            return WatchEvent("BOOKMARK", _BOOKMARKS.decode(event.object).metadata.resource_version)
        change = _CHANGES.get(event.type)
        if change is None:
            raise error_of(call, read_status(event.object))
        value = decode(kind, event.object)
    except UNDECODABLE as error:
        raise Corrupted(f"{call}: a line of the watch is not a valid event: {error}") from error
    if not isinstance(value, UnreadableObject):
        sharing.apply(value)
    return WatchEvent(change, value.metadata.resource_version, value)


class LineReader:
    """Splits a stream of chunks into lines in linear time; a line over the limit is `Corrupted`."""

    def __init__(self, most: int) -> None:
        self._max_bytes = most
        self._incomplete: list[bytes] = []
        self._length = 0  # of the incomplete line

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that this chunk completes, without empty ones."""
        first, *rest = chunk.split(b"\n")
        self._append(first)
        for piece in rest:
            line, self._incomplete, self._length = b"".join(self._incomplete), [], 0
            if line.strip():
                yield line
            self._append(piece)

    def _append(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._max_bytes:
            raise Corrupted(f"a line of the watch is longer than {self._max_bytes} bytes")
        if piece:
            self._incomplete.append(piece)
