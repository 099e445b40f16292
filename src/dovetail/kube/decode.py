"""Bytes of lists and watches to values of the port, straight into the model's types.

One object that cannot be understood never loses the others: it arrives as `Unreadable`. What is not JSON at all means
that the answer was cut or mangled on the way, and is `Unavailable`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from dovetail.kube.call import Call
from dovetail.kube.status import error_of, read_status
from dovetail.manifest.codec import decode
from dovetail.manifest.sharing import Sharing
from dovetail.model.kinds import Kind
from dovetail.model.wire import KubeObject, Unreadable
from dovetail.ports.cluster import Change, ChangeType
from dovetail.ports.errors import Unavailable

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
class Gathering:
    """The pages of a list read so far."""

    kind: Kind[Any]
    sharing: Sharing
    items: list[Any] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    meta: PageMeta = field(default_factory=PageMeta)

    def add(self, data: bytes) -> None:
        """Read one more page."""
        try:
            page = _PAGES.decode(data)
            for raw in page.items or ():
                value = decode(self.kind, raw)
                if isinstance(value, Unreadable):
                    self.unreadable.append(value)
                else:
                    self.sharing.apply(value)
                    self.items.append(value)
        except msgspec.DecodeError as error:
            raise Unavailable(f"list of {self.kind}: the answer is not what a list looks like: {error}") from error
        self.meta = page.metadata


def change_of(kind: Kind[T], line: bytes, call: Call, sharing: Sharing) -> Change[T]:
    """One line of a watch. An ERROR event is raised: `Gone` when the watch is too far behind."""
    try:
        event = _EVENTS.decode(line)
        if event.type == "BOOKMARK":
            return Change("BOOKMARK", _BOOKMARKS.decode(event.object).metadata.resource_version)
        change = _CHANGES.get(event.type)
        if change is None:
            raise error_of(call, read_status(event.object))
        value = decode(kind, event.object)
    except msgspec.DecodeError as error:
        raise Unavailable(f"{call}: a line of the watch is not what an event looks like: {error}") from error
    if not isinstance(value, Unreadable):
        sharing.apply(value)
    return Change(change, value.metadata.resource_version, value)


class Lines:
    """Cuts a stream of chunks into lines, in time linear in their size however long a line is."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without empty ones."""
        first, newline, rest = chunk.partition(b"\n")
        self._begun.append(first)
        if not newline:
            return
        line, self._begun = b"".join(self._begun), []
        if line.strip():
            yield line
        *whole, last = rest.split(b"\n")
        yield from (line for line in whole if line.strip())
        self._begun = [last] if last else []
