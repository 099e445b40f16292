"""The one door to AWS: clients by service, made when first needed, and every call counted and its errors translated.

Credentials, region and endpoints come from AWS's own default chain and nowhere else: environment, profile, web
identity, pod identity, instance metadata; `AWS_ENDPOINT_URL` leads elsewhere. Nothing is retried here beyond what the
SDK retries by itself; what a failure means is for the caller to say.

Questions about single things, gathered for a moment and asked together.

Whoever asks waits until nobody has asked for a while, or the first has waited long enough, or the batch is full. A
thing asked for twice is asked once. A batch that fails fails everybody in it, and nobody after.

Answers kept for a while, on the clock that was handed in. An answer that is being fetched is fetched once.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from aiobotocore.config import AioConfig  # type: ignore[import-untyped]  # aiobotocore has no types of its own
from aiobotocore.session import get_session  # type: ignore[import-untyped]  # see above
from botocore.exceptions import (  # type: ignore[import-untyped]  # see above
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
)
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]  # see above

from dovetail.ports.clock import Clock
from dovetail.ports.errors import CloudError

Answer = Mapping[str, Any]
THROTTLED = frozenset(
    {"RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException", "RequestThrottled"}
)
UNAUTHORIZED = frozenset(
    {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "UnrecognizedClientException"}
)
UNREACHABLE = "Unreachable"
NO_CREDENTIALS = "NoCredentials"
UNTAKEABLE = "ParamValidation"
"""The SDK does not even send it."""
_RETRIES = {"mode": "standard"}  # how often: AWS_MAX_ATTEMPTS, as the SDK reads it


class AwsError(CloudError):
    """AWS refused or could not be reached. `code` is AWS's own word for it, or one of ours."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.operation = operation
        self.code = code
        self.message = message

    @property
    def throttled(self) -> bool:
        """Whether AWS asks to come back later."""
        return self.code in THROTTLED

    @property
    def unauthorized(self) -> bool:
        """Whether the caller may not do this."""
        return self.code in UNAUTHORIZED

    @property
    def missing(self) -> bool:
        """Whether what was asked for does not exist."""
        return self.code.endswith((".NotFound", "NotFoundException")) or self.code in {
            "ParameterNotFound",
            "NoSuchEntity",
        }


class RegionUnknown(CloudError):
    """The default chain names no region."""

    def __init__(self) -> None:
        super().__init__("no AWS region is known; set AWS_REGION, or a region in the profile")


class AwsClients:
    """AWS as this process reaches it. `calls` counts requests by service and operation."""

    def __init__(self, session: Any = None) -> None:
        self._session = session or get_session()
        if not self.region and os.environ.get("AWS_REGION"):  # what pods are given; this SDK knows another name only
            self._session.set_config_variable("region", os.environ["AWS_REGION"])
        self._stack = AsyncExitStack()
        self._clients: dict[tuple[str, str], Any] = {}
        self._opening = asyncio.Lock()
        self.calls: Counter[str] = Counter()

    @property
    def region(self) -> str:
        """The region of the default chain; empty if it names none."""
        return str(self._session.get_config_variable("region") or "")

    async def call(self, service: str, operation: str, /, *, region: str = "", **given: Any) -> Answer:
        """One request. `AwsError` if it was refused or did not arrive."""
        client = await self._client(service, region)
        answer: Answer = await self._counted(f"{service}.{operation}", getattr(client, operation)(**given))
        return answer

    async def pages(self, service: str, operation: str, /, *, region: str = "", **given: Any) -> AsyncIterator[Answer]:
        """Every page of an answer, one request each."""
        client = await self._client(service, region)
        pages = aiter(client.get_paginator(operation).paginate(**given))
        while True:
            try:
                yield await self._counted(f"{service}.{operation}", anext(pages))
            except StopAsyncIteration:
                return

    async def collect(self, service: str, operation: str, field: str, /, **given: Any) -> list[Any]:
        """The entries of `field` over all pages."""
        return [entry async for page in self.pages(service, operation, **given) for entry in page.get(field, ())]

    async def aclose(self) -> None:
        """Close every connection."""
        self._clients.clear()
        await self._stack.aclose()

    async def _client(self, service: str, region: str) -> Any:
        async with self._opening:
            key = (service, region)
            if key not in self._clients:
                self._clients[key] = await self._open(service, region)
            return self._clients[key]

    async def _open(self, service: str, region: str) -> Any:
        config = AioConfig(retries=_RETRIES, connect_timeout=5, read_timeout=60, user_agent_extra="dovetail")
        try:
            made = self._session.create_client(service, region_name=region or None, config=config)
            return await self._stack.enter_async_context(made)
        except NoRegionError:
            raise RegionUnknown from None

    async def _counted(self, operation: str, request: Any) -> Any:
        try:
            answer = await request
        except StopAsyncIteration:
            raise
        except ClientError as error:
            self.calls[operation] += 1 + _retries(error.response)
            said = error.response.get("Error", {})
            raise AwsError(operation, said.get("Code", "Unknown"), said.get("Message", "")) from error
        except NoCredentialsError as error:
            remedy = "give the process an identity (IRSA, pod identity, instance role) or a profile"
            raise AwsError(operation, NO_CREDENTIALS, remedy) from error
        except ParamValidationError as error:
            raise AwsError(operation, UNTAKEABLE, str(error)) from error
        except (BotoCoreError, HTTPClientError, ResponseParserError, OSError, TimeoutError) as error:
            self.calls[operation] += 1
            raise AwsError(operation, UNREACHABLE, str(error)) from error
        self.calls[operation] += 1 + _retries(answer)
        return answer


