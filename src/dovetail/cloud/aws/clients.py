"""AWS clients, request batching and a TTL cache: everything through which this process talks to AWS.

`AwsClients` opens one client for each service and region on first use, counts requests by operation, and turns every
SDK error into `AwsError`. Credentials, region and endpoints come only from the SDK's default chain: environment,
profile, web identity, pod identity, instance metadata; `AWS_ENDPOINT_URL` replaces the endpoint. Retries are those of
the SDK; the caller decides what a failure means. A client is opened only with credentials, and credentials of a file
are read again after AWS has rejected them, so that requests succeed as soon as there are valid ones.

`Batched` merges lookups of single keys into one request. A batch is sent when no new key arrived for `idle` seconds,
when its first key has waited `longest` seconds, or when it has `most` keys. A key that is requested twice is sent once.
A failed batch fails every waiter of that batch and no later one.

`TtlCache` keeps results for a fixed time on the injected clock. Concurrent requests for one key share one fetch.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from aiobotocore.config import AioConfig  # type: ignore[import-untyped]  # aiobotocore has no type hints
from aiobotocore.session import get_session  # type: ignore[import-untyped]  # see above
from botocore.credentials import RefreshableCredentials  # type: ignore[import-untyped]  # see above
from botocore.exceptions import (  # type: ignore[import-untyped]  # see above
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]  # see above

from dovetail.cloud.aws.request_metrics import RequestMetrics
from dovetail.ports.clock import Clock
from dovetail.ports.errors import CloudError
from dovetail.ports.metrics import Metrics, NoMetrics

Response = Mapping[str, Any]
THROTTLED = frozenset(
    {"RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException", "RequestThrottled"}
)
UNAUTHORIZED = frozenset(
    {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "UnrecognizedClientException"}
)
REJECTED_CREDENTIALS = frozenset(
    {
        *("AuthFailure", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature", "InvalidAccessKeyId"),
        *("InvalidClientTokenId", "InvalidIdentityToken", "InvalidSignatureException", "RequestExpired"),
        *("SignatureDoesNotMatch", "UnrecognizedClientException"),
    }
)
"""Codes for credentials that are expired, unknown, or used with a wrong clock."""
UNREACHABLE = "Unreachable"
NO_CREDENTIALS = "NoCredentials"
INVALID_PARAMETERS = "ParamValidation"
"""The SDK rejected the parameters and sent no request."""
_RETRIES = {"mode": "standard"}  # the SDK reads the number of attempts from AWS_MAX_ATTEMPTS


class AwsError(CloudError):
    """A request that AWS refused or that did not reach it. `code` is the AWS error code, or one of this module."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.operation = operation
        self.code = code
        self.message = message

    @property
    def throttled(self) -> bool:
        """Whether AWS throttled the request."""
        return self.code in THROTTLED

    @property
    def unauthorized(self) -> bool:
        """Whether the caller lacks the permission."""
        return self.code in UNAUTHORIZED

    @property
    def credentials_rejected(self) -> bool:
        """Whether AWS did not accept the credentials."""
        return self.code in REJECTED_CREDENTIALS

    @property
    def action(self) -> str:
        """The request as IAM policies name it, for example ec2:DescribeSubnets."""
        service, _, operation = self.operation.partition(".")
        return f"{service}:{''.join(word[:1].upper() + word[1:] for word in operation.split('_'))}"

    @property
    def missing(self) -> bool:
        """Whether the requested resource does not exist."""
        return self.code.endswith((".NotFound", "NotFoundException")) or self.code in {
            "ParameterNotFound",
            "NoSuchEntity",
        }


class RegionUnknown(CloudError):
    """The default chain yields no region."""

    def __init__(self) -> None:
        super().__init__("no AWS region is configured; set AWS_REGION, or a region in the profile")


class ProfileUnknown(CloudError):
    """The configured AWS profile does not exist."""

    def __init__(self, error: str) -> None:
        super().__init__(f"{error}; set AWS_PROFILE to one that exists (aws configure list-profiles)")


_OWN_CREDENTIALS = ("AWS_PROFILE", "AWS_ACCESS_KEY_ID")
"""Environment variables that select credentials; they take precedence over the profile of a kubeconfig."""


