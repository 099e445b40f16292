"""The page, served by a thread of its own: neither a long computation nor a slow browser keeps a controller waiting."""

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
    """What to serve, and where. Port 0 takes any that is free."""

    published_state: PublishedState
    documents: Documents
    options: DecisionOptions
    access: PageAddress
    port: int
    reviewer: OpenReviewer | None = None  # where tokens of the cluster are asked for

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve while inside; the address is what to open. `PortUnusable` if that cannot be."""
        running = _Running(self)
        thread = threading.Thread(target=running.run, name="dashboard", daemon=True)
        thread.start()
        running.settled.wait()
        if running.trouble is not None:
            thread.join()
            raise running.trouble
        log.info("serving the page", extra={"address": running.address})
        try:
            yield running.address
        finally:
            running.stop()
            thread.join()


class _Running:
    """One life of the server, on its own loop."""

    def __init__(self, page: PageServer) -> None:
        self._page = page
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self.settled = threading.Event()
        self.trouble: Exception | None = None
        self.address = ""

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # raised where the page was asked for; later, the page is gone and the rest goes on
            if self.settled.is_set():
                log.exception("the page ended")
            self.trouble = error
        finally:
            self.settled.set()

    def stop(self) -> None:
        """From any thread."""
        if self._loop is not None and self._stopped is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self) -> None:
        page = self._page
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            await self._serve_behind(await _door(page, stack))

    async def _serve_behind(self, authenticator: Authenticator) -> None:
        page = self._page
        assert self._stopped is not None
        thinker = ThreadPoolExecutor(1, "dashboard-thinking")
        answers = PageApi(page.published_state, page.documents, page.options)
        site = Routes((page.access, authenticator), page.published_state, answers, thinker)
        runner = web.AppRunner(site.application(), access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._listen(runner)
            self.settled.set()
            if self.trouble is None:
                showing = asyncio.create_task(
                    Publisher(page.published_state, site.feed.show, answers.waits, thinker).run()
                )
                await self._stopped.wait()
                showing.cancel()
                await asyncio.wait([showing])
                site.close()
        finally:
            await runner.cleanup()
            thinker.shutdown(wait=False, cancel_futures=True)

    async def _listen(self, runner: web.AppRunner) -> None:
        address, port = self._page.access.address, self._page.port
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            remedy = "choose another with --dashboard-port (DOVETAIL_DASHBOARD_PORT), or 0 to serve no page"
            why = f"port {port} on {address} cannot be used: {error.strerror or error}; {remedy}"
            self.trouble = PortUnusable(why)
            return
        host = f"[{address}]" if ":" in address else address
        self.address = f"http://{host}:{runner.addresses[0][1]}/"


async def _door(page: PageServer, stack: AsyncExitStack) -> Authenticator:
    if not page.access.reviewed:
        return TokenAuthenticator(page.access.token)
    if page.reviewer is None:
        raise AddressUnsafe("there is no cluster here whose tokens could be asked for; choose --dashboard-auth token")
    return TokenReviewAuthenticator(await stack.enter_async_context(page.reviewer()))
