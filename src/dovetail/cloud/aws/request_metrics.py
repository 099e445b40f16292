"""Counts and times requests to AWS with the metric names of the AWS SDK for Go, by hooks of botocore.

botocore emits `before-call` once per request, `request-created` and `response-received` once per attempt, and at the
end `after-call`, or `after-call-error` if no response came. One dictionary, `context`, passes through all of them.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from dovetail.ports.metrics import Metrics

_STARTED, _ATTEMPTED, _ATTEMPTS = "dovetail_started", "dovetail_attempted", "dovetail_attempts"


class RequestMetrics:
    """Measures the requests of one client."""

    def __init__(self, client: Any, metrics: Metrics) -> None:
        self._metrics = metrics
        self._service = str(client.meta.service_model.service_id)
        hooks = {
            "before-call": self._started,
            "request-created": self._attempted,
            "response-received": self._responded,
            "after-call": self._ended,
            "after-call-error": self._ended,
        }
        for event, hook in hooks.items():
            client.meta.events.register(event, hook)

    def _started(self, context: dict[str, Any], **_others: Any) -> None:
        context[_STARTED], context[_ATTEMPTS] = _now(), 0

    def _attempted(self, request: Any, **_others: Any) -> None:
        context = request.context
        context[_ATTEMPTED], context[_ATTEMPTS] = _now(), context.get(_ATTEMPTS, 0) + 1

    def _responded(
        self, context: Mapping[str, Any], event_name: str, parsed_response: Any, exception: Any, **_others: Any
    ) -> None:
        labels = self._labels(event_name, parsed_response, exception)
        self._metrics.count("aws_sdk_go_request_attempt_total", **labels)
        took = _now() - context.get(_ATTEMPTED, _now())
        self._metrics.observe("aws_sdk_go_request_attempt_duration_seconds", took, **labels)

    def _ended(
        self, context: Mapping[str, Any], event_name: str, parsed: Any = None, exception: Any = None, **_others: Any
    ) -> None:
        labels = self._labels(event_name, parsed, exception)
        self._metrics.count("aws_sdk_go_request_total", **labels)
        took = _now() - context.get(_STARTED, _now())
        self._metrics.observe("aws_sdk_go_request_duration_seconds", took, **labels)
        retries = max(0.0, context.get(_ATTEMPTS, 1) - 1.0)
        self._metrics.observe("aws_sdk_go_request_retry_count", retries, **labels)

    def _labels(self, event_name: str, parsed: Any, exception: Any) -> dict[str, str]:
        """Return the labels; an event is named `EVENT.SERVICE.ACTION`."""
        error = (parsed or {}).get("Error", {}).get("Code", "")
        code = type(exception).__name__ if exception is not None else error
        return {"service": self._service, "action": event_name.rpartition(".")[2], "code": code}


def _now() -> float:
    return asyncio.get_running_loop().time()