class AwsClients:
    """The AWS clients of this process. `calls` counts requests by service and operation, retries included.

    `region` takes precedence over that of the environment and the profile; `profile` does not.
    """

    def __init__(self, session: Any = None, region: str = "", profile: str = "") -> None:
        self._variables = {"region": region} if region else {}
        if profile and not any(map(os.environ.get, _OWN_CREDENTIALS)):
            self._variables["profile"] = profile
        self._session = self._configured(session or get_session())
        if not self.region and os.environ.get(
            "AWS_REGION"
        ):  # EKS sets this one in pods; the SDK reads AWS_DEFAULT_REGION only
            self._variables["region"] = os.environ["AWS_REGION"]
            self._configured(self._session)
        self._stack = AsyncExitStack()
        self._clients: dict[tuple[str, str], Any] = {}
        self._opening = asyncio.Lock()
        self.calls: Counter[str] = Counter()
        self.metrics: Metrics = NoMetrics()  # set before the first request

    def _configured(self, session: Any) -> Any:
        for name, value in self._variables.items():
            session.set_config_variable(name, value)
        return session

    @property
    def region(self) -> str:
        """The configured region, or that of the default chain; empty if there is none."""
        try:
            return str(self._session.get_config_variable("region") or "")
        except ProfileNotFound as error:
            raise ProfileUnknown(str(error)) from error

    async def call(self, service: str, operation: str, /, *, region: str = "", **parameters: Any) -> Response:
        """Send one request. Raises `AwsError` if it fails."""
        client = await self._client(service, region, operation)
        answer: Response = await self._send(f"{service}.{operation}", getattr(client, operation)(**parameters))
        return answer

    async def pages(
        self, service: str, operation: str, /, *, region: str = "", **parameters: Any
    ) -> AsyncIterator[Response]:
        """Yield every page of a paginated operation, one request each."""
        client = await self._client(service, region, operation)
        pages = aiter(client.get_paginator(operation).paginate(**parameters))
        while True:
            try:
                yield await self._send(f"{service}.{operation}", anext(pages))
            except StopAsyncIteration:
                return

    async def collect(self, service: str, operation: str, field: str, /, **parameters: Any) -> list[Any]:
        """The entries of `field` over all pages."""
        return [entry async for page in self.pages(service, operation, **parameters) for entry in page.get(field, ())]

    async def aclose(self) -> None:
        """Close every connection."""
        self._clients.clear()
        await self._stack.aclose()

    async def _client(self, service: str, region: str, operation: str) -> Any:
        async with self._opening:
            key = (service, region)
            if key not in self._clients:
                try:
                    self._clients[key] = await self._open(service, region)
                except NoRegionError:
                    raise RegionUnknown from None
                except _SDK_ERRORS as error:
                    raise _translated(f"{service}.{operation}", error) from error
            return self._clients[key]

    async def _open(self, service: str, region: str) -> Any:
        config = AioConfig(retries=_RETRIES, connect_timeout=5, read_timeout=60, user_agent_extra="dovetail")
        if await self._session.get_credentials() is None:
            raise NoCredentialsError  # a client without credentials would not notice later ones
        made = self._session.create_client(service, region_name=region or None, config=config)
        client = await self._stack.enter_async_context(made)
        RequestMetrics(client, self.metrics)
        return client

    async def _send(self, operation: str, request: Any) -> Any:
        try:
            answer = await request
        except StopAsyncIteration:
            raise
        except ClientError as error:
            self.calls[operation] += 1 + _retries(error.response)
            refused = _refused(operation, error)
            if refused.credentials_rejected:
                await self._read_credentials_again()
            raise refused from error
        except _SDK_ERRORS as error:
            failed = _translated(operation, error)
            self.calls[operation] += failed.code == UNREACHABLE
            raise failed from error
        self.calls[operation] += 1 + _retries(answer)
        return answer

    async def _read_credentials_again(self) -> None:
        """Use the credentials that are in the file now. The SDK itself renews only those that have an expiry."""
        known = await self._session.get_credentials()
        if known is None or isinstance(known, RefreshableCredentials):
            return
        session = self._configured(get_session())
        with suppress(*_SDK_ERRORS):
            found = await session.get_credentials()
            if found is None or isinstance(found, RefreshableCredentials):
                return
            if await found.get_frozen_credentials() != await known.get_frozen_credentials():
                self._session = session
                self._clients.clear()  # requests in flight keep theirs; `aclose` closes all


_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, SSOError, TokenRetrievalError)
_SDK_ERRORS = (BotoCoreError, HTTPClientError, ResponseParserError, OSError, TimeoutError)


