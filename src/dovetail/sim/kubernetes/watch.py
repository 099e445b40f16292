"""List and watch: label and field selectors, watch streams, and the version of the objects that a list returns.

`WatchStream` sends the history after a resource version, then changes as they happen, with bookmarks in between, until
its lifetime is over. With a selector, objects that start or stop to match appear as added or deleted, as in a real API
server. A watch waits in the table's `waiting` list, so an idle watch costs nothing.

`view` implements the resource version semantics of lists: without a version the list is a quorum read; with `0` it
comes from the watch cache, which may lag; any other version means "not older than", or "exactly". Earlier states are
computed by undoing the recorded changes, newest first.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Fault, Key, KubeObject
from dovetail.ports.cluster import ChangeType, ListOptions, WatchEvent
from dovetail.ports.errors import Gone, Invalid, Unavailable
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.store import ObjectVersion, Store, StoreChange, Table
from dovetail.sim.virtual_loop import pause

Selects = Callable[[Plain], bool]

_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<absent_key>[^\s=!,()]+)"
    r"|(?P<key>[^\s=!,()]+)\s*(?:(?P<sign>==|!=|=)\s*(?P<value>[^\s,()]*)"
    r"|\s(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?)\s*(?:,|$)"
)


def label_selector(text: str) -> Selects:
    """Parse `a=b,c!=d,e in (x,y),f notin (z),g,!h`."""
    terms: list[tuple[str, str, frozenset[str]]] = []
    place = 0
    while place < len(text):
        term = _TERM.match(text, place)
        if term is None or term.end() == place:
            raise ValueError(f"label selector {text!r} cannot be read from {text[place:]!r} on")
        terms.append(_read(term))
        place = term.end()
    return lambda plain: all(_holds(term, plain["metadata"].get("labels") or {}) for term in terms)


def _read(term: re.Match[str]) -> tuple[str, str, frozenset[str]]:
    if term["absent"]:
        return term["absent_key"], "absent", frozenset()
    if term["set"]:
        return term["key"], term["set"], frozenset(value.strip() for value in term["values"].split(","))
    if term["sign"]:
        return term["key"], "notin" if term["sign"] == "!=" else "in", frozenset({term["value"]})
    return term["key"], "present", frozenset()


def _holds(term: tuple[str, str, frozenset[str]], labels: Mapping[str, str]) -> bool:
    key, operator, values = term
    value = labels.get(key)
    if operator == "absent":
        return value is None
    if operator == "notin":
        return value is None or value not in values
    return value is not None and (operator == "present" or value in values)


def field_selector(text: str) -> Selects:
    """Parse `spec.nodeName=a,metadata.name!=b`; a missing field counts as empty."""
    terms: list[tuple[list[str], bool, str]] = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        path, sign, value = re.split(r"(!=|==|=)", term, maxsplit=1)
        terms.append((path.split("."), sign != "!=", value))
    return lambda plain: all((_field(plain, path) == value) is wanted for path, wanted, value in terms)


def _field(plain: Mapping[str, Any], path: list[str]) -> str:
    place: Any = plain
    for name in path:
        place = place.get(name) if isinstance(place, Mapping) else None
    return "" if place is None else str(place)


T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class WatchTerms:
    """Delay, bookmark interval and lifetime of a watch, in seconds."""

    delay: float  # from a write to its event
    bookmark_every: float
    lifetime: float


class WatchStream(AsyncIterator[WatchEvent[T]], Generic[T]):
    """The stream of changes of one kind. It may be dropped at any time; nothing has to be closed."""

    def __init__(
        self, store: Store, kind: Kind[T], table: Table, selects: Selects, opened: Callable[[], Awaitable[WatchTerms]]
    ) -> None:
        self._store = store
        self._kind = kind
        self._table = table
        self._selects = selects
        self._opened = opened
        self._since = ""
        self._initial: list[ObjectVersion] = []
        self._position = -1
        self._terms = WatchTerms(0, 0, 0)
        self._ends_at = 0.0
        self._bookmark_at = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def since(self, version: str) -> "WatchStream[T]":
        """Start after this resource version; without one, send every existing object first."""
        self._since = version
        return self

    def __aiter__(self) -> "WatchStream[T]":
        return self

    async def __anext__(self) -> WatchEvent[T]:
        if self._position < 0:
            await self._open()
        while True:
            if self._initial:
                return self._change("ADDED", self._initial.pop(0))
            change = self._table.change_at(self._position)
            if change is None:
                if (bookmark := await self._wait()) is not None:
                    return bookmark
                continue
            loop = self._store.loop
            if (late := change.at + self._terms.delay - loop.time()) > 0:
                await pause(loop, late)
            self._position += 1
            if (event := self._to_event(change)) is not None:
                return event

    async def _open(self) -> None:
        self._terms = await self._opened()
        now = self._store.loop.time()
        self._ends_at = now + self._terms.lifetime
        self._bookmark_at = now + self._terms.bookmark_every
        if self._since in ("", "0"):
            self._initial = [record for record in self._table.objects.values() if self._selects(record.plain)]
            self._position = self._table.position(self._store.version)
        elif not self._since.isdigit():
            raise Unavailable(f"{self._since!r} is not a resource version")
        else:
            self._position = self._table.position(int(self._since))

    async def _wait(self) -> WatchEvent[T] | None:
        """Wait for the next change, at most until a bookmark is due; ends the watch when its lifetime is over."""
        loop = self._store.loop
        if loop.time() >= self._ends_at:
            raise StopAsyncIteration
        if loop.time() >= self._bookmark_at:
            self._bookmark_at = loop.time() + self._terms.bookmark_every
            return WatchEvent("BOOKMARK", str(self._store.version))
        self._waiter = loop.create_future()
        self._table.waiting.append(self._on_change)
        if self._alarm is None:
            self._alarm = loop.call_at(min(self._ends_at, self._bookmark_at), self._ring)
        try:
            await self._waiter
        except BaseException:
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None
            raise
        finally:
            if self._on_change in self._table.waiting:
                self._table.waiting.remove(self._on_change)
        return None

    def _ring(self) -> None:
        """Wake the watch for a bookmark or its end. The timer stays set across changes, to avoid a timer per wait."""
        self._alarm = None
        if self._waiter is not None:
            _wake(self._waiter)

    def _on_change(self, change: StoreChange) -> None:
        """Wake the watch after a matching change, else keep waiting.

        A method, because a closure that refers to itself would need the cyclic garbage collector.
        """
        assert self._waiter is not None, "called only while waiting"
        if self._matches(change):
            self._store.loop.call_at(change.at + self._terms.delay, _wake, self._waiter)
        else:  # does not match: skip it
            self._position += 1
            self._table.waiting.append(self._on_change)

    def _matches(self, change: StoreChange) -> bool:
        before = change.before is not None and self._selects(change.before.plain)
        return before or self._selects(change.after.plain)

    def _to_event(self, change: StoreChange) -> WatchEvent[T] | None:
        before = change.before is not None and self._selects(change.before.plain)
        after = change.type != "DELETED" and self._selects(change.after.plain)
        if before:
            return self._change("MODIFIED" if after else "DELETED", change.after)
        return self._change("ADDED", change.after) if after else None

    def _change(self, kind: ChangeType, record: ObjectVersion) -> WatchEvent[T]:
        return WatchEvent(kind, record.meta["resourceVersion"], record.value(self._kind))


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class ListedVersion(NamedTuple):
    """The objects of a kind at one version."""

    records: Iterable[ObjectVersion]
    version: int


def view(store: Store, table: Table, options: ListOptions, lag: float) -> ListedVersion:
    """The objects that a list with these options returns."""
    now = ListedVersion(table.objects.values(), store.version)
    wanted = _requested_version(options)
    if wanted is None:
        return now
    if wanted > store.version:
        raise Unavailable(f"Timeout: Too large resource version: {wanted}, current: {store.version}")
    if options.exact:
        if wanted < table.horizon:
            raise Gone(f"The resourceVersion for the provided list is too old: {wanted}")
        return _undo(now, table, lambda change: change.version > wanted)._replace(version=wanted)
    cut = store.loop.time() - lag
    cached = _undo(now, table, lambda change: change.at > cut)
    return cached if cached.version >= wanted else now


def _requested_version(options: ListOptions) -> int | None:
    """The requested resource version; None for a quorum read."""
    asked = options.resource_version
    if options.exact and asked in ("", "0"):
        fault = Fault("resourceVersionMatch", f"Exact is forbidden for resourceVersion {asked!r}")
        raise Invalid(f"ListOptions is invalid: {fault}", (fault,))
    if not asked:
        return None
    if not asked.isdigit():
        raise Invalid(f"invalid resource version: {asked!r}")
    return int(asked)


def _undo(now: ListedVersion, table: Table, undone: Callable[[StoreChange], bool]) -> ListedVersion:
    records: dict[Key, ObjectVersion] | None = None
    version = now.version
    for change in reversed(table.history):
        if not undone(change):
            break
        records = dict(table.objects) if records is None else records
        version = change.version - 1
        if change.before is None:
            del records[change.after.key]
        else:
            records[change.after.key] = change.before
    return now if records is None else ListedVersion(records.values(), version)
