"""Traces over OTLP/HTTP, with the OpenTelemetry SDK. Needs the extra `dovetail[otel]`.

The trace ID of a decision begins with the twelve digits of the decision's id; span IDs of its root and parts are
derived as well (`SpanRef`). All other ids are random. Spans carry the time of the injected clock.

A bounded queue and a thread of the SDK export spans in batches: if the collector does not answer, the oldest spans are
dropped, and no controller waits. A failure is logged once, until an export succeeds again. The standard variables of
the SDK apply: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_EXPORTER_OTLP_*.
"""

import hashlib
import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import SpanContext, TraceFlags

from dovetail.ports.clock import Clock
from dovetail.ports.tracing import Attribute, SpanRef

log = logging.getLogger(__name__)
PREFIX = "dovetail."
"""Of the names of all attributes."""
_DECISION_ID = re.compile(r"[0-9a-f]{12}")
_EXPORTER_LOGGER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_QUEUE_LOGGER = "opentelemetry.sdk._shared_internal"


def trace_id(decision: str) -> str:
    """Return the trace ID of a decision: its id, and twenty digits of a digest."""
    digest = hashlib.sha256(f"trace {decision}".encode()).hexdigest()
    return decision + digest[:20] if _DECISION_ID.fullmatch(decision) else digest[:32]


def _span_id(ref: SpanRef) -> str:
    return hashlib.sha256(f"span {ref.decision} {ref.part}".encode()).hexdigest()[:16]


class OtlpTracer:
    """Implements `ports.tracing.Tracer`. Used from one thread; `close` exports what is queued."""

    enabled = True

    def __init__(self, exporter: SpanExporter, clock: Clock) -> None:
        self._clock = clock
        self._ids = _Ids()
        self._provider = TracerProvider(resource=_resource(), id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_LoggedExporter(exporter)))
        self._tracer = self._provider.get_tracer("dovetail", version("dovetail"))

    @contextmanager
    def span(self, name: str, under: SpanRef | None = None, /, **attributes: Attribute) -> "Iterator[_OpenSpan]":
        """Record the block as a span."""
        parent = None if under is None else _below(self.context_of(under))
        started = self._tracer.start_span(
            name, parent, attributes=_flat(attributes), start_time=_nanoseconds(self._clock.now())
        )
        span = _OpenSpan(started, self)
        try:
            with trace.use_span(started, record_exception=False, set_status_on_exception=False):
                yield span
        except BaseException as error:
            span.fail(str(error) or type(error).__name__)
            raise
        finally:
            started.end(_nanoseconds(self._clock.now()))

    def record(
        self, name: str, period: tuple[datetime, datetime], ref: SpanRef | None = None, /, **attributes: Attribute
    ) -> None:
        """Record a span that has ended."""
        parent: Context | None = None
        if ref is not None:
            own = self.context_of(ref)
            parent = _below(self.context_of(ref.parent)) if ref.part else Context()
            self._ids.planned = (own.trace_id, own.span_id)
        began, ended = map(_nanoseconds, period)
        error = attributes.pop("error", "")
        try:
            started = self._tracer.start_span(name, parent, attributes=_flat(attributes), start_time=began)
        finally:
            self._ids.planned = None
        if error:
            _OpenSpan(started, self).fail(str(error))
        started.end(max(began, ended))

    def log_fields(self, decision: str, /) -> Mapping[str, str]:
        """Return the trace ID, unless the sampler drops the trace."""
        context = self.context_of(SpanRef(decision))
        return {"trace_id": trace_id(decision)} if context.trace_flags.sampled else {}

    def flush(self) -> None:
        """Export what is queued now, and wait for it."""
        self._provider.force_flush()

    def close(self, within: float = 5.0) -> None:
        """Export what is queued, for at most this many seconds."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(within)

    def context_of(self, ref: SpanRef) -> SpanContext:
        """Return the ids of a span of a decision. Samplers decide by the trace ID: every process comes to the same."""
        number = int(trace_id(ref.decision), 16)
        sampled = self._provider.sampler.should_sample(Context(), number, "").decision is not Decision.DROP
        flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
        return SpanContext(number, int(_span_id(ref), 16), is_remote=False, trace_flags=flags)


class _OpenSpan:
    """Implements `ports.tracing.TraceSpan`."""

    def __init__(self, span: trace.Span, tracer: OtlpTracer) -> None:
        self._span = span
        self._tracer = tracer

    def set(self, **attributes: Attribute) -> None:
        self._span.set_attributes(_flat(attributes))

    def link(self, ref: SpanRef) -> None:
        self._span.add_link(self._tracer.context_of(ref))

    def fail(self, why: str) -> None:
        self._span.set_status(trace.StatusCode.ERROR, why)


class _Ids(RandomIdGenerator):
    """Random ids, or those planned for the next span."""

    def __init__(self) -> None:
        self.planned: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        return self.planned[0] if self.planned is not None else super().generate_trace_id()

    def generate_span_id(self) -> int:
        return self.planned[1] if self.planned is not None else super().generate_span_id()


class _LoggedExporter(SpanExporter):
    """Logs when exports begin to fail and when they succeed again; the SDK would log every attempt."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._failing = False
        self._lost = 0
        self._last_words = _LastWords()
        _replace_filter(_EXPORTER_LOGGER, self._last_words)
        _replace_filter(_QUEUE_LOGGER, _FirstOnly())

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - an exporter must not end its thread
            self._last_words.text = f"{type(error).__name__}: {error}"
            result = SpanExportResult.FAILURE
        failed = result is not SpanExportResult.SUCCESS
        self._lost += len(spans) if failed else 0
        if failed and not self._failing:
            log.warning("traces cannot be exported", extra={"why": self._last_words.text})
        elif self._failing and not failed:
            log.info("traces are exported again", extra={"lost_spans": self._lost})
            self._lost = 0
        self._failing = failed
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _LastWords(logging.Filter):
    """Keeps the last message of a logger, and drops all of them."""

    text = ""

    def filter(self, record: logging.LogRecord) -> bool:
        self.text = record.getMessage()
        return False


class _FirstOnly(logging.Filter):
    """Lets one message pass."""

    passed = False

    def filter(self, _record: logging.LogRecord) -> bool:
        first, self.passed = not self.passed, True
        return first


def _replace_filter(logger: str, added: logging.Filter) -> None:
    """Add a filter, in place of that of an earlier tracer."""
    target = logging.getLogger(logger)
    for each in [each for each in target.filters if isinstance(each, _LastWords | _FirstOnly)]:
        target.removeFilter(each)
    target.addFilter(added)


def otlp_exporter(endpoint: str) -> SpanExporter:
    """Return an exporter to this URL."""
    return OTLPSpanExporter(endpoint=endpoint)


def _resource() -> Resource:
    own = {SERVICE_NAME: "dovetail", SERVICE_VERSION: version("dovetail")}
    return Resource.create(own).merge(OTELResourceDetector().detect())  # the environment wins


def _below(context: SpanContext) -> Context:
    return trace.set_span_in_context(trace.NonRecordingSpan(context), Context())


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000


def _flat(attributes: Mapping[str, Attribute]) -> dict[str, str | bool | int | float | Sequence[str]]:
    flat: dict[str, str | bool | int | float | Sequence[str]] = {}
    for name, value in attributes.items():
        if isinstance(value, Mapping):
            flat.update((f"{PREFIX}{name}.{key}", number) for key, number in value.items())
        else:
            flat[PREFIX + name] = value
    return flat
