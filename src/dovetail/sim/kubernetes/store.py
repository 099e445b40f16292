"""The object store of the simulated API server: current objects, indexes, and the history that watches are served from.

`Table` holds the objects of one kind by key, and its recent changes in order. `ObjectVersion` is one immutable version
of one object: a write stores a new version, and readers keep the one they hold. One counter numbers all writes, as the
etcd revision does; it is the resource version.

The store knows versions, indexes and history, but not the semantics of a write; those are in `api_server`. Indexes
(by uid, by owner, pods by node, active pods by owner) are updated with each write, so every lookup takes time
proportional to its result. Listeners are called after the write, in the same instant of virtual time, in the order of
the writes.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key, KubeObject, UnreadableObject
from dovetail.ports.clock import Clock
from dovetail.ports.errors import Gone
from dovetail.sim.event_log import LogEntry, entry_of
from dovetail.sim.kubernetes.decode_cache import DecodeCache, PreviousVersion
from dovetail.sim.kubernetes.kinds import POD, Resource
from dovetail.sim.kubernetes.merge_patch import Plain

T = TypeVar("T", bound=KubeObject)

DeletionRank = tuple[tuple[bool, bool, bool, int], str]
"""How a ReplicaSet ranks a pod for deletion: (unbound, not running, unready, negative deletion cost), creation time.

The creation time is RFC 3339 text, which sorts like the instant.
"""

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class ObjectVersion:
    """One version of one object. Decoded and derived values are computed once, on first use."""

    __slots__ = (
        "_active",
        "_decode_cache",
        "_deletion_rank",
        "_node",
        "_previous",
        "_ready",
        "_values",
        "controller",
        "deleting",
        "key",
        "meta",
        "owners",
        "plain",
        "resource",
        "uid",
        "version",
    )

    key: Key
    uid: str
    deleting: bool
    """Whether it has a deletionTimestamp."""
    owners: list[str]
    """The uids of its owners."""
    controller: Plain | None
    """The reference to the one owner that manages the object."""

    def __init__(
        self,
        resource: Resource,
        plain: Plain,
        version: int,
        decode_cache: DecodeCache,
        before: "ObjectVersion | None" = None,
    ) -> None:
        written: Plain = plain["metadata"]
        self.meta: Plain = {**written, "resourceVersion": str(version)}
        self.resource = resource
        self.plain: Plain = {**plain, "metadata": self.meta}
        self.version = version
        same_meta = before is not None and written is before.meta
        if before is not None and same_meta:
            self.key, self.uid, self.deleting = before.key, before.uid, before.deleting
            self.owners, self.controller = before.owners, before.controller
        else:
            self._read_meta(written)
        self._active: bool | None = None  # None: not computed yet, as for the next three
        self._ready: bool | None = None
        self._node: str | None = None
        self._deletion_rank: DeletionRank | None = None
        self._values: dict[type, Any] = {}
        self._decode_cache = decode_cache
        self._previous = before.previous_version(same_meta=same_meta) if before is not None else None

    def _read_meta(self, meta: Plain) -> None:
        self.key = Key(meta.get("namespace", ""), meta["name"])
        self.uid = meta.get("uid", "")
        self.deleting = "deletionTimestamp" in meta
        references = meta.get("ownerReferences") or ()
        self.owners = [owner["uid"] for owner in references]
        self.controller = next((each for each in references if each.get("controller")), None)

    def previous_version(self, *, same_meta: bool) -> PreviousVersion | None:
        """The latest decoded version, this one or an earlier one, for decoding the next version."""
        if self._values:
            return PreviousVersion(self.plain, self._values, same_meta)
        if same_meta or self._previous is None:
            return self._previous
        return self._previous._replace(same_meta=False)

    @property
    def active(self) -> bool:
        """For a pod: neither finished nor being deleted."""
        if self._active is None:
            phase = (self.plain.get("status") or {}).get("phase")
            self._active = not self.deleting and phase not in {"Succeeded", "Failed"}
        return self._active

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        if self._ready is None:
            self._ready = False
            for each in (self.plain.get("status") or {}).get("conditions") or ():
                if each["type"] == "Ready" and each["status"] == "True":
                    self._ready = True
        return self._ready

    @property
    def node(self) -> str:
        """For a pod: the node it is bound to, or empty."""
        if self._node is None:
            self._node = self.plain["spec"].get("nodeName") or ""
        return self._node

    @property
    def deletion_rank(self) -> DeletionRank:
        """For a pod: its rank when its ReplicaSet scales down."""
        if self._deletion_rank is None:
            idle = (self.plain.get("status") or {}).get("phase") != "Running"
            cost = int((self.meta.get("annotations") or {}).get(_DELETION_COST, 0))
            self._deletion_rank = (not self.node, idle, not self.ready, -cost), self.meta["creationTimestamp"]
        return self._deletion_rank

    def value(self, kind: Kind[T]) -> T | UnreadableObject:
        """The object decoded as a value of the kind's model."""
        known: T | UnreadableObject | None = self._values.get(kind.model)
        if known is None:
            known = self._values[kind.model] = self._decode_cache.read(kind, self.plain, self._previous)
            self._previous = None
        return known


