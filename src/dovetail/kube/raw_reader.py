"""Reads any resource of an API server as plain data, and asks what the account may do. It cannot write.

For kinds that Dovetail has no model of, such as Deployments and CustomResourceDefinitions. `may` sends a
SelfSubjectAccessReview, or a SubjectAccessReview about a service account. The API server stores neither.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from dovetail.kube.cluster_access import ClusterAccess
from dovetail.kube.credentials import Credentials
from dovetail.kube.requests import ApiRequest
from dovetail.kube.transport import DEFAULT_LIMITS, Transport, TransportLimits
from dovetail.manifest.codec import UNDECODABLE
from dovetail.ports.clock import Clock
from dovetail.ports.errors import Unavailable

_ONLY_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_REVIEWS = "/apis/authorization.k8s.io/v1"

PlainObject = dict[str, Any]


class _ReviewStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


class _Metadata(msgspec.Struct):
    name: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _WithMetadata(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _MetadataList(_WithMetadata):
    items: list[_WithMetadata] = []


class RawReader:
    """Close it with `aclose`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> PlainObject:
        """Return the object at a path; raises the errors of `ports.errors`."""
        call = ApiRequest(method="GET", path=path, query=query or {}, bulk=True)
        found = _decoded(call, await self._transport.fetch(call), dict[str, Any])
        assert isinstance(found, dict)
        return found

    async def items(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[PlainObject]:
        """Yield every object of a collection, page by page, with its apiVersion and kind."""
        page = {**(query or {}), "limit": str(self._transport.limits.page_size)}
        while True:
            listed = await self.get(path, page)
            types = {
                "apiVersion": listed.get("apiVersion", ""),
                "kind": str(listed.get("kind", "")).removesuffix("List"),
            }
            for each in listed.get("items") or ():
                yield {**types, **each}
            more = (listed.get("metadata") or {}).get("continue")
            if not more:
                return
            page = {**page, "continue": more}

    async def names(self, path: str) -> AsyncIterator[str]:
        """Yield the name of every object of a collection; the API server sends only metadata."""
        page = {"limit": str(self._transport.limits.page_size)}
        while True:
            call = ApiRequest(method="GET", path=path, query=page, bulk=True, accept=_ONLY_METADATA)
            listed = _decoded(call, await self._transport.fetch(call), _MetadataList)
            for each in listed.items:
                yield each.metadata.name
            if not listed.metadata.continue_:
                return
            page = {**page, "continue": listed.metadata.continue_}

    async def may(self, attributes: Mapping[str, str], account: tuple[str, str] | None = None) -> bool:
        """Whether this account has a permission, or a service account, given by namespace and name.

        `attributes` are the resourceAttributes of the review. Only few accounts may ask about others; raises `Denied`
        if this one may not.
        """
        kind, subject = "SelfSubjectAccessReview", dict[str, Any]()
        if account is not None:
            namespace, name = account
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
            kind = "SubjectAccessReview"
            subject = {"user": f"system:serviceaccount:{namespace}:{name}", "groups": groups}
        spec = {"resourceAttributes": attributes, **subject}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        call = ApiRequest(method="POST", path=f"{_REVIEWS}/{kind.lower()}s", body=msgspec.json.encode(body))
        status = _decoded(call, await self._transport.fetch(call), _Review).status
        return bool(status.allowed and not status.denied)


def _decoded(call: ApiRequest, data: bytes, into: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=into)
    except UNDECODABLE as error:
        raise Unavailable(f"{call}: the response is not valid: {error}") from error


async def open_reader(access: ClusterAccess, clock: Clock, limits: TransportLimits = DEFAULT_LIMITS) -> RawReader:
    """A reader of the API server of an access. Sends no request."""
    return RawReader(Transport(access.endpoint, Credentials(access.source, clock), limits))
