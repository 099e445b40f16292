"""API requests as values, and the errors that their responses mean.

The `*_call` functions build the method, path, query and body of every operation of the `Cluster` port. They send
nothing.

`error_of` turns an HTTP status with its `Status` body into an error of the port. A failed write is `Unavailable` only
if nothing was written; if the server, its storage or a proxy gave up in between, it is `OutcomeUnknown`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from dovetail.manifest.codec import UNDECODABLE, encode_hook, spell_micro_times, to_plain
from dovetail.model.kinds import LEASE, Kind
from dovetail.model.kube_object import Fault, Key, KubeObject
from dovetail.model.pod import Pod
from dovetail.ports.cluster import Deletion, ListOptions, Patch
from dovetail.ports.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Denied,
    EvictionBlocked,
    EvictionImpossible,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Throttled,
    Unavailable,
)

_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One HTTP request without server and credentials."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = _JSON
    accept: str = ""  # the media type of the response, if it is not plain JSON
    bulk: bool = False  # large response: compressed, and with a longer deadline
    urgent: bool = False  # not subject to the rate limit
    kind: Kind[Any] | None = None  # with `verb` and `subresource`: what metrics say about it
    verb: str = ""
    subresource: str = ""

    @property
    def writes(self) -> bool:
        """Whether the request may change an object."""
        return self.method != "GET"

    @property
    def evicts(self) -> bool:
        """Whether the request is an eviction."""
        return self.path.endswith("/eviction")

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def list_call(kind: Kind[Any], options: ListOptions, page: Mapping[str, str]) -> ApiRequest:
    """One page of a list. Only the first page may have a resourceVersion; the others continue it."""
    version = {} if "continue" in page else _version(options)
    query = {**_selection(options), **version, **page}
    path = _collection(kind, options.namespace)
    return ApiRequest(method="GET", path=path, query=query, bulk=True, kind=kind, verb="LIST")


def watch_call(kind: Kind[Any], since: str, options: ListOptions, seconds: int) -> ApiRequest:
    """A watch with a server-side timeout in seconds."""
    query = {
        **_selection(options),
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": since,
        "timeoutSeconds": str(seconds),
    }
    return ApiRequest(method="GET", path=_collection(kind, options.namespace), query=query)


def get_call(kind: Kind[Any], key: Key) -> ApiRequest:
    """A read of one object."""
    return ApiRequest(method="GET", path=_object(kind, key), urgent=kind == LEASE, kind=kind, verb="GET")


def create_call(kind: Kind[Any], value: KubeObject) -> ApiRequest:
    """A creation."""
    return ApiRequest(
        method="POST",
        path=_collection(kind, value.metadata.namespace),
        body=_encoded(kind, to_plain(kind, value)),
        urgent=kind == LEASE,
        kind=kind,
        verb="CREATE",
    )


def patch_call(kind: Kind[Any], key: Key, patch: Patch) -> ApiRequest:
    """A merge patch. Its resourceVersion precondition goes into the metadata of the body."""
    body = dict(patch.body)
    if patch.resource_version:
        body["metadata"] = {**body.get("metadata", {}), "resourceVersion": patch.resource_version}
    return ApiRequest(
        method="PATCH",
        path=_object(kind, key) + (f"/{patch.subresource}" if patch.subresource else ""),
        body=_encoded(kind, body),
        content_type=_MERGE_PATCH,
        urgent=kind == LEASE,
        kind=kind,
        verb="PATCH",
        subresource=patch.subresource,
    )


def delete_call(kind: Kind[Any], key: Key, deletion: Deletion) -> ApiRequest:
    """A deletion."""
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if deletion.uid:
        body["preconditions"] = {"uid": deletion.uid}
    if deletion.grace_seconds is not None:
        body["gracePeriodSeconds"] = deletion.grace_seconds
    return ApiRequest(
        method="DELETE", path=_object(kind, key), body=msgspec.json.encode(body), kind=kind, verb="DELETE"
    )


def evict_call(kind: Kind[Pod], pod: Pod) -> ApiRequest:
    """An eviction of the pod with this uid."""
    body: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
    }
    if pod.metadata.uid:
        body["deleteOptions"] = {"preconditions": {"uid": pod.metadata.uid}}
    return ApiRequest(
        method="POST",
        path=_object(kind, pod.key) + "/eviction",
        body=msgspec.json.encode(body),
        kind=kind,
        verb="CREATE",
        subresource="eviction",
    )


def _collection(kind: Kind[Any], namespace: str) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    namespace_path = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    return f"{root}{namespace_path}/{kind.plural}"


def _object(kind: Kind[Any], key: Key) -> str:
    if not key.name:
        raise ValueError(f"a {kind} without a name cannot be addressed")
    return f"{_collection(kind, key.namespace)}/{quote(key.name, safe='')}"


def _selection(options: ListOptions) -> dict[str, str]:
    selectors = {"labelSelector": options.label_selector, "fieldSelector": options.field_selector}
    return {name: selector for name, selector in selectors.items() if selector}


def _version(options: ListOptions) -> dict[str, str]:
    """The version with an explicit match: otherwise its meaning depends on whether the request has a limit."""
    if not options.resource_version:
        return {}
    match = "Exact" if options.exact else "NotOlderThan"
    return {"resourceVersion": options.resource_version, "resourceVersionMatch": match}


def _encoded(kind: Kind[Any], body: Mapping[str, Any]) -> bytes:
    encoded = msgspec.json.encode(body, enc_hook=encode_hook)
    if kind != LEASE:
        return encoded
    plain = msgspec.json.decode(encoded)
    spell_micro_times(plain)
    return msgspec.json.encode(plain)


_MAX_MESSAGE = 500
_TOO_LARGE = "request is too large"
"""etcd's message for an object above 1.5 MiB; nothing was written, and a retry cannot succeed."""
_STORAGE_GAVE_UP = ("etcdserver", "timed out", "deadline exceeded", "leader changed")


