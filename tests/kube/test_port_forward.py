"""One request to a port of a pod: the WebSocket channels of the kubelet, and responses that break."""

import asyncio

import pytest
from aiohttp import web

from builders import NOON
from dovetail.kube.credentials import Credentials, StaticCredentialSource, bearer
from dovetail.kube.endpoint import Endpoint
from dovetail.kube.port_forward import PodResponse, PortUnreachable, get_from_pod
from dovetail.kube.transport import Transport, TransportLimits
from dovetail.model.kube_object import Key
from dovetail.ports.errors import Denied, Forbidden, NotFound

PORTS = (b"\x00\x98\x1f", b"\x01\x98\x1f")  # 8088 on the channels of data and errors
POD = Key("dovetail", "dovetail-x")
LIMITS = TransportLimits(deadline=20.0, bulk_deadline=0.5)


class Clock:
    def now(self):
        return NOON


def fetched(*messages, status=0, stays_open=False):
    """The response, or error, when the kubelet sends these messages; and the request that it got."""

    async def kubelet(request):
        if status:
            return web.Response(status=status)
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        got.append((request.path_qs, socket.ws_protocol, (await socket.receive()).data))
        for each in messages:
            await socket.send_bytes(each)
        if stays_open:
            await socket.receive()  # until the client closes
        await socket.close()
        return socket

    async def ask():
        application = web.Application()
        application.router.add_get("/{path:.*}", kubelet)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        endpoint = Endpoint(server=f"http://127.0.0.1:{runner.addresses[0][1]}")
        transport = Transport(endpoint, Credentials(StaticCredentialSource(headers=bearer("secret")), Clock()), LIMITS)
        try:
            return await get_from_pod(transport, POD, 8088, "/api/history?node=a", "of-the-page")
        finally:
            await transport.aclose()
            await runner.cleanup()

    got = []
    return asyncio.run(ask()), got


def test_the_response_is_put_together_from_the_data_channel():
    head, body = b"\x00HTTP/1.1 200 OK\r\nContent-", b'\x00Length: 7\r\n\r\n{"a":1}'
    response, got = fetched(*PORTS, head, body, stays_open=True)  # it is complete: nothing more is waited for
    assert response == PodResponse(200, b'{"a":1}')
    assert got == [
        (
            "/api/v1/namespaces/dovetail/pods/dovetail-x/portforward?ports=8088",
            "v4.channel.k8s.io",
            (
                b"\x00GET /api/history?node=a HTTP/1.1\r\nHost: localhost:8088\r\nAccept: application/json\r\n"
                b"Connection: close\r\nAuthorization: Bearer of-the-page\r\n\r\n"
            ),
        )
    ]


def test_a_response_without_a_length_ends_with_the_connection():
    response, _ = fetched(*PORTS, b"\x00HTTP/1.1 404 Not Found\r\n\r\n{}", b"\x00{}")
    assert response == PodResponse(404, b"{}{}")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((*PORTS, b"\x01connection refused"), "portforward: connection refused"),
        (PORTS, "closed the connection without a response"),
        ((*PORTS, b"\x00SSH-2.0-OpenSSH\r\n\r\n"), "sent no valid HTTP response"),
        ((*PORTS, b"\x00HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), "sent no valid HTTP response"),
        ((b"", b"\x07what"), "closed the connection without a response"),
    ],
)
def test_a_port_that_gives_no_response_is_named_with_the_reason(messages, words):
    with pytest.raises(PortUnreachable) as raised:
        fetched(*messages)
    assert words in str(raised.value)


def test_a_port_that_never_answers_is_given_up():
    with pytest.raises(PortUnreachable, match=r"no response within 0\.5 s"):
        fetched(*PORTS, stays_open=True)


@pytest.mark.parametrize(("status", "error"), [(401, Denied), (403, Forbidden), (404, NotFound)])
def test_a_refusal_of_the_api_server_is_an_error_of_the_port(status, error):
    with pytest.raises(error):
        fetched(status=status)