StepType = Literal["ADDED", "MODIFIED", "DELETED"]


class StoreChange(NamedTuple):
    """One write. `before` is None for an addition; for a deletion `after` is the last state."""

    type: StepType
    before: ObjectVersion | None
    after: ObjectVersion
    at: float

    @property
    def version(self) -> int:
        """The resource version this change made."""
        return self.after.version

    @property
    def only_status(self) -> bool:
        """Whether the generation, and so the spec, is unchanged. Only for kinds with generations."""
        return self.before is not None and self.before.meta.get("generation") == self.after.meta.get("generation")


Listener = Callable[[StoreChange], None]


@dataclass(slots=True)
class Table:
    """All objects of one kind, and their recent history."""

    objects: dict[Key, ObjectVersion] = field(default_factory=dict)
    history: list[StoreChange] = field(default_factory=list)
    forgotten: int = 0  # number of changes dropped from the front of the history
    horizon: int = 0  # version of the last dropped change
    waiting: list[Listener] = field(default_factory=list)
    """Called with the next change, once."""
    listeners: tuple[Listener, ...] = ()

    @property
    def change_count(self) -> int:
        """The number of changes ever made, dropped ones included."""
        return self.forgotten + len(self.history)

    def append(self, change: StoreChange, limit: int) -> None:
        """Add a change to the history and wake the waiting watches."""
        self.history.append(change)
        if len(self.history) > 2 * limit:
            self.forget(len(self.history) - limit)
        waiting, self.waiting = self.waiting, []
        for waiter in waiting:
            waiter(change)

    def forget(self, count: int) -> None:
        """Drop the oldest changes."""
        if count:
            self.horizon = self.history[count - 1].version
            self.forgotten += count
            del self.history[:count]

    def position(self, since: int) -> int:
        """The position in the whole history where a watch from that version starts; `Gone` if it was dropped."""
        if since < self.horizon:
            raise Gone(f"too old resource version: {since} ({self.horizon})")
        return self.forgotten + bisect_right(self.history, since, key=lambda change: change.version)

    def change_at(self, position: int) -> StoreChange | None:
        """The change at a position of the whole history; None if there is none yet, `Gone` if it was dropped."""
        index = position - self.forgotten
        if index < 0:
            raise Gone("the watch fell too far behind")
        return self.history[index] if index < len(self.history) else None


