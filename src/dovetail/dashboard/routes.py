"""The routes of the page: its own files, the documents it asks for, and the stream of what changes. Only GET.

Every answer forbids scripts, styles and connections from anywhere else. A wrong question is answered with a sentence.
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
from dovetail.dashboard.api import PageApi, Unanswerable
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
    "Server": "dovetail",  # and not what it is made with
}
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
CHALLENGE = 'Bearer realm="dovetail"'
BREATH_SECONDS = 10.0  # a sign of life for proxies and for the page
MOST_STREAMS = 200
VERDICT = b"<!-- verdict -->"  # where a form says why it is shown


class Routes:
    """Everything that can be asked for. Thinking is done by `thinker`, one question at a time."""

    def __init__(
        self,
        entrance: tuple[PageAddress, Authenticator],
        published_state: PublishedState,
        answers: PageApi,
        thinker: Executor,
    ) -> None:
        self.feed = EventStream()
        self._published_state = published_state
        self._floors = CostFloorWorker()
        self._access, self._door = entrance
        self._answers = answers
        self._thinker = thinker
        self._streams = 0
        self._files = _files()

    def close(self) -> None:
        """Let everybody go."""
        self.feed.end()
        self._floors.close()

    def application(self) -> web.Application:
        """To be run by a server."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._published_state.ask()
            try:
                response = await self._guarded(request, handler)
            except Unanswerable as error:
                response = _sentence(str(error), error.status)
            except web.HTTPException as error:
                response = _sentence(error.reason, error.status)
            if not response.prepared:
                response.headers.update(HEADERS)
            return response

        application = web.Application(middlewares=[guard])
        for path, name in (("/", "index.html"), *((f"/{name}", name) for name in self._files)):
            application.router.add_get(path, self._file(name), expect_handler=_expected)
        self._add_documents(application.router)
        application.router.add_route("*", "/{path:(?s:.*)}", _nowhere, expect_handler=_expected)
        return application

    def _add_documents(self, router: web.UrlDispatcher) -> None:
        answers = self._answers
        pages: dict[str, Handler] = {
            "/api/session": self._session,
            "/api/cluster": self._cluster,
            "/api/snapshot": self._snapshot,
            "/api/savings": self._savings,
        }
        router.add_get("/api/events", self._events, allow_head=False, expect_handler=_expected)
        documents: dict[str, Callable[[web.Request], dict[str, Any]]] = {
            "/api/plan": lambda _: answers.plan(),
            "/api/node/{name}": lambda asked: answers.node(asked.match_info["name"]),
            "/api/explain/node/{name}": lambda asked: answers.explain_node(asked.match_info["name"]),
            "/api/explain/nodepool/{name}": lambda asked: answers.explain_nodepool(asked.match_info["name"]),
            "/api/explain/pod/{namespace}/{name}": lambda asked: answers.explain_pod(
                asked.match_info["namespace"], asked.match_info["name"]
            ),
            "/api/budgets/{name}": lambda asked: answers.budgets(asked.match_info["name"], asked.query),
            "/api/history": lambda asked: answers.history(asked.query),
            "/api/decision/{id}": lambda asked: answers.decision(asked.match_info["id"]),
        }
        pages.update({path: self._document(answer) for path, answer in documents.items()})
        for path, handler in pages.items():
            router.add_get(path, handler, expect_handler=_expected)

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            raise web.HTTPMethodNotAllowed(request.method, ["GET", "HEAD"], reason="this page only reads")
        if not self._access.trusts_host(request):
            raise web.HTTPMisdirectedRequest(reason="ask for localhost; other names need a token")
        if request.path not in OPEN:
            verdict = await self._door.authorize(request)
            if not verdict.admitted and request.path in {"/", "/index.html"}:
                return self._answer_form(verdict)
            if not verdict.admitted:
                raise Unanswerable(verdict.why, verdict.status)
        return await handler(request)

    def _answer_form(self, verdict: AccessVerdict) -> web.Response:
        """What has to be shown, and why what was shown is not enough."""
        content, media, _ = self._files[self._door.form]
        said = html.escape(f"{verdict.why[:1].upper()}{verdict.why[1:]}.") if verdict.wrong else ""
        headers = {"Content-Type": media, "Cache-Control": "no-store"}
        if verdict.status == 401:
            headers["WWW-Authenticate"] = CHALLENGE
        return web.Response(body=content.replace(VERDICT, said.encode()), status=verdict.status, headers=headers)

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
        """A cookie for whoever showed a token."""
        response = _json(b'{"admitted":true}')
        session = await self._door.create_session(request)
        if session is not None:
            secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
            response.set_cookie(
                COOKIE, session.value, httponly=True, samesite="Strict", secure=secure, max_age=session.seconds
            )
        return response

    async def _cluster(self, _request: web.Request) -> web.StreamResponse:
        return _json(msgspec.json.encode(self.feed.whole()))

    async def _snapshot(self, _request: web.Request) -> web.StreamResponse:
        content = await self._think(lambda: snapshot_bytes(self._answers.snapshot()))
        response = _json(content)
        response.headers["Content-Disposition"] = 'attachment; filename="snapshot.json"'
        return response

    async def _savings(self, request: web.Request) -> web.StreamResponse:
        floor = await self._floors.of(self._published_state.latest)
        return _json(await self._think(lambda: msgspec.json.encode({**self._answers.savings(request.query), **floor})))

    def _document(self, answer: Callable[[web.Request], dict[str, Any]]) -> Handler:
        async def answered(request: web.Request) -> web.StreamResponse:
            return _json(await self._think(lambda: msgspec.json.encode(answer(request))))

        return answered

    async def _think(self, work: Callable[[], bytes]) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._thinker, work)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Frames as they come, after those that were missed."""
        if self._streams >= MOST_STREAMS:
            raise Unanswerable(f"{MOST_STREAMS} pages are open already", 503)
        response = web.StreamResponse(
            headers={**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        mark = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        self._streams += 1
        try:
            await response.write(b"retry: 1000\n\n")
            while not self.feed.ended and (await self._door.authorize(request)).admitted:
                self._published_state.ask()  # whoever follows the stream still looks
                mark = await self._catch_up(response, mark)
                if not await self.feed.news(BREATH_SECONDS):
                    await response.write(b"event: breath\ndata: {}\n\n")
            await response.write_eof()
        except ConnectionError:  # the browser is gone
            pass
        finally:
            self._streams -= 1
        return response

    async def _catch_up(self, response: web.StreamResponse, mark: str) -> str:
        missed = self.feed.since(mark)
        if missed is None:
            await response.write(f"event: anew\nid: {self.feed.mark}\ndata: {{}}\n\n".encode())
            return self.feed.mark
        for number, frame in missed:
            mark = f"{self.feed.run}-{number}"
            await response.write(b"event: frame\nid: %b\ndata: %b\n\n" % (mark.encode(), frame))
        return mark


async def _expected(_request: web.Request) -> None:
    """Nothing is read of a request beyond its headers, so nothing that it expects matters. aiohttp's own answer would
    go around the guard, and fail where the header is no text."""


async def _nowhere(request: web.Request) -> web.StreamResponse:
    """There is no such page, or it cannot be asked for like that."""
    if request.path == "/api/events":
        raise web.HTTPMethodNotAllowed(request.method, ["GET"], reason="events are only for GET")
    raise web.HTTPNotFound


def _json(content: bytes) -> web.Response:
    response = web.Response(
        body=content, headers={"Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store"}
    )
    response.enable_compression()
    return response


def _sentence(message: str, status: int) -> web.Response:
    response = _json(msgspec.json.encode({"error": message}))
    response.set_status(status)
    if status == 405:
        response.headers["Allow"] = "GET, HEAD"
    if status == 401:
        response.headers["WWW-Authenticate"] = CHALLENGE
    return response


def _files() -> dict[str, tuple[bytes, str, str]]:
    """The page's own files: content, media type and a tag that changes with the content."""
    found = {}
    for each in sorted(resources.files("dovetail.dashboard").joinpath("static").iterdir(), key=lambda each: each.name):
        media = MEDIA.get("." + each.name.rpartition(".")[2])
        if media is not None:
            content = each.read_bytes()
            found[each.name] = (content, media, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found
