"""Serves the page from its own thread and event loop, so that neither a long computation nor a slow browser delays a
controller.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass

from aiohttp import web

from dovetail.dashboard.address import AddressUnsafe, PageAddress
from dovetail.dashboard.api import Documents, PageApi
from dovetail.dashboard.auth import Authenticator, TokenAuthenticator, TokenReviewAuthenticator
from dovetail.dashboard.published_state import PublishedState
from dovetail.dashboard.publisher import Publisher
from dovetail.dashboard.routes import Routes
from dovetail.observe.endpoints import PortUnusable
from dovetail.ports.token_review import Reviewer
from dovetail.settings import DecisionOptions

log = logging.getLogger(__name__)


OpenReviewer = Callable[[], AbstractAsyncContextManager[Reviewer]]


@dataclass(frozen=True, kw_only=True)
class PageServer:
    """What to serve, and where. Port 0 means any free port."""

    published_state: PublishedState
    documents: Documents
    options: DecisionOptions
    access: PageAddress
    port: int
    reviewer: OpenReviewer | None = None  # for authentication with tokens of the cluster

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve while inside the context; yields the URL. Raises `PortUnusable` or `AddressUnsafe`."""
        running = _Running(self)
        thread = threading.Thread(target=running.run, name="dashboard", daemon=True)
        thread.start()
        running.started.wait()
        if running.error is not None:
            thread.join()
            raise running.error
        log.info("serving the page", extra={"address": running.address})
        try:
            yield running.address
        finally:
            running.stop()
            thread.join()


class _Running:
    """One run of the server, on its own event loop."""

    def __init__(self, page: PageServer) -> None:
        self._page = page
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self.started = threading.Event()
        self.error: Exception | None = None
        self.address = ""

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # before the start it is raised in `served`; after it, only the page ends
            if self.started.is_set():
                log.exception("the page stopped")
            self.error = error
        finally:
            self.started.set()

    def stop(self) -> None:
        """Stop the server; callable from any thread."""
        if self._loop is not None and self._stopped is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self) -> None:
        page = self._page
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            await self._serve_with(await _authenticator(page, stack))

    async def _serve_with(self, authenticator: Authenticator) -> None:
        page = self._page
        assert self._stopped is not None
        executor = ThreadPoolExecutor(1, "dashboard-api")
        api = PageApi(page.published_state, page.documents, page.options)
        routes = Routes((page.access, authenticator), page.published_state, api, executor)
        runner = web.AppRunner(routes.application(), access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._listen(runner)
            self.started.set()
            if self.error is None:
                publisher = Publisher(page.published_state, routes.events.show, api.waits, executor)
                publishing = asyncio.create_task(publisher.run())
                await self._stopped.wait()
                publishing.cancel()
                await asyncio.wait([publishing])
                routes.close()
        finally:
            await runner.cleanup()
            executor.shutdown(wait=False, cancel_futures=True)

    async def _listen(self, runner: web.AppRunner) -> None:
        address, port = self._page.access.address, self._page.port
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            remedy = "choose another with --dashboard-port (DOVETAIL_DASHBOARD_PORT), or 0 to serve no page"
            why = f"port {port} on {address} cannot be used: {error.strerror or error}; {remedy}"
            self.error = PortUnusable(why)
            return
        host = f"[{address}]" if ":" in address else address
        self.address = f"http://{host}:{runner.addresses[0][1]}/"


async def _authenticator(page: PageServer, stack: AsyncExitStack) -> Authenticator:
    if not page.access.reviewed:
        return TokenAuthenticator(page.access.token)
    if page.reviewer is None:
        raise AddressUnsafe("--dashboard-auth tokenreview needs a live cluster; use --dashboard-auth token")
    return TokenReviewAuthenticator(await stack.enter_async_context(page.reviewer()))