class Store:
    """All objects of the cluster, by kind and key."""

    def __init__(self, clock: Clock, *, history_limit: int = 10_000, keeps_log: bool = True) -> None:
        self.clock = clock
        self.version = 1
        self.log: list[LogEntry] = []
        self.by_uid: dict[str, ObjectVersion] = {}
        self._history_limit = history_limit
        self._keeps_log = keeps_log
        self._decode_cache = DecodeCache()
        self._tables: dict[Resource, Table] = {}
        self._listeners: tuple[Listener, ...] = ()  # of every kind
        self._dependents: dict[str, dict[str, None]] = {}  # owner uid -> uids of what it owns
        self._pods_by_node: dict[str, dict[Key, None]] = {}
        self._counts: dict[str, list[int]] = {}  # owner uid -> [active pods, those of them that are ready]

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, cached: `get_running_loop` makes a system call, which is too slow for every write."""
        return asyncio.get_running_loop()

    def table(self, resource: Resource) -> Table:
        """The table of a kind; created if it does not exist."""
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = Table()
        return table

    def find(self, resource: Resource, key: Key) -> ObjectVersion | None:
        """The object, or None."""
        table = self._tables.get(resource)
        return table.objects.get(key) if table is not None else None

    def all(self, resource: Resource) -> list[ObjectVersion]:
        """Every object of a kind, oldest first."""
        return list(self.table(resource).objects.values())

    def pods_on(self, node: str) -> list[ObjectVersion]:
        """The pods bound to a node."""
        pods = self.table(POD).objects
        return [pods[key] for key in self._pods_by_node.get(node, ())]

    def owned_by(self, uid: str) -> list[ObjectVersion]:
        """The objects that reference this owner."""
        return [self.by_uid[each] for each in self._dependents.get(uid, ())]

    def active_pods(self, owner: str) -> tuple[int, int]:
        """The number of active pods that reference this owner, and how many of them are ready."""
        active, ready = self._counts.get(owner, (0, 0))
        return active, ready

    def listen(self, resources: Iterable[Resource], listener: Listener) -> None:
        """Call the listener after every change of these kinds."""
        for resource in resources:
            self.table(resource).listeners += (listener,)

    def listen_to_all(self, listener: Listener) -> None:
        """Call the listener after every change of any kind."""
        self._listeners += (listener,)

    def stop_listening(self, listener: Listener) -> None:
        """Remove a listener."""
        for table in self._tables.values():
            table.listeners = _without(listener, table.listeners)
        self._listeners = _without(listener, self._listeners)

    def put(self, resource: Resource, plain: Plain) -> ObjectVersion:
        """Store an object, new or changed, under the next version."""
        meta = plain["metadata"]
        table = self.table(resource)
        before = table.objects.get(Key(meta.get("namespace", ""), meta["name"]))
        record = self._next(resource, plain, before)
        table.objects[record.key] = record
        self._index(before, record)
        self._notify(table, StoreChange("MODIFIED" if before else "ADDED", before, record, self.loop.time()))
        return record

    def remove(self, record: ObjectVersion, plain: Plain | None = None) -> ObjectVersion:
        """Remove an object. `plain` is its last state if the write that removes it also changed it."""
        table = self.table(record.resource)
        current = table.objects.pop(record.key)
        last = self._next(record.resource, record.plain if plain is None else plain, current)
        self._index(current, None)
        self._notify(table, StoreChange("DELETED", record, last, self.loop.time()))
        return last

    def forget_history(self) -> None:
        """Drop all history, as a restarted API server does: every existing watch must list again."""
        for table in self._tables.values():
            table.forget(len(table.history))

    def _next(self, resource: Resource, plain: Plain, before: ObjectVersion | None) -> ObjectVersion:
        self.version += 1
        return ObjectVersion(resource, plain, self.version, self._decode_cache, before)

    def _index(self, before: ObjectVersion | None, after: ObjectVersion | None) -> None:
        if before is not None:
            del self.by_uid[before.uid]
        if after is not None:
            self.by_uid[after.uid] = after
        if before is not None and after is not None and before.owners == after.owners:
            for owner in after.owners:
                dependents = self._dependents[owner]
                del dependents[before.uid]
                dependents[after.uid] = None  # moves it to the end: dependents are ordered by their last change
        else:
            self._index_owners(before, after)
        if (before or after).resource == POD:  # type: ignore[union-attr]  # one of them is not None
            self._index_pod(before, after)

    def _index_owners(self, before: ObjectVersion | None, after: ObjectVersion | None) -> None:
        for owner in before.owners if before is not None else ():
            dependents = self._dependents[owner]
            dependents.pop(before.uid, None)  # type: ignore[union-attr]  # it has owners
            if not dependents:
                del self._dependents[owner]
        for owner in after.owners if after is not None else ():
            self._dependents.setdefault(owner, {})[after.uid] = None  # type: ignore[union-attr]  # as above

    def _index_pod(self, before: ObjectVersion | None, after: ObjectVersion | None) -> None:
        counted = (before.owners, before.active, before.ready) if before is not None else ()
        if after is None or counted != (after.owners, after.active, after.ready):
            if before is not None and before.active:
                self._count(before, -1)
            if after is not None and after.active:
                self._count(after, 1)
        old = before.node if before else ""
        new = after.node if after else ""
        if before and old and old != new:
            pods = self._pods_by_node[old]
            del pods[before.key]
            if not pods:
                del self._pods_by_node[old]
        if after and new and old != new:
            self._pods_by_node.setdefault(new, {})[after.key] = None

    def _count(self, pod: ObjectVersion, by: int) -> None:
        for owner in pod.owners:
            counts = self._counts.setdefault(owner, [0, 0])
            counts[0] += by
            counts[1] += by * pod.ready
            if not counts[0]:
                del self._counts[owner]

    def _notify(self, table: Table, change: StoreChange) -> None:
        if self._keeps_log:
            self.log.append(entry_of(change))
        table.append(change, self._history_limit)
        self.loop.call_soon(_call_listeners, table.listeners, self._listeners, change)

    def log_bytes(self) -> bytes:
        """The event log as text, one line per change."""
        return "".join(f"{entry}\n" for entry in self.log).encode()


def _call_listeners(listeners: Iterable[Listener], others: Iterable[Listener], change: StoreChange) -> None:
    for listener in listeners:
        listener(change)
    for listener in others:
        listener(change)


def _without(listener: Listener, listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    return tuple(each for each in listeners if each != listener)