def _retries(answer: Answer) -> int:
    return int(answer.get("ResponseMetadata", {}).get("RetryAttempts", 0))


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """How long a batch gathers, in seconds, and how much it takes."""

    idle: float = 0.1
    longest: float = 1.0
    most: int = 200


class Batched(Generic[K, V]):
    """Answers by key; None for what `fetch` does not answer for."""

    def __init__(
        self, fetch: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]], window: BatchWindow | None = None
    ) -> None:
        self._fetch = fetch
        self._window = window or BatchWindow()
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def ask(self, key: K) -> V | None:
        """The answer for one key, with whatever else is asked for around now."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._began = loop.time()
        answer = self._waiting.setdefault(key, loop.create_future())
        self._set_timer(loop)
        return await asyncio.shield(answer)  # one who gives up takes the answer from nobody else

    async def aclose(self) -> None:
        """Ask nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if len(self._waiting) >= self._window.most:
            self._send()
            return
        due = min(loop.time() + self._window.idle, self._began + self._window.longest)
        self._timer = loop.call_at(due, self._send)

    def _send(self) -> None:
        batch, self._waiting, self._timer = self._waiting, {}, None
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _run(self, batch: dict[K, asyncio.Future[V | None]]) -> None:
        try:
            answers = await self._fetch(list(batch))
        except asyncio.CancelledError:
            for waiting in batch.values():
                waiting.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to those who asked
            for waiting in batch.values():
                waiting.set_exception(error)
                waiting.exception()  # all who asked may have gone
            return
        for key, waiting in batch.items():
            waiting.set_result(answers.get(key))


def chunks(keys: Sequence[K], most: int) -> Iterator[Sequence[K]]:
    """The keys, at most so many at a time."""
    for start in range(0, len(keys), most):
        yield keys[start : start + most]


class TtlCache(Generic[K, V]):
    """Answers by key, each forgotten `lifetime` after it came. Failures are not kept."""

    def __init__(self, clock: Clock, lifetime: timedelta) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self._kept: dict[K, tuple[datetime, V]] = {}
        self._locks: dict[K, asyncio.Lock] = {}

    async def get(self, key: K, fetch: Callable[[], Awaitable[V]]) -> V:
        """The answer, fetched unless one is still good."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self._kept.get(key)
            if known is None or known[0] <= self._clock.now():
                self._sweep()
                known = (self._clock.now() + self._lifetime, await fetch())
                self._kept[key] = known
            return known[1]

    def forget(self, key: K) -> None:
        """Ask anew next time."""
        self._kept.pop(key, None)

    def clear(self) -> None:
        """Ask everything anew."""
        self._kept.clear()

    def _sweep(self) -> None:
        now = self._clock.now()
        for key in [key for key, (until, _) in self._kept.items() if until <= now]:
            del self._kept[key]
            if not self._locks[key].locked():
                del self._locks[key]
