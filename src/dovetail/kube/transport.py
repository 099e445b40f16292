"""HTTP requests to one API server: deadlines, rate limit, credentials, and conversion of errors.

Every request ends before its deadline. A write that was sent and got no response is `OutcomeUnknown`; any other
connection failure is `Unavailable`. A request is repeated only once, after 401, and only with another credential.

`RateLimit` is a token bucket on the clock of the event loop. Requests pass in order of arrival: one that has to wait
takes its token at once (the count becomes negative), and returns it if it is cancelled.
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
from dovetail.kube.requests import ApiRequest, Status, error_of, read_status
from dovetail.ports.errors import ApiError, OutcomeUnknown, Unavailable
from dovetail.ports.metrics import Metrics, NoMetrics


class RateLimit:
    """A token bucket: `burst` requests at once, `qps` per second on average."""

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
        self._tokens = float(burst)  # negative: the number of waiting requests
        self._filled_at = self._clock()

    async def take(self) -> None:
        """Wait until the request may be sent."""
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
_CLOSE_SECONDS = 2.0  # seconds until all connections must be closed
_NO_CLIENT_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """Limits on the rate, the duration and the size of requests."""

    qps: float = 200.0
    burst: int = 300
    deadline: float = 15.0  # seconds for one object, including the wait for the rate limit
    bulk_deadline: float = 60.0  # seconds for one page of a list
    watch_seconds: tuple[int, int] = (300, 600)  # the server ends a watch after a random time in this range
    watch_grace: float = 30.0  # seconds without data allowed beyond that
    page_size: int = 500
    most_bytes: int = 16 * 1024 * 1024  # of one object or watch event: ten times what etcd stores
    most_bytes_of_list: int = 512 * 1024 * 1024  # of one page, or of a whole list once pages expire: 25,000 pods
    in_flight: int = 64  # concurrent requests, apart from watches and leases


DEFAULT_LIMITS = TransportLimits()


@dataclass(slots=True)
class _Attempt:
    """The progress of a request."""

    sent: bool = False


class Transport:
    """Sends requests to one API server."""

    def __init__(self, endpoint: Endpoint, credentials: Credentials, limits: TransportLimits) -> None:
        self.limits = limits
        self.metrics: Metrics = NoMetrics()
        self._endpoint = endpoint
        self._credentials = credentials
        self._proxy = endpoint.proxy_url
        self._in_flight = asyncio.Semaphore(limits.in_flight)
        self._rate_limit = RateLimit(limits.qps, limits.burst)
        self._tls: tuple[ClientCertificate | None, ssl.SSLContext] | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=self._keepalive_socket),
            timeout=_NO_CLIENT_TIMEOUT,
            headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def aclose(self) -> None:
        """Close every connection. Sockets that still wait for the TLS shutdown are shut down."""
        await self._credentials.aclose()
        await self._session.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while open_sockets := [each for each in self._sockets if each.fileno() != -1]:
                    for each in open_sockets:
                        with suppress(OSError):  # it may have closed since
                            each.shutdown(socket.SHUT_RDWR)
                    await asyncio.sleep(0.001)

    async def fetch(self, call: ApiRequest) -> bytes:
        """Send the request and return the whole response body."""
        seconds = self.limits.bulk_deadline if call.bulk else self.limits.deadline
        max_bytes = self.limits.most_bytes_of_list if call.bulk else self.limits.most_bytes
        async with self._deadline(call, seconds) as attempt, nullcontext() if call.urgent else self._in_flight:
            began = asyncio.get_running_loop().time()
            try:
                response = await self._send(call, attempt)
                try:
                    return await _body(response, max_bytes)
                finally:
                    response.release()
            finally:
                self._measure(call, asyncio.get_running_loop().time() - began)

    def _measure(self, call: ApiRequest, seconds: float) -> None:
        if call.kind is not None:
            labels = {"verb": call.verb, "kind": call.kind.name, "subresource": call.subresource}
            group = {"group": call.kind.group, "version": call.kind.version}
            self.metrics.observe("client_go_request_duration_seconds", seconds, **labels, **group)

    @asynccontextmanager
    async def stream(self, call: ApiRequest) -> AsyncIterator[aiohttp.StreamReader]:
        """Send the request and yield its response as a stream; the caller sets a timeout for each read."""
        async with self._deadline(call, self.limits.deadline) as attempt:
            response = await self._send(call, attempt)
        try:
            yield response.content
        finally:
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()  # discards unread data and cannot leave it half-open
            response.close()

    @asynccontextmanager
    async def websocket(self, call: ApiRequest, protocol: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket with a subprotocol; a refused handshake raises the error that its HTTP status means."""
        async with self._deadline(call, self.limits.deadline):
            credential = await self._credentials.current()
            try:
                opened = await self._session.ws_connect(
                    self._url(call),
                    protocols=(protocol,),
                    headers=[*credential.headers, ("Accept", "*/*")],  # a kubelet answers 406 to JSON only
                    proxy=self._proxy,
                    max_msg_size=self.limits.most_bytes,
                    **self._tls_options(credential),
                )
            except aiohttp.WSServerHandshakeError as error:
                raise error_of(call, Status(code=error.status, message="the connection was refused")) from error
        try:
            yield opened
        finally:
            await opened.close()

    @asynccontextmanager
    async def _deadline(self, call: ApiRequest, seconds: float) -> AsyncIterator[_Attempt]:
        attempt = _Attempt()
        try:
            async with asyncio.timeout(seconds):
                if not call.urgent:
                    await self._rate_limit.take()
                yield attempt
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            raise Unavailable(f"{call}: cannot connect to {self._endpoint.server}: {_cause(error)}") from error
        except TimeoutError as error:
            raise _connection_error(call, attempt, f"no response within {seconds:g} s") from error
        except (ApiError, AssertionError):
            raise
        except Exception as error:  # aiohttp's own errors, but also those of compression, headers and more
            raise _connection_error(
                call, attempt, f"connection broken: {str(error) or type(error).__name__}"
            ) from error

    async def _send(self, call: ApiRequest, attempt: _Attempt) -> aiohttp.ClientResponse:
        credential = await self._credentials.current()
        response = await self._request(call, credential, attempt)
        if response.status == 401:
            rejection = await self._error(call, response)
            renewed = await self._credentials.renewed(credential)
            if renewed.same_as(credential):
                raise rejection
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
        if call.accept:
            headers.append(("Accept", call.accept))
        if call.body is not None:
            headers.append(("Content-Type", call.content_type))
        attempt.sent = True
        code = "<error>"
        try:
            response = await self._session.request(
                call.method,
                self._url(call),
                data=call.body,
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy,
                **self._tls_options(credential),
            )
            code = str(response.status)
        finally:
            self.metrics.count("client_go_request_total", code=code, method=call.method)
        return response

    def _url(self, call: ApiRequest) -> URL:
        query = f"?{urlencode(call.query)}" if call.query else ""
        return URL(self._endpoint.server + call.path + query, encoded=True)

    def _tls_options(self, credential: Credential) -> dict[str, Any]:
        if not self._endpoint.secure:
            return {}
        return {
            "ssl": self._context(credential.certificate),
            "server_hostname": self._endpoint.tls_server_name or None,
        }

    def _context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """The TLS context. Connections are pooled by context, so a new certificate opens new connections."""
        if self._tls is None or self._tls[0] != certificate:
            self._tls = certificate, tls_context(self._endpoint, certificate)
        return self._tls[1]

    def _keepalive_socket(self, address: Any) -> socket.socket:
        """A socket with TCP keepalive: a watch would otherwise not notice that the peer is gone."""
        family, kind, protocol, _, _ = address
        sock = socket.socket(family, kind, protocol)
        self._sockets.add(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return sock


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > max_bytes:
            raise ValueError(f"the response is larger than {max_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _connection_error(call: ApiRequest, attempt: _Attempt, problem: str) -> ApiError:
    return OutcomeUnknown(f"{call}: {problem}") if call.writes and attempt.sent else Unavailable(f"{call}: {problem}")


def _cause(error: aiohttp.ClientError) -> str:
    """The cause of a failed connection in words; messages of aiohttp contain object representations."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return f"its certificate is not trusted: {cause}; check certificate-authority and server of the kubeconfig"
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error.strerror or str(error.os_error) or type(error.os_error).__name__
        return f"{cause}; is the API server running, and is this its address?"
    return str(error)
