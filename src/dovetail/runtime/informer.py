"""A cache of all objects of one kind, kept current by list and watch.

Implemented once over the `Cluster` port, so the simulated API server runs the same code as a real one. A watch that
ends is resumed at its last resource version; on `410 Gone` all objects are listed again and the differences, deletions
included, are delivered as changes. Listeners receive each change once, in order, and must not block. Objects that
cannot be decoded are kept in `unreadable` and read again every 30 seconds, because the data may have been corrupted in
transit.

Staleness: a watch can stay open without delivering anything. The API server sends a bookmark about once a minute, so a
cache that no event, bookmark or list has confirmed for `stale_after` is stale: its watch is closed and all objects are
listed again, and the cache stays stale until a list succeeds. Events that arrive late but regularly are not detected.

Only an assertion ends the loop: an undecodable answer is one more failure, and a failing listener is logged.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key, KubeObject, UnreadableObject
from dovetail.ports.cluster import EVERYTHING, Cluster, ListOptions, WatchEvent
from dovetail.ports.errors import ApiError, Corrupted, Denied, Gone
from dovetail.runtime.reconciler import RetryBackoff
from dovetail.settings import Settings

log = logging.getLogger(__name__)
T = TypeVar("T", bound=KubeObject)
V = TypeVar("V", bound=KubeObject | UnreadableObject)
Listener = Callable[[T | None, T | None], None]
"""Called with the object before and after the change; None if it did not or does not exist."""
UnreadableListener = Callable[[UnreadableObject | None, UnreadableObject | None], None]
"""The same for an unreadable object; None if it was or is readable, or did not or does not exist."""

MAX_DELETED_UIDS = 4096
STALE_AFTER = Settings().watch_stale_after.total_seconds()
RELIST_SECONDS = 5.0
"""The minimum delay before a list after an undecodable answer: lists are expensive."""
RECHECK_SECONDS = 30.0
MAX_SINGLE_RECHECKS = 20
"""Up to this many unreadable objects are read again one by one; more of them with one list."""


class Informer(Generic[T]):
    """The objects of one kind that match the options, by key."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind[T],
        options: ListOptions = EVERYTHING,
        *,
        stale_after: float = STALE_AFTER,
    ) -> None:
        self.kind = kind
        self.items: dict[Key, T] = {}
        self.unreadable: dict[Key, UnreadableObject] = {}
        self.synced = asyncio.Event()
        self._cluster = cluster
        self.options = options
        self._listeners: list[Listener[T]] = []
        self._unreadable_listeners: list[UnreadableListener] = []
        self._deleted_uids: OrderedDict[str, None] = OrderedDict()
        self._listing = False
        self._own_writes: set[Key] = set()  # keys written by us during a list
        self._stale_after = stale_after
        self._loop: asyncio.AbstractEventLoop | None = None  # while it runs; cached because get_running_loop is slow
        self._version = ""  # resource version at which the watch resumes; empty: list first
        self._confirmed_at = 0.0  # loop time of the last event, bookmark or list
        self._stale_timer: asyncio.TimerHandle | None = None  # fires when the cache would become stale
        self._reported_stale = False
        self._watch_timeout: asyncio.Timeout | None = None  # expires to close the open watch
        self._relist_requested = False
        self._recheck_task: asyncio.Task[None] | None = None  # reads unreadable objects again

    @property
    def age(self) -> float:
        """Seconds since the cache was last confirmed; 0 before the first list."""
        if self._loop is None or not self.synced.is_set():
            return 0.0
        return self._loop.time() - self._confirmed_at

    @property
    def stale(self) -> bool:
        """Whether the cache was listed once and has not been confirmed for too long."""
        return self._loop is not None and self.synced.is_set() and self._loop.time() >= self._stale_at

    @property
    def _stale_at(self) -> float:
        return self._confirmed_at + self._stale_after

    def listen(self, listener: Listener[T]) -> None:
        """Call `listener` with every change from now on."""
        self._listeners.append(listener)

    def listen_unreadable(self, listener: UnreadableListener) -> None:
        """Call `listener` when an object becomes unreadable, changes while it is, and when it no longer is."""
        self._unreadable_listeners.append(listener)

    def observe(self, value: T | UnreadableObject) -> None:
        """Store the answer to one of our writes or reads, so that the next decision sees it before the watch does."""
        key = value.key
        if value.metadata.uid not in self._deleted_uids and self._is_newer(key, value):
            self._store(value)
            if self._listing:
                self._own_writes.add(key)

    async def run(self) -> None:
        """List and watch until cancelled."""
        self._loop = asyncio.get_running_loop()
        self._version = ""
        try:
            await self._follow(self._loop)
        finally:
            if self._recheck_task is not None:
                self._recheck_task.cancel()

    async def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        backoff = RetryBackoff(first=0.5, limit=30.0)
        while True:
            try:
                if not self._version or self._relist_requested or self.stale:
                    self._report_stale()
                    self._version = await self._relist(loop)
                    self._report_stale()
                if await self._watch(loop, backoff):
                    continue
                delay = backoff.next()  # the watch ended without any event: do not retry at once
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one answer, the next may be right
                delay = self._failed(error, backoff)
            await asyncio.sleep(delay)

    async def _watch(self, loop: asyncio.AbstractEventLoop, backoff: RetryBackoff) -> bool:
        """Apply changes until the watch ends or the cache is stale; return whether to continue without delay."""
        began = self._version
        try:
            async with asyncio.timeout(None) as watch_timeout:
                self._watch_timeout = watch_timeout
                self._check_staleness(loop, watch_timeout)
                async for change in self._cluster.watch(self.kind, began, self.options):
                    self._confirmed_at = loop.time()
                    self._version = change.resource_version or self._version
                    self._apply(change)
                    backoff.reset()
        except TimeoutError:
            if not watch_timeout.expired():
                raise
            return True
        finally:
            self._watch_timeout = None
            if self._stale_timer is not None:
                self._stale_timer.cancel()
        return self._version != began

    def _check_staleness(self, loop: asyncio.AbstractEventLoop, watch_timeout: asyncio.Timeout) -> None:
        """Close the watch if the cache is stale, else check again when it could be: events reset no timer."""
        if self.stale:
            watch_timeout.reschedule(loop.time())
        else:
            self._stale_timer = loop.call_at(self._stale_at, self._check_staleness, loop, watch_timeout)

    async def _recheck_unreadable(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read unreadable objects again, beside the watch: one by one, or with a list if they are many or unnamed."""
        while self.unreadable:
            await asyncio.sleep(RECHECK_SECONDS)
            if len(self.unreadable) > MAX_SINGLE_RECHECKS or not all(key.name for key in self.unreadable):
                self._relist_requested = True
                if self._watch_timeout is not None:
                    self._watch_timeout.reschedule(loop.time())
                continue
            for key in list(self.unreadable):
                try:
                    await self._recheck_one(key)
                except Exception:  # noqa: BLE001, S112 - it still cannot be read
                    continue

    async def _recheck_one(self, key: Key) -> None:
        """Read one object with a list: an informer needs no permission to get."""
        only = ListOptions(namespace=key.namespace, field_selector=f"metadata.name={key.name}")
        listing = await self._cluster.list(self.kind, only)
        for item in listing.items:
            self.observe(item)
        if not listing.items and not listing.unreadable:
            self._delete(key)

    def _failed(self, error: Exception, backoff: RetryBackoff) -> float:
        """Log an error; return the seconds to wait before the next attempt."""
        delay = max(backoff.next(), getattr(error, "retry_after", None) or 0.0)
        expected = isinstance(error, ApiError)
        if isinstance(error, Gone):
            self._version = ""
            return delay
        if isinstance(error, Corrupted) or not expected:  # resuming would return the same answer
            self._version = ""
            delay = max(delay, RELIST_SECONDS)
        facts = {"kind": self.kind.name, "error": str(error) or type(error).__name__, "retry_seconds": delay}
        if isinstance(error, Denied):
            remedy = f"grant get, list and watch on {self.kind.plural} (apiGroup {self.kind.group!r})"
            log.error("not allowed to watch", extra={**facts, "remedy": remedy})
        else:
            log.warning("watch failed", extra=facts, exc_info=None if expected else error)
        return delay

    def _report_stale(self) -> None:
        """Log when the cache becomes stale, and when it is fresh again."""
        if self.stale == self._reported_stale:
            return
        self._reported_stale = self.stale
        facts = {"kind": self.kind.name, "age_seconds": round(self.age), "stale_after_seconds": self._stale_after}
        log.warning("cache is stale: listing again" if self.stale else "cache is fresh again", extra=facts)

    async def _relist(self, loop: asyncio.AbstractEventLoop) -> str:
        """Replace the cache by a list. Only objects that we wrote during the list may be newer than it."""
        self._own_writes.clear()
        self._listing = True
        try:
            listing = await self._cluster.list(self.kind, self.options)
        finally:
            self._listing = False
        present = {item.key for item in listing.items} | {item.key for item in listing.unreadable}
        newer = {key for key in self._own_writes if self._later_than(key, listing.resource_version)}
        for key in [key for key in (*self.items, *self.unreadable) if key not in present | newer]:
            self._delete(key)
        for bad in listing.unreadable:
            if bad.key not in newer:
                self._put_unreadable(bad)
        for item in listing.items:
            known = self.items.get(item.key)
            if item.key not in newer and (known is None or _version(known) != _version(item)):
                self._put(item.key, item)
        self._confirmed_at, self._relist_requested = loop.time(), False
        self.synced.set()
        return listing.resource_version

    def _apply(self, change: WatchEvent[T]) -> None:
        if change.type == "BOOKMARK" or change.object is None:
            return
        if change.type == "DELETED":
            self._delete(change.object.key, change.object.metadata.uid)
        else:
            self._store(change.object)

    def _store(self, found: T | UnreadableObject) -> None:
        """Store the object, unless the cache has a newer version from one of our own writes."""
        key = found.key
        if not self._is_newer(key, found):
            return
        if isinstance(found, UnreadableObject):
            self._put_unreadable(found)
        else:
            self._put(key, found)

    def _known(self, key: Key) -> T | UnreadableObject | None:
        return self.items.get(key) or self.unreadable.get(key)

    def _is_newer(self, key: Key, found: T | UnreadableObject) -> bool:
        """Whether this replaces the cached object: a later version, or the same version that was unreadable before."""
        known = self._known(key)
        if known is None or _later(_version(found), _version(known)):
            return True
        return isinstance(known, UnreadableObject) and _version(found) == _version(known)

    def _later_than(self, key: Key, version: str) -> bool:
        known = self._known(key)
        return known is not None and _later(_version(known), version)

    def _put(self, key: Key, value: T) -> None:
        self._clear_unreadable(key)
        before = self.items.get(key)
        if before is not None and before.metadata.uid != value.metadata.uid:
            self._delete(key)
            before = None
        self.items[key] = value
        self._notify(self._listeners, before, value)

    def _put_unreadable(self, bad: UnreadableObject) -> None:
        if bad.key not in self.unreadable:
            log.error(
                "object cannot be read",
                extra={"kind": self.kind.name, "object": str(bad.key), "faults": [str(fault) for fault in bad.faults]},
            )
        before, known = self.items.pop(bad.key, None), self.unreadable.get(bad.key)
        self.unreadable[bad.key] = bad
        if self._loop is not None and (self._recheck_task is None or self._recheck_task.done()):
            self._recheck_task = self._loop.create_task(
                self._recheck_unreadable(self._loop), name=f"recheck:{self.kind.plural}"
            )
        if before is not None:
            self._notify(self._listeners, before, None)
        self._notify(self._unreadable_listeners, known, bad)

    def _delete(self, key: Key, uid: str = "") -> None:
        """Remove a deleted object, unless the deletion was of an earlier object with the same name."""
        known = self._known(key)
        gone = uid or (known.metadata.uid if known is not None else "")
        if gone:
            self._deleted_uids[gone] = None
            while len(self._deleted_uids) > MAX_DELETED_UIDS:
                self._deleted_uids.popitem(last=False)
        if known is None or known.metadata.uid in ("", gone):
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self._clear_unreadable(key)
        before = self.items.pop(key, None)
        if before is not None:
            self._notify(self._listeners, before, None)

    def _clear_unreadable(self, key: Key) -> None:
        known = self.unreadable.pop(key, None)
        if known is not None:
            self._notify(self._unreadable_listeners, known, None)

    def _notify(self, listeners: list[Callable[[V | None, V | None], None]], before: V | None, after: V | None) -> None:
        """Call every listener. One that fails is logged, and stops neither the other listeners nor the watch."""
        for listener in listeners:
            try:
                listener(before, after)
            except AssertionError:
                raise
            except Exception:
                about = after or before
                name = str(about.key) if about is not None else ""
                log.exception("listener broke", extra={"kind": self.kind.name, "object": name})


def _version(found: KubeObject | UnreadableObject) -> str:
    return found.metadata.resource_version


def _later(version: str, other: str) -> bool:
    """Whether a resource version is later than another; if they are not numbers, any different one counts as later."""
    if version == other:
        return False
    if not (_is_number(version) and _is_number(other)):
        return True
    return (len(version), version) > (len(other), other)  # as numbers, however many digits they have


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit() and version[0] != "0"
