"""A local copy of every object of one kind, kept true by list and watch.

Written once over the `Cluster` port, so the simulated world exercises the same resume and relist paths as a real API
server. A watch that ends is resumed where it stopped; when that point is no longer kept, everything is listed again and
the difference is told, deletions included. Listeners hear each change once, in order, and must not wait.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from dovetail.model.kinds import Kind
from dovetail.model.wire import Key, KubeObject, Unreadable
from dovetail.ports.cluster import EVERYTHING, Change, Cluster, ListOptions
from dovetail.ports.errors import ApiError, Denied, Gone
from dovetail.runtime.backoff import Backoff

log = logging.getLogger(__name__)
T = TypeVar("T", bound=KubeObject)
Listener = Callable[[T | None, T | None], None]
"""Called with the object before and after the change; None where it did not or does not exist."""

REMEMBERED_DELETIONS = 4096


class Informer(Generic[T]):
    """The objects of one kind, by key; all of them, or those that the options choose."""

    def __init__(self, cluster: Cluster, kind: Kind[T], options: ListOptions = EVERYTHING) -> None:
        self.kind = kind
        self.items: dict[Key, T] = {}
        self.unreadable: dict[Key, Unreadable] = {}
        self.synced = asyncio.Event()
        self._cluster = cluster
        self._options = options
        self._listeners: list[Listener[T]] = []
        self._unreadable_listeners: list[Callable[[Unreadable], None]] = []
        self._deleted_uids: OrderedDict[str, None] = OrderedDict()
        self._listing = False
        self._own_writes: set[Key] = set()  # while a list was under way

    def listen(self, listener: Listener[T]) -> None:
        """Call `listener` with every change from now on."""
        self._listeners.append(listener)

    def listen_unreadable(self, listener: Callable[[Unreadable], None]) -> None:
        """Call `listener` with every object that turns out to be unreadable."""
        self._unreadable_listeners.append(listener)

    def observe(self, value: T) -> None:
        """Take in the answer to a write of our own, so that the next decision already sees it."""
        key = value.key
        if value.metadata.uid not in self._deleted_uids and self._news(key, value):
            self._put(key, value)
            if self._listing:
                self._own_writes.add(key)

    async def run(self) -> None:
        """List and watch until cancelled."""
        backoff = Backoff(first=0.5, limit=30.0)
        version = ""
        while True:
            try:
                if not version:
                    version = await self._relist()
                began = version
                async for change in self._cluster.watch(self.kind, version, self._options):
                    version = change.resource_version or version
                    self._apply(change)
                    backoff.reset()
                if version == began:  # nothing was said at all: do not ask again at once
                    await asyncio.sleep(backoff.next())
            except Gone:
                version = ""
                await asyncio.sleep(backoff.next())
            except ApiError as error:
                delay = max(backoff.next(), getattr(error, "retry_after", None) or 0.0)
                self._report(error, delay)
                await asyncio.sleep(delay)

    def _report(self, error: ApiError, delay: float) -> None:
        facts = {"kind": self.kind.name, "error": str(error), "retry_seconds": delay}
        if isinstance(error, Denied):
            remedy = f"grant get, list and watch on {self.kind.plural} (apiGroup {self.kind.group!r})"
            log.error("not allowed to watch", extra={**facts, "remedy": remedy})
        else:
            log.warning("watch failed", extra=facts)

    async def _relist(self) -> str:
        """Take in a whole list. Only what we wrote while it was under way may be newer than what it has."""
        self._own_writes.clear()
        self._listing = True
        try:
            listing = await self._cluster.list(self.kind, self._options)
        finally:
            self._listing = False
        present = {item.key for item in listing.items} | {item.key for item in listing.unreadable}
        newer = {key for key in self._own_writes if self._later_than(key, listing.resource_version)}
        for key in [key for key in (*self.items, *self.unreadable) if key not in present | newer]:
            self._drop(key)
        for bad in listing.unreadable:
            if bad.key not in newer:
                self._set_aside(bad)
        for item in listing.items:
            known = self.items.get(item.key)
            if item.key not in newer and (known is None or _version(known) != _version(item)):
                self._put(item.key, item)
        self.synced.set()
        return listing.resource_version

    def _apply(self, change: Change[T]) -> None:
        if change.type == "BOOKMARK" or change.object is None:
            return
        if change.type == "DELETED":
            self._drop(change.object.key, change.object.metadata.uid)
        else:
            self._take(change.object)

    def _take(self, found: T | Unreadable) -> None:
        """Believe what the API server tells, unless we already know better from the answer to a write of our own."""
        key = found.key
        if not self._news(key, found):
            return
        if isinstance(found, Unreadable):
            self._set_aside(found)
        else:
            self._put(key, found)

    def _news(self, key: Key, found: T | Unreadable) -> bool:
        known = self.items.get(key)
        return known is None or (known is not found and _later(_version(found), _version(known)))

    def _later_than(self, key: Key, version: str) -> bool:
        known = self.items.get(key)
        return known is not None and _later(_version(known), version)

    def _put(self, key: Key, value: T) -> None:
        self.unreadable.pop(key, None)
        before = self.items.get(key)
        if before is not None and before.metadata.uid != value.metadata.uid:
            self._drop(key)
            before = None
        self.items[key] = value
        self._tell(before, value)

    def _set_aside(self, bad: Unreadable) -> None:
        if bad.key not in self.unreadable:
            log.error(
                "object cannot be read",
                extra={"kind": self.kind.name, "object": str(bad.key), "faults": [str(fault) for fault in bad.faults]},
            )
        known = self.unreadable.get(bad.key)
        self._forget(bad.key)
        self.unreadable[bad.key] = bad
        if known is None or known.faults != bad.faults:
            for listener in self._unreadable_listeners:
                listener(bad)

    def _drop(self, key: Key, uid: str = "") -> None:
        """It is deleted. A deletion that comes late may be that of an earlier object of the same name."""
        known = self.items.get(key)
        gone = uid or (known.metadata.uid if known is not None else "")
        if gone:
            self._deleted_uids[gone] = None
            while len(self._deleted_uids) > REMEMBERED_DELETIONS:
                self._deleted_uids.popitem(last=False)
        if known is None or known.metadata.uid == gone:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self.unreadable.pop(key, None)
        before = self.items.pop(key, None)
        if before is not None:
            self._tell(before, None)

    def _tell(self, before: T | None, after: T | None) -> None:
        for listener in self._listeners:
            listener(before, after)


def _version(found: KubeObject | Unreadable) -> str:
    return found.metadata.resource_version


def _later(version: str, other: str) -> bool:
    """Whether a resource version is later than another; where they are not numbers, any other one counts as later."""
    if version == other:
        return False
    return int(version) > int(other) if version.isdigit() and other.isdigit() else True
