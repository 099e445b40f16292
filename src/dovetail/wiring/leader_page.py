"""Reads JSON documents from the dashboard of the controller that leads, from any machine that reaches the API server.

The holder of the Lease is the host name of the leading process, which in a pod is the name of the pod. The request goes
through port forwarding, so the dashboard stays on loopback and RBAC decides who may read: `get` on the Lease, and `get`
and `create` on `pods/portforward`. A dashboard that requires a token gets the one that the user names, never the
credentials of the kubeconfig.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import SystemRandom
from typing import Any
from urllib.parse import urlencode

import msgspec

from dovetail.kube.client import KubeCluster
from dovetail.kube.cluster_access import ClusterAccess, find_access
from dovetail.kube.credentials import Credentials
from dovetail.kube.port_forward import PodResponse, PortUnreachable, get_from_pod
from dovetail.kube.transport import DEFAULT_LIMITS, Transport
from dovetail.manifest.codec import UNDECODABLE
from dovetail.model.cluster_objects import Lease
from dovetail.model.kinds import LEASE
from dovetail.model.kube_object import Key
from dovetail.ports.clock import Clock
from dovetail.ports.errors import ApiError, Forbidden, NotFound

DEFAULT_NAMESPACE = "dovetail"
DEFAULT_PORT = 8088
_SKEW = timedelta(minutes=1)  # between this clock and that of the holder, before a Lease counts as expired


class LeaderUnreachable(Exception):
    """The leader cannot be asked; the message names the obstacle and the fix."""


class LeaderNotInPod(LeaderUnreachable):
    """The holder of the Lease is no pod in the namespace; `host` is its host name."""

    def __init__(self, message: str, host: str) -> None:
        super().__init__(message)
        self.host = host


class NoSuchDocument(Exception):
    """The leader has no such document; the message is the leader's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAddress:
    """Where to look for the leader."""

    kubeconfig: Path | None = None
    context: str | None = None
    lease: Key
    namespace: str = DEFAULT_NAMESPACE  # of the pods of the controller
    pod: str = ""  # asked in place of the leader
    port: int = DEFAULT_PORT
    token: str = field(default="", repr=False)  # of the dashboard


async def ask_leader(address: LeaderAddress, path: str, query: Mapping[str, str], clock: Clock) -> dict[str, Any]:
    """Return the document that the leader's dashboard serves at a path."""
    access = find_access(address.kubeconfig, address.context, os.environ)
    transport = _transport(access, clock)
    try:
        name = address.pod or _host(await _read_lease(transport, address), address, clock.now())
        pod = Key(address.namespace, name)
        asked = f"{path}?{urlencode(query)}" if query else path
        return _document(pod, address, await _get(transport, pod, address, asked))
    finally:
        await transport.aclose()


def _transport(access: ClusterAccess, clock: Clock) -> Transport:
    return Transport(access.endpoint, Credentials(access.source, clock), DEFAULT_LIMITS)


async def _read_lease(transport: Transport, address: LeaderAddress) -> Lease:
    try:
        return await KubeCluster(transport, SystemRandom()).get(LEASE, address.lease)
    except Forbidden as error:
        grant = f"grant get on leases in namespace {address.lease.namespace}"
        raise LeaderUnreachable(f"this account may not read the Lease {address.lease}; {grant}: {error}") from error
    except NotFound as error:
        remedy = (
            "name the namespace of the controller with -n, or, if it runs without leader election or with --dry-run, "
            "its pod with --pod"
        )
        raise LeaderUnreachable(f"there is no Lease {address.lease}, so no controller leads there; {remedy}") from error
    except ApiError as error:
        raise LeaderUnreachable(str(error)) from error


def _host(lease: Lease, address: LeaderAddress, now: datetime) -> str:
    """Return the host name of the holder, which is the part before the underscore, as in client-go."""
    holder = lease.spec.holder_identity or ""
    if not holder:
        raise LeaderUnreachable(f"the Lease {address.lease} has no holder: no controller leads at the moment")
    renewed_at, seconds = lease.spec.renew_time, lease.spec.lease_duration_seconds or 0
    if renewed_at is not None and now - renewed_at > timedelta(seconds=seconds) + _SKEW:
        since = f"{renewed_at:%Y-%m-%d %H:%M:%S} UTC"
        raise LeaderUnreachable(
            f"no controller leads: {holder} has not renewed the Lease {address.lease} since {since}"
        )
    return holder.rpartition("_")[0] or holder


async def _get(transport: Transport, pod: Key, address: LeaderAddress, path: str) -> PodResponse:
    try:
        return await get_from_pod(transport, pod, address.port, path, address.token)
    except Forbidden as error:
        grant = f"grant get and create on pods/portforward in namespace {pod.namespace}"
        raise LeaderUnreachable(f"this account may not forward ports of the pod {pod}; {grant}") from error
    except NotFound as error:
        text = f"the leader {pod.name} is no pod in namespace {pod.namespace}; name its namespace with -n"
        raise LeaderNotInPod(text, pod.name) from error
    except PortUnreachable as error:
        remedy = "is its dashboard on another port (--dashboard-port) or disabled?"
        raise LeaderUnreachable(f"pod {pod} does not answer on port {address.port}; {remedy} {error}") from error
    except ApiError as error:
        raise LeaderUnreachable(str(error)) from error


def _document(pod: Key, address: LeaderAddress, response: PodResponse) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(response.body, type=dict[str, Any])
    except UNDECODABLE as error:
        problem = f"HTTP status {response.status}, and no JSON: {error}"
        raise LeaderUnreachable(
            f"port {address.port} of pod {pod} is not a dashboard of Dovetail: {problem}"
        ) from error
    if response.status == 200:
        return found
    said = str(found.get("error", f"HTTP status {response.status}"))
    if response.status == 404:
        raise NoSuchDocument(said)
    remedy = ""
    if response.status in {401, 403}:
        remedy = "; name a file with a token that it accepts with --token-file"
    raise LeaderUnreachable(f"the dashboard of pod {pod} refuses: {said}{remedy}")
