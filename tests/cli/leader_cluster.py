"""An API server with the Lease of a controller and the port forwarding of its pod, over real HTTP, in a thread.

Port forwarding follows the kubelet: the WebSocket protocol `v4.channel.k8s.io`, two channels per port that start with
the port in little endian, and the reason of a failed connection on the second. It connects to ports of this host.
"""

import asyncio
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import yaml
from aiohttp import WSMsgType, web

LEASE = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
FORWARD = "/api/v1/namespaces/{namespace}/pods/{name}/portforward"


@dataclass
class LeaderCluster:
    """What the API server has and allows."""

    holder: str = "dovetail-7d9c-x2x5z_0a1b2c"
    pod: str = "dovetail-7d9c-x2x5z"
    renewed_at: datetime | None = None  # None: the leader lives, and has renewed it just now
    forbidden: tuple[str, ...] = ()  # "leases", "pods/portforward"
    seen: list = field(default_factory=list)
    names: dict = field(default_factory=dict)  # of objects, by the path of their collection

    async def metadata(self, request):
        """A page of two names at most, and only for clients that accept PartialObjectMetadataList."""
        assert request.headers["Accept"] == "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        names, at = self.names[request.path], int(request.query.get("continue", "0"))
        items = [{"metadata": {"name": name}} for name in names[at : at + 2]]
        more = {"continue": str(at + 2)} if at + 2 < len(names) else {}
        return web.json_response({"kind": "PartialObjectMetadataList", "metadata": more, "items": items})

    async def lease(self, request):
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if "leases" in self.forbidden:
            return refusal(403, f'leases.coordination.k8s.io "{name}" is forbidden')
        if (namespace, name) != ("dovetail", "karpenter-leader-election"):
            return refusal(404, f'leases.coordination.k8s.io "{name}" not found')
        spec = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": 15,
            "renewTime": (self.renewed_at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        metadata = {"name": name, "namespace": namespace, "resourceVersion": "1", "uid": "u"}
        return web.json_response(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        )

    async def forward(self, request):
        self.seen.append((request.path, request.headers.get("Authorization", "")))
        if "pods/portforward" in self.forbidden:
            return refusal(403, "pods is forbidden: cannot create resource pods/portforward")
        if (request.match_info["namespace"], request.match_info["name"]) != ("dovetail", self.pod):
            return refusal(404, "pods not found")
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",), max_msg_size=0)
        await socket.prepare(request)
        port = int(request.query["ports"])
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            await socket.send_bytes(b"\x01" + f"error forwarding port {port} to pod: {error}".encode())
            await socket.close()
            return socket
        copying = asyncio.create_task(self._upstream(socket, writer))
        while chunk := await reader.read(1000):
            await socket.send_bytes(b"\x00" + chunk)
        await socket.close()
        copying.cancel()
        writer.close()
        return socket

    async def _upstream(self, socket, writer):
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[0] == 0:
                writer.write(message.data[1:])


def refusal(code, message):
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
    return web.Response(status=code, text=json.dumps(body), content_type="application/json")


@contextmanager
def served(cluster, directory):
    """Serve the cluster; yields the path of a kubeconfig for it."""
    started, loop = threading.Event(), asyncio.new_event_loop()
    address = []

    async def start():
        application = web.Application()
        application.router.add_get(LEASE, cluster.lease)
        for path in cluster.names:
            application.router.add_get(path, cluster.metadata)
        application.router.add_get(FORWARD, cluster.forward)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        started.set()
        return runner

    runner = loop.create_task(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    started.wait()
    path = directory / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": address[0]}}],
        "users": [{"name": "one", "user": {"token": "credential-of-the-user"}}],
    }
    path.write_text(yaml.safe_dump(config))
    try:
        yield path
    finally:
        asyncio.run_coroutine_threadsafe(runner.result().cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
