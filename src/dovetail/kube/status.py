"""What an answer other than success means: HTTP status and `Status` body to the errors of the port.

A refusal of a write is only ever called `Unavailable` when nothing was written; where the server itself does not know
(it, its storage or a proxy gave up in between) the outcome is unknown.
"""

from collections.abc import Callable, Mapping

import msgspec

from dovetail.kube.requests import ApiRequest
from dovetail.manifest.codec import UNDECODABLE
from dovetail.model.kube_object import Fault
from dovetail.ports.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Denied,
    EvictionBlocked,
    EvictionImpossible,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Throttled,
    Unavailable,
)

_SHOWN = 500
_TOO_LARGE = "request is too large"
"""As etcd says it of an object above 1.5 MiB; nothing was written, and to repeat it is of no use."""
_STORAGE_GAVE_UP = ("etcdserver", "timed out", "deadline exceeded", "leader changed")


class StatusCause(msgspec.Struct):
    """One cause of a refusal."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, rename="camel"):
    """What a refusal is about."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct):
    """The API server's own account of a call."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None

    @property
    def causes(self) -> list[StatusCause]:
        """The causes given."""
        return (self.details.causes or []) if self.details else []


def read_status(body: bytes | msgspec.Raw, code: int = 0) -> Status:
    """The Status in an answer; proxies in between answer in their own words, which are kept as the message."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except UNDECODABLE:
        return Status(code=code, message=bytes(body)[:_SHOWN].decode("utf-8", "replace").strip())
    status.code = status.code or code
    return status


def error_of(call: ApiRequest, status: Status, headers: Mapping[str, str] | None = None) -> ApiError:
    """The error that this status means for this call."""
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
        return _too_many(status, message, headers or {})
    if status.code >= 500:
        return _broken(call, status, message)
    return ApiError(message)


def _too_many(status: Status, message: str, headers: Mapping[str, str]) -> ApiError:
    budgets = [cause.message for cause in status.causes if cause.reason == "DisruptionBudget"]
    if budgets:
        return EvictionBlocked(f"{message}: {'; '.join(budgets)}")
    wait = _seconds(headers.get("Retry-After", "")) or (status.details.retry_after_seconds if status.details else 0)
    return Throttled(message, wait if wait > 0 else None)


def _seconds(header: str) -> int:
    """A number of seconds; a date, or whatever else stands there, is 0. So many digits are more than anybody waits."""
    return int(header[:9]) if header.isascii() and header.isdigit() else 0


def _broken(call: ApiRequest, status: Status, message: str) -> ApiError:
    if call.evicts and "more than one PodDisruptionBudget" in status.message:
        return EvictionImpossible(message)
    gave_up = status.code in (502, 504) or any(word in status.message for word in _STORAGE_GAVE_UP)
    return OutcomeUnknown(message) if call.writes and gave_up else Unavailable(message)


_BY_CODE: dict[int, Callable[[str], ApiError]] = {
    401: Denied,
    403: Denied,
    404: NotFound,
    408: Unavailable,
    410: Gone,
}
