"""The simulated world behind a real HTTP socket, as an API server whose answers can be made to go wrong.

What a fault does to an answer is decided at one place for each of lists, watches and all other calls, so that a fault
is a small class. Objects are served as they are stored, whether or not anybody can read them.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from aiohttp import web

from dovetail.kube.client import KubeCluster
from dovetail.kube.cluster_access import ClusterAccess, open_cluster
from dovetail.kube.credentials import StaticCredentialSource
from dovetail.kube.endpoint import Endpoint
from dovetail.kube.transport import TransportLimits
from dovetail.model import kinds
from dovetail.model.kinds import Kind
from dovetail.model.kube_object import Key
from dovetail.ports import errors
from dovetail.ports.cluster import Deletion, ListOptions, Patch, WatchEvent
from dovetail.sim.kubernetes.kinds import resource_of
from dovetail.sim.kubernetes.pdb_controller import evict
from dovetail.sim.kubernetes.watch import WatchStream, WatchTerms
from dovetail.sim.world import World, _selects

KINDS = {(each.group, each.plural): each for each in vars(kinds).values() if isinstance(each, Kind)}
CODES: list[tuple[type[errors.ApiError], int, str]] = [
    (errors.NotFound, 404, "NotFound"),
    (errors.AlreadyExists, 409, "AlreadyExists"),
    (errors.Conflict, 409, "Conflict"),
    (errors.Gone, 410, "Expired"),
    (errors.Invalid, 422, "Invalid"),
    (errors.EvictionBlocked, 429, "TooManyRequests"),
    (errors.EvictionImpossible, 500, "InternalError"),
]


@dataclass(frozen=True)
class Ask:
    """A request, understood."""

    verb: str  # list, watch, get, create, patch, delete or evict
    kind: Kind[Any]
    key: Key
    subresource: str = ""


class Fault:
    """What goes wrong. By default nothing does."""

    async def refuse(self, _ask: Ask) -> web.StreamResponse | None:
        """An answer in place of the real one."""
        return None

    def answered(self, _ask: Ask, body: bytes) -> bytes:
        """The answer to anything but a watch, as it is sent. What was asked for is done by then."""
        return body

    async def told(self, _ask: Ask, line: bytes, _due_at: float) -> bytes:
        """A line of a watch, as it is sent, and when; it was due at that loop time."""
        return line

    def end(self) -> None:
        """It is over."""


class PlainStream(WatchStream[Any]):
    """A watch that gives objects as they are stored."""

    def _change(self, kind, record):
        return WatchEvent(kind, record.meta["resourceVersion"], record.plain)


class ApiServer:
    """Serves one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fault = Fault()
        self.url = ""
        self.requests = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        ask = _understood(request)
        answer = await self.fault.refuse(ask)
        if answer is not None:
            return answer
        try:
            if ask.verb == "watch":
                return await self._watch(ask, request)
            made = self._act(ask, request, await request.json() if request.can_read_body else {})
        except errors.ApiError as error:
            return _refusal(error)
        body = self.fault.answered(ask, json.dumps(made).encode())
        return web.Response(body=body, content_type="application/json")

    def _act(self, ask: Ask, request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
        api, resource = self.world.api, resource_of(ask.kind)
        match ask.verb:
            case "list":
                return self._list(ask, request)
            case "get":
                return api.get(resource, ask.key).plain
            case "create":
                return api.create(resource, body).plain
            case "patch":
                version = (body.get("metadata") or {}).get("resourceVersion", "")
                return api.patch(resource, ask.key, Patch(body, version, ask.subresource)).plain
            case "delete":
                uid = (body.get("preconditions") or {}).get("uid", "")
                api.delete(resource, ask.key, Deletion(uid, body.get("gracePeriodSeconds")))
            case "evict":
                evict(api, ask.key, body["deleteOptions"]["preconditions"]["uid"])
        return {"kind": "Status", "status": "Success"}

    def _list(self, ask: Ask, request: web.Request) -> dict[str, Any]:
        selects, store = _selects(_options(ask, request)), self.world.store
        items = [each.plain for _, each in sorted(store.table(resource_of(ask.kind)).objects.items())]
        return {
            "items": [plain for plain in items if selects(plain)],
            "metadata": {"resourceVersion": str(store.version)},
        }

    async def _watch(self, ask: Ask, request: web.Request) -> web.StreamResponse:
        world, seconds = self.world, float(request.query["timeoutSeconds"])

        async def opened() -> WatchTerms:
            return WatchTerms(0.01, 60.0, seconds)

        table, selects = world.store.table(resource_of(ask.kind)), _selects(_options(ask, request))
        changes = PlainStream(world.store, ask.kind, table, selects, opened).since(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        lines: asyncio.Queue[tuple[bytes, float] | None] = asyncio.Queue()
        following = asyncio.create_task(self._follow(changes, lines))
        try:
            while (line := await lines.get()) is not None:
                await response.write(await self.fault.told(ask, *line))
            await response.write_eof()
        finally:
            following.cancel()
        return response

    async def _follow(self, changes: PlainStream, lines: "asyncio.Queue[tuple[bytes, float] | None]") -> None:
        """The lines of a watch, each when it is due, however long those before it take to be sent."""
        loop = asyncio.get_running_loop()
        try:
            async for change in changes:
                lines.put_nowait((_line(change), loop.time()))
        except errors.Gone as error:
            lines.put_nowait((json.dumps({"type": "ERROR", "object": _status(error)}).encode() + b"\n", loop.time()))
        lines.put_nowait(None)


def _line(change: WatchEvent[Any]) -> bytes:
    bookmark = {"metadata": {"resourceVersion": change.resource_version}}
    return json.dumps({"type": change.type, "object": change.object or bookmark}).encode() + b"\n"


def _understood(request: web.Request) -> Ask:
    root, *rest = request.path.strip("/").split("/")
    group = "" if root == "api" else rest.pop(0)
    rest.pop(0)  # the version
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else ""
    plural, *rest = rest[2:] if namespace else rest
    key = Key(namespace, rest[0] if rest else "")
    subresource = rest[1] if len(rest) > 1 else ""
    verb = {"GET": "get" if rest else "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[request.method]
    if request.query.get("watch") == "true":
        verb = "watch"
    if subresource == "eviction":
        verb, subresource = "evict", ""
    return Ask(verb, KINDS[group, plural], key, subresource)


def _options(ask: Ask, request: web.Request) -> ListOptions:
    return ListOptions(
        ask.key.namespace, request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    )


def _status(error: errors.ApiError) -> dict[str, Any]:
    code, reason = next((code, reason) for kind, code, reason in CODES if isinstance(error, kind))
    causes = [{"reason": "DisruptionBudget", "message": str(error)}] if code == 429 else []
    return {"kind": "Status", "code": code, "reason": reason, "message": str(error), "details": {"causes": causes}}


def _refusal(error: errors.ApiError) -> web.Response:
    status = _status(error)
    return web.json_response(status, status=status["code"])


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[ApiServer]:
    """The world, served on loopback."""
    server = ApiServer(world)
    runner = web.ServerRunner(web.Server(server.handle, access_log=None), shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(server: ApiServer) -> AsyncIterator[KubeCluster]:
    """A client of it, as it is made in earnest."""
    access = ClusterAccess(Endpoint(server=server.url), StaticCredentialSource(), "faults")
    random = Random(1)  # noqa: S311 - not a secret
    async with await open_cluster(access, server.world.clock, random, TransportLimits()) as cluster:
        yield cluster
        await asyncio.sleep(0)