class StatusCause(msgspec.Struct):
    """One cause of a failure."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, rename="camel"):
    """The details of a failure."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct):
    """The `Status` object of a failed request."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None

    @property
    def causes(self) -> list[StatusCause]:
        """The causes, if any."""
        return (self.details.causes or []) if self.details else []


def read_status(body: bytes | msgspec.Raw, code: int = 0) -> Status:
    """The Status in a response. A body that is no Status, for example of a proxy, becomes the message."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except UNDECODABLE:
        return Status(code=code, message=bytes(body)[:_MAX_MESSAGE].decode("utf-8", "replace").strip())
    status.code = status.code or code
    return status


def error_of(call: ApiRequest, status: Status, headers: Mapping[str, str] | None = None) -> ApiError:
    """The error of the port for this request and status."""
    message = (
        f"{call}: {status.message or 'no explanation'} ({status.code}{' ' + status.reason if status.reason else ''})"
    )
    if status.code in _BY_CODE:
        return _BY_CODE[status.code](message)
    if status.code in (400, 413, 422) or (status.code >= 500 and _TOO_LARGE in status.message):
        return Invalid(message, tuple(Fault(cause.field or "$", cause.message) for cause in status.causes))
    if status.code == 409:
        return AlreadyExists(message) if status.reason == "AlreadyExists" else Conflict(message)
    if status.code == 429:
        return _too_many_requests(status, message, headers or {})
    if status.code >= 500:
        return _server_error(call, status, message)
    return ApiError(message)


def _too_many_requests(status: Status, message: str, headers: Mapping[str, str]) -> ApiError:
    budgets = [cause.message for cause in status.causes if cause.reason == "DisruptionBudget"]
    if budgets:
        return EvictionBlocked(f"{message}: {'; '.join(budgets)}")
    wait = _seconds(headers.get("Retry-After", "")) or (status.details.retry_after_seconds if status.details else 0)
    return Throttled(message, wait if wait > 0 else None)


def _seconds(header: str) -> int:
    """Parse Retry-After in seconds; 0 for a date or any other text. Nine digits are enough."""
    return int(header[:9]) if header.isascii() and header.isdigit() else 0


def _server_error(call: ApiRequest, status: Status, message: str) -> ApiError:
    if call.evicts and "more than one PodDisruptionBudget" in status.message:
        return EvictionImpossible(message)
    gave_up = status.code in (502, 504) or any(word in status.message for word in _STORAGE_GAVE_UP)
    return OutcomeUnknown(message) if call.writes and gave_up else Unavailable(message)


_BY_CODE: dict[int, Callable[[str], ApiError]] = {
    401: Denied,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    410: Gone,
}
