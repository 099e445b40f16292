"""The HTTP routes of the page: static files, JSON documents, and the stream of changes. Only GET and HEAD.

A middleware checks method, host name and access before every handler, and adds the security headers: the content
security policy forbids scripts, styles and connections from other origins. Errors are JSON documents with one sentence.
Documents are computed by `executor`, one at a time, so that the event loop is never blocked.
"""

import asyncio
import hashlib
import html
from collections.abc import Callable
from concurrent.futures import Executor
from importlib import resources
from typing import Any

import msgspec
from aiohttp import web

from dovetail.dashboard.address import OPEN, Handler, PageAddress
from dovetail.dashboard.api import PageApi, PageApiError
from dovetail.dashboard.auth import COOKIE, AccessVerdict, Authenticator
from dovetail.dashboard.cost_floor import CostFloorWorker
from dovetail.dashboard.published_state import EventStream, PublishedState
from dovetail.manifest.snapshot_file import snapshot_bytes

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "dovetail",  # hides the versions of Python and aiohttp
}
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
CHALLENGE = 'Bearer realm="dovetail"'
HEARTBEAT_SECONDS = 10.0  # keeps proxies from closing the stream, and lets the page detect a lost connection
MOST_STREAMS = 200
VERDICT = b"<!-- verdict -->"  # placeholder in the login pages for the reason of a refusal


