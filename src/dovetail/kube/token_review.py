"""Authenticates dashboard users: TokenReview for the identity, then SubjectAccessReview for the permissions.

The API server stores neither. A response that cannot be decoded counts as `Unavailable`, never as permission. The
token is sent to the API server and is neither logged nor stored.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dovetail.kube.cluster_access import ClusterAccess
from dovetail.kube.credentials import Credentials
from dovetail.kube.requests import ApiRequest
from dovetail.kube.transport import Transport, TransportLimits
from dovetail.manifest.codec import UNDECODABLE
from dovetail.ports.clock import Clock
from dovetail.ports.errors import Unavailable
from dovetail.ports.token_review import TokenIdentity

REQUIRED_PERMISSIONS = (("list", "", "nodes"), ("list", "", "pods"))
"""Verb, group and resource, in all namespaces, of what the dashboard shows."""
LIMITS = TransportLimits(qps=20.0, burst=40, deadline=5.0, in_flight=8)
_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class User(msgspec.Struct):
    """The user of a TokenReview."""

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: User = msgspec.field(default_factory=User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class KubeReviewer:
    """Implements the reviewer of `ports.token_review`. Close it with `aclose`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def review(self, token: str) -> TokenIdentity:
        """The user of this token, and the permissions they lack."""
        status = (await self._post(_TOKENS, "TokenReview", {"token": token}, _TokenReview)).status
        if not status.authenticated or not status.user.username:
            return TokenIdentity()
        allowed = await asyncio.gather(*(self._allowed(status.user, each) for each in REQUIRED_PERMISSIONS))
        lacks = tuple(
            f"{verb} {resource}"
            for (verb, _, resource), permitted in zip(REQUIRED_PERMISSIONS, allowed, strict=True)
            if not permitted
        )
        return TokenIdentity(status.user.username, lacks)

    async def _allowed(self, user: User, permission: tuple[str, str, str]) -> bool:
        verb, group, resource = permission
        spec = {
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource},
            "user": user.username,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {name: list(values) for name, values in user.extra.items()},
        }
        status = (await self._post(_ACCESS, "SubjectAccessReview", spec, _AccessReview)).status
        return status.allowed and not status.denied

    async def _post(self, path: str, kind: str, spec: Mapping[str, Any], response_type: type[Any]) -> Any:
        group = path.split("/")[2]
        body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
        call = ApiRequest(method="POST", path=path, body=msgspec.json.encode(body))
        try:
            return msgspec.json.decode(await self._transport.fetch(call), type=response_type)
        except UNDECODABLE as error:
            raise Unavailable(f"{call}: the response is not a valid {kind}") from error


async def open_reviewer(access: ClusterAccess, clock: Clock) -> KubeReviewer:
    """A reviewer for the API server of an access. Sends no request."""
    return KubeReviewer(Transport(access.endpoint, Credentials(access.source, clock), LIMITS))