def _refused(operation: str, error: ClientError) -> AwsError:
    """The error that AWS answered; requests for temporary credentials are the SDK's own."""
    details = error.response.get("Error", {})
    if error.operation_name.startswith("AssumeRole"):
        operation = f"sts.{error.operation_name}"
    return AwsError(operation, details.get("Code", "Unknown"), details.get("Message", ""))


def _translated(operation: str, error: Exception) -> AwsError:
    """The error of a request that the SDK did not send, or that was not answered."""
    if isinstance(error, (*_NO_CREDENTIALS, FileNotFoundError, PermissionError)):
        remedy = "set AWS_PROFILE, or give the pod an identity (pod identity, IRSA, instance role)"
        said = "" if isinstance(error, NoCredentialsError) else f"{error}; "
        return AwsError(operation, NO_CREDENTIALS, f"{said}{remedy}")
    code = INVALID_PARAMETERS if isinstance(error, ParamValidationError) else UNREACHABLE
    return AwsError(operation, code, str(error))


def _retries(answer: Response) -> int:
    return int(answer.get("ResponseMetadata", {}).get("RetryAttempts", 0))


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """When a batch is sent: seconds without a new key, seconds since the first key, number of keys."""

    idle: float = 0.1
    longest: float = 1.0
    most: int = 200


class Batched(Generic[K, V]):
    """Merges concurrent lookups into batches. `get` returns None for a key that `fetch` leaves out."""

    def __init__(
        self,
        fetch: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]],
        window: BatchWindow | None = None,
        on_batch: Callable[[float, int], None] | None = None,
    ) -> None:
        """Create it; `on_batch` is called with the seconds that each batch waited, and its number of keys."""
        self._fetch = fetch
        self._window = window or BatchWindow()
        self._on_batch = on_batch
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._started_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def get(self, key: K) -> V | None:
        """Return the value of one key, fetched in one batch with the keys requested at the same time."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._started_at = loop.time()
        answer = self._waiting.setdefault(key, loop.create_future())
        self._set_timer(loop)
        return await asyncio.shield(answer)  # a cancelled waiter must not cancel the result of the others

    async def aclose(self) -> None:
        """Cancel the timer and the batches in flight."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if len(self._waiting) >= self._window.most:
            self._send()
            return
        due = min(loop.time() + self._window.idle, self._started_at + self._window.longest)
        self._timer = loop.call_at(due, self._send)

    def _send(self) -> None:
        batch, self._waiting, self._timer = self._waiting, {}, None
        if self._on_batch is not None:
            self._on_batch(asyncio.get_running_loop().time() - self._started_at, len(batch))
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, batch: dict[K, asyncio.Future[V | None]]) -> None:
        try:
            answers = await self._fetch(list(batch))
        except asyncio.CancelledError:
            for waiting in batch.values():
                waiting.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - every waiter of the batch receives it
            for waiting in batch.values():
                waiting.set_exception(error)
                waiting.exception()  # marks it as retrieved: all waiters may have been cancelled
            return
        for key, waiting in batch.items():
            waiting.set_result(answers.get(key))


def chunks(keys: Sequence[K], most: int) -> Iterator[Sequence[K]]:
    """Split the keys into slices of at most `most`."""
    for start in range(0, len(keys), most):
        yield keys[start : start + most]


class TtlCache(Generic[K, V]):
    """Values by key, each valid for `lifetime`. Failed fetches are not stored."""

    def __init__(self, clock: Clock, lifetime: timedelta) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self._entries: dict[K, tuple[datetime, V]] = {}
        self._locks: dict[K, asyncio.Lock] = {}

    async def get(self, key: K, fetch: Callable[[], Awaitable[V]]) -> V:
        """Return the stored value, or fetch and store it."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self._entries.get(key)
            if known is None or known[0] <= self._clock.now():
                self._evict_expired()
                known = (self._clock.now() + self._lifetime, await fetch())
                self._entries[key] = known
            return known[1]

    def forget(self, key: K) -> None:
        """Drop the stored value, so that the next `get` fetches it again."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Drop every stored value."""
        self._entries.clear()

    def _evict_expired(self) -> None:
        now = self._clock.now()
        for key in [key for key, (until, _) in self._entries.items() if until <= now]:
            del self._entries[key]
            if not self._locks[key].locked():
                del self._locks[key]
