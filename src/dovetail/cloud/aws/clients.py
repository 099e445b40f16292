"""The one door to AWS: clients by service, made when first needed, and every call counted and its errors translated.

Credentials, region and endpoints come from AWS's own default chain and nowhere else: environment, profile, web
identity, pod identity, instance metadata; `AWS_ENDPOINT_URL` leads elsewhere. Nothing is retried here beyond what the
SDK retries by itself; what a failure means is for the caller to say.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

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
