"""Calls over HTTP to one API server: deadlines, turns under the rate limit, credentials, and errors of the port.

Every call ends before its deadline. A write that was sent and got no answer is `OutcomeUnknown`; anything else that
goes wrong on the way is `Unavailable`. Nothing is repeated here but a call that the server refused for its credential.

How fast we may call: a token bucket on the event loop's clock.

Calls are let through in the order they came. A call that must wait books its turn at once, so nobody overtakes it, and
gives the turn back if it is cancelled.
"""

import asyncio
import platform
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import urlencode
from weakref import WeakSet

import aiohttp
from yarl import URL

from dovetail.kube.credentials import Credential, Credentials
from dovetail.kube.endpoint import ClientCertificate, Endpoint, tls_context
from dovetail.kube.requests import ApiRequest, error_of, read_status
from dovetail.ports.errors import ApiError, OutcomeUnknown, Unavailable


class RateLimit:
    """At most `burst` calls at once and `qps` a second in the long run."""

    def __init__(
        self,
        qps: float,
        burst: int,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"a rate limit needs qps > 0 and burst >= 1, got {qps} and {burst}")
        self._qps = qps
        self._burst = burst
        self._clock = clock or asyncio.get_running_loop().time
        self._sleep = sleep
        self._tokens = float(burst)  # below zero: so many calls are waiting
        self._filled_at = self._clock()

    async def take(self) -> None:
        """Return when it is this call's turn."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        self._tokens -= 1
        if self._tokens >= 0:
            return
        try:
            await self._sleep(-self._tokens / self._qps)
        except asyncio.CancelledError:
            self._tokens += 1
            raise


USER_AGENT = f"dovetail/{version('dovetail')} ({platform.system().lower()}/{platform.machine()})"
_FAREWELL = 2.0  # seconds at most until every connection is closed
_NO_TIMEOUT_OF_ITS_OWN = aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """How much, how fast and how long."""

    qps: float = 200.0
    burst: int = 300
    deadline: float = 15.0  # seconds for one object, the wait for its turn included
    bulk_deadline: float = 60.0  # seconds for one page of a list
    watch_seconds: tuple[int, int] = (300, 600)  # the server ends a watch after a random time in between
    watch_grace: float = 30.0  # seconds of silence allowed beyond that
    page_size: int = 500
    most_bytes: int = 16 * 1024 * 1024  # of one object or line of a watch: ten times what etcd stores
    most_bytes_of_list: int = 512 * 1024 * 1024  # of one page, or of a whole list once pages expire: 25,000 pods
    in_flight: int = 64  # calls under way at once, watches and leases left out


DEFAULT_LIMITS = TransportLimits()


@dataclass(slots=True)
class _Attempt:
    """How far a call has come."""

    sent: bool = False


class Transport:
    """The way to one API server."""

    def __init__(self, endpoint: Endpoint, credentials: Credentials, limits: TransportLimits) -> None:
        self.limits = limits
        self._endpoint = endpoint
        self._credentials = credentials
        self._proxy = endpoint.proxy_url
        self._slots = asyncio.Semaphore(limits.in_flight)
        self._turns = RateLimit(limits.qps, limits.burst)
        self._tls: tuple[ClientCertificate | None, ssl.SSLContext] | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=self._lively_socket),
            timeout=_NO_TIMEOUT_OF_ITS_OWN,
            headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def aclose(self) -> None:
        """Close every connection, and return when each is closed: one that a TLS farewell would keep is cut."""
        await self._credentials.aclose()
        await self._session.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                while lingering := [each for each in self._sockets if each.fileno() != -1]:
                    for each in lingering:
                        with suppress(OSError):  # it may have closed since
                            each.shutdown(socket.SHUT_RDWR)
                    await asyncio.sleep(0.001)

    async def fetch(self, call: ApiRequest) -> bytes:
        """Make the call and return its whole answer."""
        seconds = self.limits.bulk_deadline if call.bulk else self.limits.deadline
        most = self.limits.most_bytes_of_list if call.bulk else self.limits.most_bytes
        async with self._within(call, seconds) as attempt, nullcontext() if call.urgent else self._slots:
            response = await self._send(call, attempt)
            try:
                return await _body(response, most)
            finally:
                response.release()

    @asynccontextmanager
    async def stream(self, call: ApiRequest) -> AsyncIterator[aiohttp.StreamReader]:
        """Make the call and hand out its answer as it comes; whoever reads it sets the time for each read."""
        async with self._within(call, self.limits.deadline) as attempt:
            response = await self._send(call, attempt)
        try:
            yield response.content
        finally:
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()  # the rest is not wanted: no farewell, no half-open connection
            response.close()

    @asynccontextmanager
    async def _within(self, call: ApiRequest, seconds: float) -> AsyncIterator[_Attempt]:
        attempt = _Attempt()
        try:
            async with asyncio.timeout(seconds):
                if not call.urgent:
                    await self._turns.take()
                yield attempt
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            raise Unavailable(f"{call}: cannot connect to {self._endpoint.server}: {_cause(error)}") from error
        except TimeoutError as error:
            raise _lost(call, attempt, f"no answer within {seconds:g} s") from error
        except (ApiError, AssertionError):
            raise
        except Exception as error:  # aiohttp's own errors, but also those of compression, headers and more
            raise _lost(call, attempt, f"connection broken: {str(error) or type(error).__name__}") from error

    async def _send(self, call: ApiRequest, attempt: _Attempt) -> aiohttp.ClientResponse:
        credential = await self._credentials.current()
        response = await self._request(call, credential, attempt)
        if response.status == 401:
            refusal = await self._error(call, response)
            renewed = await self._credentials.renewed(credential)
            if renewed.same_as(credential):
                raise refusal
            response = await self._request(call, renewed, attempt)
        if response.status >= 300:
            raise await self._error(call, response)
        return response

    async def _error(self, call: ApiRequest, response: aiohttp.ClientResponse) -> ApiError:
        try:
            body = await _body(response, self.limits.most_bytes)
        finally:
            response.release()
        return error_of(call, read_status(body, response.status), response.headers)

    async def _request(self, call: ApiRequest, credential: Credential, attempt: _Attempt) -> aiohttp.ClientResponse:
        headers = [*credential.headers, ("Accept-Encoding", "gzip" if call.bulk else "identity")]
        if call.body is not None:
            headers.append(("Content-Type", call.content_type))
        tls: dict[str, Any] = {}
        if self._endpoint.secure:
            tls["ssl"] = self._context(credential.certificate)
            tls["server_hostname"] = self._endpoint.tls_server_name or None
        url = self._endpoint.server + call.path + (f"?{urlencode(call.query)}" if call.query else "")
        attempt.sent = True
        return await self._session.request(
            call.method,
            URL(url, encoded=True),
            data=call.body,
            headers=headers,
            allow_redirects=False,
            proxy=self._proxy,
            **tls,
        )

    def _context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """Connections are pooled by context, so a new certificate brings new connections by itself."""
        if self._tls is None or self._tls[0] != certificate:
            self._tls = certificate, tls_context(self._endpoint, certificate)
        return self._tls[1]

    def _lively_socket(self, address: Any) -> socket.socket:
        """A socket that notices within a minute when the other side is silently gone, which a watch would not."""
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return made


async def _body(response: aiohttp.ClientResponse, most: int) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > most:
            raise ValueError(f"the answer is larger than {most} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _lost(call: ApiRequest, attempt: _Attempt, problem: str) -> ApiError:
    return OutcomeUnknown(f"{call}: {problem}") if call.writes and attempt.sent else Unavailable(f"{call}: {problem}")


def _cause(error: aiohttp.ClientError) -> str:
    """What is behind a connection that could not be made, in words; aiohttp's own show objects of the program."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        said = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return f"its certificate is not trusted: {said}; check certificate-authority and server of the kubeconfig"
    if isinstance(error, aiohttp.ClientConnectorError):
        said = error.os_error.strerror or str(error.os_error) or type(error.os_error).__name__
        return f"{said}; is the API server running, and is this its address?"
    return str(error)
