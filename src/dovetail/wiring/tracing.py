"""Opens the tracer that the settings and the standard variables of OpenTelemetry select.

`--otlp-endpoint` (OTEL_EXPORTER_OTLP_ENDPOINT) is the base URL of a collector. OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, if
set, is the whole URL for traces and takes precedence. Without both, nothing is traced and nothing is imported.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dovetail.ports.clock import Clock
from dovetail.ports.tracing import NoTracer, Tracer
from dovetail.settings import Settings

log = logging.getLogger(__name__)
_HTTP = frozenset({"", "http/protobuf"})


class TracingUnusable(Exception):
    """Traces are requested, but cannot be exported."""


def traces_endpoint(settings: Settings, variables: Mapping[str, str]) -> str:
    """Return the URL that traces are sent to; empty if there are none."""
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true" or variables.get("OTEL_TRACES_EXPORTER") == "none":
        return ""
    base = settings.otlp_endpoint.rstrip("/")
    return variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "") or (f"{base}/v1/traces" if base else "")


@contextmanager
def open_tracer(settings: Settings, clock: Clock, variables: Mapping[str, str]) -> Iterator[Tracer]:
    """Open the tracer; what is queued is exported at the end of the context."""
    endpoint = traces_endpoint(settings, variables)
    if not endpoint:
        yield NoTracer()
        return
    try:
        from dovetail.observe.otlp_tracer import OtlpTracer, otlp_exporter  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise TracingUnusable(
            f"traces to {endpoint} (--otlp-endpoint) need {error.name}; pip install 'dovetail[otel]', or unset"
            " OTEL_EXPORTER_OTLP_ENDPOINT"
        ) from error
    protocol = variables.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or variables.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    if protocol not in _HTTP:
        log.warning("traces are sent as http/protobuf", extra={"protocol": protocol, "endpoint": endpoint})
    tracer = OtlpTracer(otlp_exporter(endpoint), clock)
    log.info("traces are exported", extra={"endpoint": endpoint})
    try:
        yield tracer
    finally:
        tracer.close()
