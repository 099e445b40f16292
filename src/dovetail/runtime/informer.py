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
from dovetail.ports.cluster import Change, Cluster
from dovetail.ports.errors import ApiError, Denied, Gone
from dovetail.runtime.backoff import Backoff

log = logging.getLogger(__name__)
T = TypeVar("T", bound=KubeObject)
Listener = Callable[[T | None, T | None], None]
"""Called with the object before and after the change; None where it did not or does not exist."""

REMEMBERED_DELETIONS = 4096


class Informer(Generic[T]):
    """The objects of one kind, by key."""

    def __init__(self, cluster: Cluster, kind: Kind[T]) -> None:
        self.kind = kind
        self.items: dict[Key, T] = {}
        self.unreadable: dict[Key, Unreadable] = {}
        self.synced = asyncio.Event()
        self._cluster = cluster
        self._listeners: list[Listener[T]] = []
        self._unreadable_listeners: list[Callable[[Unreadable], None]] = []
        self._deleted_uids: OrderedDict[str, None] = OrderedDict()

    def listen(self, listener: Listener[T]) -> None:
        """Call `listener` with every change from now on."""
        self._listeners.append(listener)

    def listen_unreadable(self, listener: Callable[[Unreadable], None]) -> None:
        """Call `listener` with every object that turns out to be unreadable."""
        self._unreadable_listeners.append(listener)

    def observe(self, value: T) -> None:
        """Take in the answer to a write of our own, so that the next decision already sees it."""
        known = self.items.get(value.key)
        if value.metadata.uid in self._deleted_uids or (known is not None and not _newer(value, known)):
            return
        self._put(value)

    async def run(self) -> None:
        """List and watch until cancelled."""
        backoff = Backoff(first=0.5, limit=30.0)
        version = ""
        while True:
            try:
                if not version:
                    version = await self._relist()
                began = version
                async for change in self._cluster.watch(self.kind, version):
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
        listing = await self._cluster.list(self.kind)
        present = {item.key for item in listing.items} | {item.key for item in listing.unreadable}
        for key in [key for key in (*self.items, *self.unreadable) if key not in present]:
            self._drop(key)
        for bad in listing.unreadable:
            self._set_aside(bad)
        for item in listing.items:
            known = self.items.get(item.key)
            if known is None or known.metadata.resource_version != item.metadata.resource_version:
                self._put(item)
        self.synced.set()
        return listing.resource_version

    def _apply(self, change: Change[T]) -> None:
        if change.type == "BOOKMARK" or change.object is None:
            return
        if change.type == "DELETED":
            self._drop(change.object.key, change.object.metadata.uid)
        elif isinstance(change.object, Unreadable):
            self._set_aside(change.object)
        else:
            self._put(change.object)

    def _put(self, value: T) -> None:
        self.unreadable.pop(value.key, None)
        before = self.items.get(value.key)
        if before is not None and before.metadata.uid != value.metadata.uid:
            self._drop(value.key)
            before = None
        self.items[value.key] = value
        self._tell(before, value)

    def _set_aside(self, bad: Unreadable) -> None:
        if bad.key not in self.unreadable:
            log.error(
                "object cannot be read",
                extra={"kind": self.kind.name, "object": str(bad.key), "faults": [str(fault) for fault in bad.faults]},
            )
        known = self.unreadable.get(bad.key)
        self._drop(bad.key)
        self.unreadable[bad.key] = bad
        if known is None or known.faults != bad.faults:
            for listener in self._unreadable_listeners:
                listener(bad)

    def _drop(self, key: Key, uid: str = "") -> None:
        self.unreadable.pop(key, None)
        before = self.items.pop(key, None)
        gone = uid or (before.metadata.uid if before is not None else "")
        if gone:
            self._deleted_uids[gone] = None
            while len(self._deleted_uids) > REMEMBERED_DELETIONS:
                self._deleted_uids.popitem(last=False)
        if before is not None:
            self._tell(before, None)

    def _tell(self, before: T | None, after: T | None) -> None:
        for listener in self._listeners:
            listener(before, after)


def _newer(value: KubeObject, known: KubeObject) -> bool:
    ours, theirs = value.metadata.resource_version, known.metadata.resource_version
    if ours.isdigit() and theirs.isdigit():
        return int(ours) > int(theirs)
    return ours != theirs
