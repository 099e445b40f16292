"""A snapshot behind the port `Cluster`, for the controllers of the latency benchmark.

Writes are answered and change nothing, so every pass plans the same cluster; `forget_created` delivers the deletion of
created NodeClaims. `show` delivers a watch event.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec

from dovetail.model import kinds
from dovetail.model.cluster_objects import Namespace
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.pod import Pod
from dovetail.model.snapshot import Snapshot
from dovetail.ports.cluster import EVERYTHING, GRACEFULLY, Deletion, Listing, ListOptions, Patch, WatchEvent
from dovetail.ports.errors import NotFound

WRITE_SECONDS = 0.005
EVENTS_PER_READ = 20  # what one read from a socket returns: 128 KiB


class SnapshotCluster:
    """Lists and watches the objects of a snapshot. `deleted` is called with the key of each deleted NodeClaim."""

    def __init__(self, snapshot: Snapshot, deleted: Callable[[Key], object]) -> None:
        namespaces = [Namespace(metadata=ObjectMeta(name=name)) for name in snapshot.namespaces]
        self._objects: dict[str, dict[Key, Any]] = defaultdict(dict)
        self._add(kinds.NODE, (node.node for node in snapshot.nodes))
        self._add(kinds.NODE_CLAIM, (node.claim for node in snapshot.nodes))
        self._pods_by_node = {node.name: node.pods for node in snapshot.nodes}
        self._add(kinds.POD, (pod for node in snapshot.nodes for pod in node.pods))
        self._add(kinds.NODE_POOL, snapshot.nodepools.values())
        self._add(kinds.DAEMON_SET, snapshot.daemon_sets)
        self._add(kinds.POD_DISRUPTION_BUDGET, snapshot.pdbs)
        self._add(kinds.NAMESPACE, namespaces)
        self._events: dict[str, asyncio.Queue[WatchEvent[Any]]] = defaultdict(asyncio.Queue)
        self._deleted = deleted
        self._created: list[Any] = []
        self._version = 1

    def _add(self, kind: Kind[Any], values: Iterable[Any]) -> None:
        for value in values:
            self._objects[kind.name][value.key] = _with_version(value, 1)

    def show(self, kind: Kind[Any], value: Any, *, gone: bool = False) -> None:
        """Deliver an object that was added or changed, or that is gone."""
        self._version += 1
        value = _with_version(value, self._version)
        if gone:
            self._objects[kind.name].pop(value.key, None)
        else:
            self._objects[kind.name][value.key] = value
        self._events[kind.name].put_nowait(WatchEvent("DELETED" if gone else "MODIFIED", str(self._version), value))

    def forget_created(self) -> int:
        """Deliver the deletion of every created NodeClaim; return how many there were."""
        created, self._created = self._created, []
        for claim in created:
            self.show(kinds.NODE_CLAIM, claim, gone=True)
        return len(created)

    async def list(self, kind: Kind[Any], options: ListOptions = EVERYTHING) -> Listing[Any]:
        """List all objects, or those with this name or on this node."""
        field, _, wanted = options.field_selector.partition("=")
        values = self._objects[kind.name].values()
        if field == "spec.nodeName":
            return Listing(self._pods_by_node.get(wanted, ()), str(self._version))
        found = (value for value in values if not wanted or value.metadata.name == wanted)
        return Listing(tuple(found), str(self._version))

    async def watch(self, kind: Kind[Any], _since: str, _options: ListOptions = EVERYTHING) -> AsyncIterator[Any]:
        """Yield what `show` delivers."""
        while True:
            for _ in range(EVENTS_PER_READ):
                yield await self._events[kind.name].get()
            await asyncio.sleep(0)

    async def get(self, kind: Kind[Any], key: Key) -> Any:
        """Return one object."""
        if key not in self._objects[kind.name]:
            raise NotFound(f"{kind} {key}")
        return self._objects[kind.name][key]

    async def create(self, _kind: Kind[Any], value: Any) -> Any:
        """Name the object."""
        await asyncio.sleep(WRITE_SECONDS)
        self._version += 1
        name = f"{value.metadata.generate_name}{self._version}"
        created = msgspec.structs.replace(
            value,
            metadata=msgspec.structs.replace(value.metadata, name=name, uid=name, resource_version=str(self._version)),
        )
        self._created.append(created)
        return created

    async def patch(self, kind: Kind[Any], key: Key, _patch: Patch) -> Any:
        """Return the object unchanged."""
        await asyncio.sleep(WRITE_SECONDS)
        return await self.get(kind, key)

    async def delete(self, _kind: Kind[Any], key: Key, _deletion: Deletion = GRACEFULLY) -> None:
        """Note the deletion, and change nothing."""
        self._deleted(key)

    async def evict(self, pod: Pod) -> None:
        """Change nothing."""

    async def server_version(self) -> str:
        """Return a version."""
        return "1.35"


def _with_version(value: Any, version: int) -> Any:
    meta = msgspec.structs.replace(value.metadata, resource_version=str(version))
    return msgspec.structs.replace(value, metadata=meta)