class Routes:
    """All routes of the page. `executor` computes the documents."""

    def __init__(
        self,
        access: tuple[PageAddress, Authenticator],
        published_state: PublishedState,
        api: PageApi,
        executor: Executor,
    ) -> None:
        self.events = EventStream()
        self._published_state = published_state
        self._floors = CostFloorWorker()
        self._address, self._authenticator = access
        self._api = api
        self._executor = executor
        self._streams = 0
        self._files = _files()

    def close(self) -> None:
        """End all event streams and the computation of the cost floor."""
        self.events.end()
        self._floors.close()

    def application(self) -> web.Application:
        """The aiohttp application."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._published_state.ask()
            try:
                response = await self._guarded(request, handler)
            except PageApiError as error:
                response = _error(str(error), error.status)
            except web.HTTPException as error:
                response = _error(error.reason, error.status)
            if not response.prepared:
                response.headers.update(HEADERS)
            return response

        application = web.Application(middlewares=[guard])
        for path, name in (("/", "index.html"), *((f"/{name}", name) for name in self._files)):
            application.router.add_get(path, self._file(name), expect_handler=_expected)
        self._add_documents(application.router)
        application.router.add_route("*", "/{path:(?s:.*)}", _not_found, expect_handler=_expected)
        return application

    def _add_documents(self, router: web.UrlDispatcher) -> None:
        api = self._api
        handlers: dict[str, Handler] = {
            "/api/session": self._session,
            "/api/cluster": self._cluster,
            "/api/snapshot": self._snapshot,
            "/api/savings": self._savings,
        }
        router.add_get("/api/events", self._events, allow_head=False, expect_handler=_expected)
        documents: dict[str, Callable[[web.Request], dict[str, Any]]] = {
            "/api/plan": lambda _: api.plan(),
            "/api/node/{name}": lambda request: api.node(request.match_info["name"]),
            "/api/explain/node/{name}": lambda request: api.explain_node(request.match_info["name"]),
            "/api/explain/nodepool/{name}": lambda request: api.explain_nodepool(request.match_info["name"]),
            "/api/explain/pod/{namespace}/{name}": lambda request: api.explain_pod(
                request.match_info["namespace"], request.match_info["name"]
            ),
            "/api/budgets/{name}": lambda request: api.budgets(request.match_info["name"], request.query),
            "/api/cost": lambda request: api.cost(request.query),
            "/api/history": lambda request: api.history(request.query),
            "/api/decision/{id}": lambda request: api.decision(request.match_info["id"]),
        }
        handlers.update({path: self._document(build) for path, build in documents.items()})
        for path, handler in handlers.items():
            router.add_get(path, handler, expect_handler=_expected)

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            raise web.HTTPMethodNotAllowed(request.method, ["GET", "HEAD"], reason="this page is read-only")
        if not self._address.trusts_host(request):
            raise web.HTTPMisdirectedRequest(reason="use the host name localhost; other names need a token")
        if request.path not in OPEN:
            verdict = await self._authenticator.authorize(request)
            if not verdict.admitted and request.path in {"/", "/index.html"}:
                return self._login_page(verdict)
            if not verdict.admitted:
                raise PageApiError(verdict.why, verdict.status)
        return await handler(request)

    def _login_page(self, verdict: AccessVerdict) -> web.Response:
        """The login page; with the reason if a token was refused."""
        content, media, _ = self._files[self._authenticator.form]
        reason = html.escape(f"{verdict.why[:1].upper()}{verdict.why[1:]}.") if verdict.wrong else ""
        headers = {"Content-Type": media, "Cache-Control": "no-store"}
        if verdict.status == 401:
            headers["WWW-Authenticate"] = CHALLENGE
        return web.Response(body=content.replace(VERDICT, reason.encode()), status=verdict.status, headers=headers)

    def _file(self, name: str) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            return self._answer_file(name, request)

        return answer

    def _answer_file(self, name: str, request: web.Request) -> web.Response:
        content, media, tag = self._files[name]
        headers = {"Cache-Control": "no-cache", "ETag": tag}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        response = web.Response(body=content, headers={**headers, "Content-Type": media})
        response.enable_compression()
        return response

    async def _session(self, request: web.Request) -> web.StreamResponse:
        """Exchange a bearer token for a session cookie."""
        response = _json(b'{"admitted":true}')
        session = await self._authenticator.create_session(request)
        if session is not None:
            secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
            response.set_cookie(
                COOKIE, session.value, httponly=True, samesite="Strict", secure=secure, max_age=session.seconds
            )
        return response

    async def _cluster(self, _request: web.Request) -> web.StreamResponse:
        return _json(msgspec.json.encode(self.events.full_state()))

    async def _snapshot(self, _request: web.Request) -> web.StreamResponse:
        content = await self._run(lambda: snapshot_bytes(self._api.snapshot()))
        response = _json(content)
        response.headers["Content-Disposition"] = 'attachment; filename="snapshot.json"'
        return response

    async def _savings(self, request: web.Request) -> web.StreamResponse:
        floor = await self._floors.of(self._published_state.latest)
        return _json(await self._run(lambda: msgspec.json.encode({**self._api.savings(request.query), **floor})))

    def _document(self, build: Callable[[web.Request], dict[str, Any]]) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            return _json(await self._run(lambda: msgspec.json.encode(build(request))))

        return answer

    async def _run(self, work: Callable[[], bytes]) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: the frames that the client missed, then new ones as they come."""
        if self._streams >= MOST_STREAMS:
            raise PageApiError(f"{MOST_STREAMS} clients are connected already", 503)
        response = web.StreamResponse(
            headers={**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        mark = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        self._streams += 1
        try:
            await response.write(b"retry: 1000\n\n")
            while not self.events.ended and (await self._authenticator.authorize(request)).admitted:
                self._published_state.ask()  # an open stream counts as a viewer
                mark = await self._catch_up(response, mark)
                if not await self.events.wait_for_frame(HEARTBEAT_SECONDS):
                    await response.write(b"event: heartbeat\ndata: {}\n\n")
            await response.write_eof()
        except ConnectionError:  # the browser is gone
            pass
        finally:
            self._streams -= 1
        return response

    async def _catch_up(self, response: web.StreamResponse, mark: str) -> str:
        missed = self.events.since(mark)
        if missed is None:
            await response.write(f"event: reset\nid: {self.events.mark}\ndata: {{}}\n\n".encode())
            return self.events.mark
        for number, frame in missed:
            mark = f"{self.events.run}-{number}"
            await response.write(b"event: frame\nid: %b\ndata: %b\n\n" % (mark.encode(), frame))
        return mark


async def _expected(_request: web.Request) -> None:
    """Ignore the Expect header: request bodies are never read. aiohttp's default handler would bypass the middleware,
    and fails if the header is not text."""


async def _not_found(request: web.Request) -> web.StreamResponse:
    """404, or 405 for another method than GET on the event stream."""
    if request.path == "/api/events":
        raise web.HTTPMethodNotAllowed(request.method, ["GET"], reason="events support only GET")
    raise web.HTTPNotFound


def _json(content: bytes) -> web.Response:
    response = web.Response(
        body=content, headers={"Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store"}
    )
    response.enable_compression()
    return response


def _error(message: str, status: int) -> web.Response:
    response = _json(msgspec.json.encode({"error": message}))
    response.set_status(status)
    if status == 405:
        response.headers["Allow"] = "GET, HEAD"
    if status == 401:
        response.headers["WWW-Authenticate"] = CHALLENGE
    return response


def _files() -> dict[str, tuple[bytes, str, str]]:
    """The static files: content, media type, and an ETag derived from the content."""
    found = {}
    for each in sorted(resources.files("dovetail.dashboard").joinpath("static").iterdir(), key=lambda each: each.name):
        media = MEDIA.get("." + each.name.rpartition(".")[2])
        if media is not None:
            content = each.read_bytes()
            found[each.name] = (content, media, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found
