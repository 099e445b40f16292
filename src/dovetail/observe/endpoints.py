"""HTTP endpoints: `/metrics` for Prometheus, `/healthz` and `/readyz` for the kubelet.

`/healthz` succeeds while the event loop answers; `/readyz` returns 503 with what is missing until the process is ready.
Port 0 disables an endpoint; if both ports are equal, one server serves all paths.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

log = logging.getLogger(__name__)


class PortUnusable(Exception):
    """The port is in use or not permitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """What to serve, and where."""

    metrics_port: int
    probe_port: int
    refresh: Callable[[], Awaitable[None]]  # updates the gauges before a scrape
    render: Callable[[], bytes]
    missing: Callable[[], Sequence[str]]  # why the process is not ready; empty if it is

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve while the context is open; raises `PortUnusable`."""
        by_port: dict[int, list[str]] = {}
        for port, paths in ((self.metrics_port, ["/metrics"]), (self.probe_port, ["/healthz", "/readyz"])):
            if port:
                by_port.setdefault(port, []).extend(paths)
        runners: list[web.AppRunner] = []
        try:
            for port, paths in by_port.items():
                runners.append(await self._listen(port, paths))
            yield
        finally:
            for runner in runners:
                await runner.cleanup()

    async def _listen(self, port: int, paths: Sequence[str]) -> web.AppRunner:
        application = web.Application()
        answers = {"/metrics": self._metrics, "/healthz": self._alive, "/readyz": self._ready}
        for path in paths:
            application.router.add_get(path, answers[path])
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, port=port).start()
        except OSError as error:
            await runner.cleanup()
            flag, variable = (
                ("--metrics-port", "METRICS_PORT")
                if "/metrics" in paths
                else ("--health-probe-port", "HEALTH_PROBE_PORT")
            )
            remedy = f"choose another with {flag} ({variable}), or 0 to serve nothing there"
            raise PortUnusable(f"port {port} cannot be used: {error.strerror or error}; {remedy}") from error
        log.info("serving", extra={"port": port, "paths": list(paths)})
        return runner

    async def _metrics(self, _request: web.Request) -> web.Response:
        try:
            await self.refresh()
        except Exception:  # old values are better than none
            log.exception("metrics not refreshed")
        text = await asyncio.to_thread(self.render)  # rendering many series would block the loop
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    async def _alive(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _request: web.Request) -> web.Response:
        missing = self.missing()
        if missing:
            return web.Response(status=503, text="".join(f"{each}\n" for each in missing))
        return web.Response(text="ok\n")
