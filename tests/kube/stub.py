"""A stub API server with the responses of each test: real HTTP and sockets, no Kubernetes."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from aiohttp import web

from builders import NOON
from dovetail.kube.client import KubeCluster
from dovetail.kube.cluster_access import ClusterAccess, open_cluster
from dovetail.kube.credentials import CredentialSource, StaticCredentialSource
from dovetail.kube.endpoint import Endpoint
from dovetail.kube.transport import DEFAULT_LIMITS, TransportLimits

SEED = 1
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass
class Stub:
    """Returns its responses in turn, the last one repeatedly, and records the requests."""

    answers: list[Handler]
    seen: list[Seen] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                request.headers.copy(),
                json.loads(text) if text else None,
            )
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)


def reply(body: Any = None, status: int = 200, headers: Mapping[str, str] | None = None) -> Handler:
    """A complete response; text unchanged, anything else as JSON."""
    text = body if isinstance(body, str) else json.dumps({} if body is None else body)

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status, headers=headers, content_type="application/json")

    return answer


def refusal(code: int, reason: str = "", message: str = "", **details: Any) -> Handler:
    """An error response with a Status."""
    headers = details.pop("headers", None)
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return reply({**body, "details": details}, code, headers)


def stream(*chunks: bytes, broken: bool = False) -> Handler:
    """A response in these chunks, which then ends properly or breaks."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if broken:
            assert request.transport is not None
            request.transport.close()
        else:
            await response.write_eof()
        return response

    return answer


async def hang(_: web.Request) -> web.StreamResponse:
    """Never respond."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def drop(request: web.Request) -> web.StreamResponse:
    """Read the request and close the connection without a response."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class Clock:
    """A clock the test sets."""

    def __init__(self, at: datetime = NOON) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


@asynccontextmanager
async def served(*answers: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Stub]:
    """The stub alone."""
    stub = Stub(list(answers))
    server = web.Server(stub.handle)
    runner = web.ServerRunner(server, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    stub.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield stub
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client(
    endpoint: Endpoint,
    source: CredentialSource | None = None,
    clock: Clock | None = None,
    limits: TransportLimits = DEFAULT_LIMITS,
) -> AsyncIterator[KubeCluster]:
    """A client of an endpoint."""
    access = ClusterAccess(endpoint, source or StaticCredentialSource(), "test")
    random = Random(SEED)  # noqa: S311 - not a secret
    async with await open_cluster(access, clock or Clock(), random, limits) as cluster:
        yield cluster


@asynccontextmanager
async def serving(*answers: Handler, **how: Any) -> AsyncIterator[tuple[KubeCluster, Stub]]:
    """The stub and a client of it."""
    async with served(*answers) as stub, client(Endpoint(server=stub.url), **how) as cluster:
        yield cluster, stub
