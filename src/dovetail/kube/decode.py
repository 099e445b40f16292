"""Bytes of lists and watches to values of the port, straight into the model's types.

One object that cannot be decoded never loses the others: it arrives as `UnreadableObject`, even where the decoder
gives up on the whole text (see `manifest.json_parts`). What is not JSON at all means that the answer was cut or
mangled on the way, and is `Corrupted`; so is a line of a watch about an object whose name cannot be read, because
nobody can tell which object is out of date from there on. Whoever watches lists again.
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
    """Where a page of a list stands."""

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
    """The pages of a list read so far."""

    kind: Kind[Any]
    sharing: Interner
    items: list[Any] = field(default_factory=list)
    unreadable: list[UnreadableObject] = field(default_factory=list)
    meta: PageMeta = field(default_factory=PageMeta)

    def add(self, data: bytes) -> None:
        """Read one more page. A real list has a version; what has none would look like an empty cluster."""
        try:
            page = _page(data)
            if not page.metadata.resource_version:
                raise ValueError("it has no resourceVersion")
            for raw in page.items or ():
                self._take(raw)
        except UNDECODABLE as error:
            raise Corrupted(f"list of {self.kind}: the answer is not what a list looks like: {error}") from error
        self.meta = page.metadata

    def _take(self, raw: msgspec.Raw) -> None:
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
    """One line of a watch. An ERROR event is raised: `Gone` when the watch is too far behind."""
    try:
        event = _event(line)
        if event.type == "BOOKMARK":
            return WatchEvent("BOOKMARK", _BOOKMARKS.decode(event.object).metadata.resource_version)
        change = _CHANGES.get(event.type)
        if change is None:
            raise error_of(call, read_status(event.object))
        value = decode(kind, event.object)
    except UNDECODABLE as error:
        raise Corrupted(f"{call}: a line of the watch is not what an event looks like: {error}") from error
    if not isinstance(value, UnreadableObject):
        sharing.apply(value)
    return WatchEvent(change, value.metadata.resource_version, value)


class LineReader:
    """Cuts a stream of chunks into lines, in time linear in their size; a line beyond the limit is `Corrupted`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[bytes] = []
        self._length = 0  # of what is begun

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without empty ones."""
        first, *rest = chunk.split(b"\n")
        self._begin(first)
        for piece in rest:
            line, self._begun, self._length = b"".join(self._begun), [], 0
            if line.strip():
                yield line
            self._begin(piece)

    def _begin(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._most:
            raise Corrupted(f"a line of the watch is longer than {self._most} bytes")
        if piece:
            self._begun.append(piece)
