"""Asks a real API server who shows a token and whether they may look: TokenReview, then SubjectAccessReview.

Both are questions; nothing is kept by the server. An answer that cannot be understood is no answer. The token is sent
to the API server and appears nowhere else.
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

NEEDED = (("list", "", "nodes"), ("list", "", "pods"))
"""Verb, group and resource, in every namespace: what the page shows is about these."""
LIMITS = TransportLimits(qps=20.0, burst=40, deadline=5.0, in_flight=8)
_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class User(msgspec.Struct):
    """Who it is, as authorizers know them."""

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
    """Implements `ports.review.Reviewer`. Close it with `aclose`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def review(self, token: str) -> TokenIdentity:
        """Who shows this token, and what they lack."""
        status = (await self._ask(_TOKENS, "TokenReview", {"token": token}, _TokenReview)).status
        if not status.authenticated or not status.user.username:
            return TokenIdentity()
        allowed = await asyncio.gather(*(self._allowed(status.user, each) for each in NEEDED))
        lacks = tuple(f"{verb} {resource}" for (verb, _, resource), yes in zip(NEEDED, allowed, strict=True) if not yes)
        return TokenIdentity(status.user.username, lacks)

    async def _allowed(self, user: User, needed: tuple[str, str, str]) -> bool:
        verb, group, resource = needed
        spec = {
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource},
            "user": user.username,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {name: list(values) for name, values in user.extra.items()},
        }
        status = (await self._ask(_ACCESS, "SubjectAccessReview", spec, _AccessReview)).status
        return status.allowed and not status.denied

    async def _ask(self, path: str, kind: str, spec: Mapping[str, Any], answer: type[Any]) -> Any:
        group = path.split("/")[2]
        body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
        call = ApiRequest(method="POST", path=path, body=msgspec.json.encode(body))
        try:
            return msgspec.json.decode(await self._transport.fetch(call), type=answer)
        except UNDECODABLE as error:
            raise Unavailable(f"{call}: the answer is not what a {kind} looks like") from error


async def open_reviewer(access: ClusterAccess, clock: Clock) -> KubeReviewer:
    """One that asks the API server behind an access. Nothing is called yet."""
    return KubeReviewer(Transport(access.endpoint, Credentials(access.source, clock), LIMITS))
