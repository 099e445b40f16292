"""One object of a cluster is not what it should be, for the controllers alone: the cluster itself goes on as before."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from dovetail.manifest.codec import from_plain, to_plain
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key, UnreadableObject
from dovetail.ports.cluster import EVERYTHING, GRACEFULLY, Listing, WatchEvent
from dovetail.ports.errors import Invalid
from dovetail.wiring.assembly import assemble
from stories import Life

Plain = dict[str, Any]
Mutation = Callable[[Plain], Plain]
IDENTITY = {"name", "namespace", "uid", "resourceVersion", "generateName"}
ABSENT = object()
JUNK = (
    ABSENT,
    None,
    5,
    -1,
    1e308,
    True,
    "",
    "garbage",
    "-5",
    "1e30",
    9223372036854775807,
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "2026-01-05T00:00:00",
    [],
    [5],
    ["garbage"],
    [None],
    {},
    {"garbage": 5},
    {"garbage": "garbage"},
    [{"garbage": {}}],
)


class PoisonedCluster:
    """A cluster of which one object, once it is `struck`, is read as something else."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._struck: tuple[Kind[Any], Key] | None = None
        self._mutation: Mutation = lambda plain: plain

    def strike(self, kind: Kind[Any], key: Key, mutation: Mutation) -> None:
        self._struck, self._mutation = (kind, key), mutation

    def heal(self) -> None:
        self._struck = None

    def read(self, kind: Kind[Any], value: Any) -> Any:
        if value is None or isinstance(value, UnreadableObject) or self._struck != (kind, value.key):
            return value
        return from_plain(kind, self._mutation(to_plain(kind, value)))

    def _readable(self, kind: Kind[Any], value: Any) -> Any:
        value = self.read(kind, value)
        if isinstance(value, UnreadableObject):
            raise Invalid(f"{kind} {value.key} cannot be read: {value.problem}")
        return value

    async def list(self, kind: Kind[Any], options: Any = EVERYTHING) -> Listing[Any]:
        listing = await self._cluster.list(kind, options)
        values = [self.read(kind, each) for each in listing.items]
        return Listing(
            tuple(each for each in values if not isinstance(each, UnreadableObject)),
            listing.resource_version,
            (*listing.unreadable, *(each for each in values if isinstance(each, UnreadableObject))),
        )

    async def watch(self, kind: Kind[Any], since: str, options: Any = EVERYTHING) -> Any:
        async for change in self._cluster.watch(kind, since, options):
            yield WatchEvent(change.type, change.resource_version, self.read(kind, change.object))

    async def get(self, kind: Kind[Any], key: Key) -> Any:
        return self._readable(kind, await self._cluster.get(kind, key))

    async def create(self, kind: Kind[Any], value: Any) -> Any:
        return self._readable(kind, await self._cluster.create(kind, value))

    async def patch(self, kind: Kind[Any], key: Key, patch: Any) -> Any:
        return self._readable(kind, await self._cluster.patch(kind, key, patch))

    async def delete(self, kind: Kind[Any], key: Key, deletion: Any = GRACEFULLY) -> None:
        await self._cluster.delete(kind, key, deletion)

    async def server_version(self) -> str:
        return await self._cluster.server_version()

    async def evict(self, pod: Any) -> None:
        await self._cluster.evict(pod)


class PoisonedLife(Life):
    """Controllers that see the world through a `PoisonedCluster`."""

    def _parts(self) -> Any:
        self.poison = PoisonedCluster(self.world)
        return assemble(self.poison, self.world.clock, self.settings)


def places(plain: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document that may be replaced: all but what tells objects apart."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            if path == ("metadata",) and key in IDENTITY:
                continue
            if path or key not in {"apiVersion", "kind"}:
                yield (*path, key)
                yield from places(value, (*path, key))
    elif isinstance(plain, list):
        for at, value in enumerate(plain):
            yield (*path, at)
            yield from places(value, (*path, at))


def replaced(plain: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A document with one place replaced; as it is if there is no such place now."""
    if not path:
        return value
    head, *rest = path
    if isinstance(plain, dict) and value is ABSENT and not rest:
        return {key: each for key, each in plain.items() if key != head}
    if isinstance(plain, dict):
        return {**plain, head: replaced(plain.get(head), tuple(rest), value)}
    if isinstance(plain, list) and head < len(plain):
        inner = [] if value is ABSENT and not rest else [replaced(plain[head], tuple(rest), value)]
        return [*plain[:head], *inner, *plain[head + 1 :]]
    return plain if rest or value is ABSENT else value


def keeping_identity(mutation: Mutation) -> Mutation:
    """The same, with what tells objects apart as it was."""

    def mutate(plain: Plain) -> Plain:
        changed = mutation(plain)
        metadata = changed.get("metadata")
        kept = {key: value for key, value in plain["metadata"].items() if key in IDENTITY}
        return {**changed, "metadata": {**(metadata if isinstance(metadata, dict) else {}), **kept}}

    return mutate


def some_mutation(rng: random.Random, example: Plain) -> tuple[str, Mutation]:
    """One place of an object like the example, replaced by junk."""
    path = rng.choice([each for each in places(example) if each != ("metadata",)])
    junk = rng.choice(JUNK)
    words = f"{'.'.join(map(str, path))} = {'nothing' if junk is ABSENT else repr(junk)}"
    return words, keeping_identity(lambda plain: replaced(plain, path, junk))
