"""Sends one HTTP request to a port of a pod, through the port forwarding of the API server, as `kubectl port-forward`.

The kubelet connects to the port inside the pod, so a server that listens only on loopback is reached, and RBAC on
`pods/portforward` decides who may. The WebSocket protocol `v4.channel.k8s.io` has two channels for a port: 0 for data
and 1 for errors. The first byte of a message is its channel; the first message of each channel is the port itself.
"""

import asyncio
import http.client
import io
import re
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

import aiohttp

from dovetail.kube.requests import ApiRequest
from dovetail.kube.transport import Transport
from dovetail.model.kube_object import Key
from dovetail.ports.errors import Unavailable

PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,12})[ \t]*(?=\r\n|$)", re.IGNORECASE)


class PortUnreachable(Unavailable):
    """The port of the pod does not accept the connection; the message is that of the kubelet."""


@dataclass(frozen=True, slots=True)
class PodResponse:
    """The HTTP response of a process in a pod."""

    status: int
    body: bytes


@dataclass(slots=True)
class _Received:
    """The data of both channels, without the port that each starts with."""

    data: bytearray = field(default_factory=bytearray)
    error: bytearray = field(default_factory=bytearray)
    begun: set[int] = field(default_factory=set)
    size: int | None = None  # of the whole response, once its headers have arrived and name its length

    def add(self, message: bytes) -> None:
        if not message:
            return
        channel, content = message[0], message[1:]
        if channel not in self.begun:
            self.begun.add(channel)
            content = content[2:]
        if channel == _DATA:
            self.data += content
            self.size = self.size or _response_size(self.data)
        elif channel == _ERROR:
            self.error += content

    @property
    def complete(self) -> bool:
        """Whether the response has arrived; one without a length ends with the connection."""
        return self.size is not None and len(self.data) >= self.size


def _response_size(data: bytearray) -> int | None:
    end = data.find(b"\r\n\r\n")
    found = _LENGTH.search(data, 0, end) if end >= 0 else None
    return end + 4 + int(found[1]) if found is not None else None


async def get_from_pod(transport: Transport, pod: Key, port: int, path: str, token: str = "") -> PodResponse:
    """GET a path, with its query, from a port of a pod; raises the errors of the API server, or `PortUnreachable`."""
    target = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/portforward"
    call = ApiRequest(method="GET", path=target, query={"ports": str(port)})
    lines = [f"GET {path} HTTP/1.1", f"Host: localhost:{port}", "Accept: application/json", "Connection: close"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    request = "".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"\r\n"
    received = _Received()
    async with transport.websocket(call, PROTOCOL) as socket:
        with suppress(ConnectionError):  # closed by a kubelet that cannot connect: it has sent the reason
            await socket.send_bytes(bytes([_DATA]) + request)
        try:
            async with asyncio.timeout(transport.limits.bulk_deadline):
                await _receive(socket, received, transport.limits.most_bytes_of_list)
        except TimeoutError:
            raise PortUnreachable(f"{call}: no response within {transport.limits.bulk_deadline:g} s") from None
    if received.error and not received.complete:
        raise PortUnreachable(f"{call}: {received.error.decode('utf-8', 'replace').strip()}")
    return _parse(call, bytes(received.data))


async def _receive(socket: aiohttp.ClientWebSocketResponse, received: _Received, most: int) -> None:
    async for message in socket:
        if message.type is aiohttp.WSMsgType.BINARY:
            received.add(message.data)
        if received.error or received.complete or len(received.data) > most:
            return


class _ReadOnlySocket:
    """What `http.client` needs of a socket to parse a response that has arrived."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _parse(call: ApiRequest, data: bytes) -> PodResponse:
    response = http.client.HTTPResponse(_ReadOnlySocket(data))  # type: ignore[arg-type]  # it only calls makefile
    try:
        response.begin()
        return PodResponse(response.status, response.read())
    except (http.client.HTTPException, ValueError) as error:
        problem = "closed the connection without a response" if not data else f"sent no valid HTTP response: {error}"
        raise PortUnreachable(f"{call}: the pod {problem}") from error
