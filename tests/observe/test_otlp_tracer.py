"""Traces reach a collector as OTLP, follow the standard variables, and a collector that fails disturbs nothing."""

import asyncio
import logging
import re
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from dovetail.observe.otlp_tracer import OtlpTracer, otlp_exporter, trace_id
from dovetail.ports.tracing import NoTracer, SpanRef
from dovetail.settings import Settings, read_environment
from dovetail.wiring.tracing import TracingUnusable, open_tracer
from otlp_receiver import otlp_receiver

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
NANOSECONDS = 10**9


class Clock:
    """A second passes at each look."""

    def __init__(self):
        self.at = NOON

    def now(self):
        self.at += timedelta(seconds=1)
        return self.at


def exported(work, variables=None, status=200):
    """What a collector receives of some work with a tracer."""
    with otlp_receiver() as received:
        received.status = status
        settings = Settings(otlp_endpoint=received.url)
        with open_tracer(settings, Clock(), variables or {}) as tracer:
            work(tracer)
    return received


def test_spans_arrive_with_times_attributes_and_parents():
    def work(tracer):
        with tracer.span("pass", None, nodes=3, reason="Empty", nodepools=["a", "b"]) as span:
            with tracer.span("snapshot"):
                pass
            span.set(refusals={"Budget": 2, "Pdb": 1}, cost=0.5, whole=True)

    received = exported(work)
    assert received.requests == [("/v1/traces", "application/x-protobuf")]
    span = received.one("pass")
    assert received.tree(span) == {"pass": ["snapshot"]}
    assert span.attributes == {
        "dovetail.nodes": 3,
        "dovetail.reason": "Empty",
        "dovetail.nodepools": ["a", "b"],
        "dovetail.refusals.Budget": 2,
        "dovetail.refusals.Pdb": 1,
        "dovetail.cost": 0.5,
        "dovetail.whole": True,
    }
    noon = int(NOON.timestamp())
    assert (span.began, span.ended) == ((noon + 1) * NANOSECONDS, (noon + 4) * NANOSECONDS)


def test_a_span_of_the_past_is_below_the_current_one():
    def work(tracer):
        with tracer.span("pass"):
            tracer.record("method", (NOON, NOON + timedelta(seconds=2)), None, commands=0)

    received = exported(work)
    assert received.tree(received.one("pass")) == {"pass": ["method"]}
    assert received.one("method").began == int(NOON.timestamp()) * NANOSECONDS


def test_processes_that_share_a_decision_add_to_the_same_trace():
    decision = SpanRef("0123456789ab")

    def first(tracer):
        with tracer.span("commit", decision):
            pass

    def second(tracer):
        tracer.record("drain", (NOON, NOON), decision.step("remove").step("drain"))
        tracer.record("remove", (NOON, NOON), decision.step("remove"))
        tracer.record("command", (NOON, NOON), decision)

    with otlp_receiver() as received:
        for work in (first, second):
            with open_tracer(Settings(otlp_endpoint=received.url), Clock(), {}) as tracer:
                work(tracer)
    root = received.one("command")
    assert root.trace_id == trace_id("0123456789ab")
    assert received.tree(root) in (
        {"command": [{"remove": ["drain"]}, "commit"]},
        {"command": ["commit", {"remove": ["drain"]}]},
    )


def test_the_trace_id_begins_with_the_id_of_the_decision():
    assert re.fullmatch(r"0123456789ab[0-9a-f]{20}", trace_id("0123456789ab"))
    assert re.fullmatch(r"[0-9a-f]{32}", trace_id("written by a user"))
    assert trace_id("0123456789ab") != trace_id("0123456789ac")


def test_an_error_marks_the_span_and_is_passed_on():
    def work(tracer):
        with pytest.raises(ValueError, match="no capacity"), tracer.span("launch"):
            raise ValueError("no capacity")

    assert exported(work).one("launch").error == "no capacity"


def test_concurrent_tasks_have_their_own_current_span():
    def work(tracer):
        async def outer(name):
            with tracer.span(name):
                await asyncio.sleep(0)
                with tracer.span(f"inside {name}"):
                    await asyncio.sleep(0)

        async def main():
            with tracer.span("pass"):
                await asyncio.gather(outer("a"), outer("b"))

        asyncio.run(main())

    received = exported(work)
    assert received.tree(received.one("pass")) == {"pass": [{"a": ["inside a"]}, {"b": ["inside b"]}]}


def test_the_service_is_dovetail_unless_the_environment_names_it(monkeypatch):
    def work(tracer):
        with tracer.span("pass"):
            pass

    (resource,) = exported(work).resources
    assert resource["service.name"] == "dovetail"
    assert resource["service.version"]
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nodes-of-prod")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=prod")
    (resource,) = exported(work).resources
    assert (resource["service.name"], resource["k8s.cluster.name"]) == ("nodes-of-prod", "prod")


def test_a_sampler_drops_whole_traces(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    decisions = [f"{number:012x}" for number in range(64)]
    logged = {}

    def work(tracer):
        for each in decisions:
            with tracer.span("commit", SpanRef(each)):
                pass
            tracer.record("command", (NOON, NOON), SpanRef(each))
            logged[each] = tracer.log_fields(each)

    received = exported(work)
    roots = {each.trace_id for each in received.named("command")}
    assert 8 < len(roots) < 56
    assert roots == {each.trace_id for each in received.named("commit")}
    assert roots == {fields["trace_id"] for fields in logged.values() if fields}


def quick_spans(tracer, number=5):
    for _ in range(number):
        with tracer.span("pass"):
            pass


def test_a_collector_that_is_away_is_logged_once_and_costs_the_caller_no_time(caplog, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}/v1/traces"
        tracer = OtlpTracer(otlp_exporter(endpoint), Clock())
        began = time.monotonic()
        quick_spans(tracer, 2000)
        assert time.monotonic() - began < 2
        tracer.close()
    failures = [each for each in caplog.records if each.getMessage() == "traces cannot be exported"]
    assert len(failures) == 1
    assert failures[0].why
    assert len([each for each in caplog.records if each.name.startswith("opentelemetry")]) <= 1  # a full queue


class Scripted(SpanExporter):
    """Exports succeed, fail or raise as the script says."""

    def __init__(self, script):
        self.script = list(script)

    def export(self, _spans):
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SpanExportResult.SUCCESS if answer else SpanExportResult.FAILURE


def test_failures_are_logged_when_they_begin_and_when_they_end(caplog):
    caplog.set_level(logging.INFO)
    tracer = OtlpTracer(Scripted([False, OSError("reset"), False, True, True, OSError("again")]), Clock())
    for _ in range(6):
        quick_spans(tracer)
        tracer.flush()
    tracer.close()
    lines = [(each.getMessage(), getattr(each, "lost_spans", None)) for each in caplog.records]
    assert lines == [
        ("traces cannot be exported", None),
        ("traces are exported again", 15),
        ("traces cannot be exported", None),
    ]
    assert caplog.records[-1].why == "OSError: again"


def test_a_collector_that_refuses_is_no_error_for_the_caller(caplog):
    received = exported(quick_spans, status=400)
    assert received.requests
    (line,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert line.getMessage() == "traces cannot be exported"
    assert "400" in line.why


@pytest.mark.parametrize(
    "variables",
    [{}, {"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}],
    ids=lambda each: ",".join(each) or "unset",
)
def test_without_an_endpoint_or_when_disabled_nothing_is_traced(variables):
    settings = Settings(otlp_endpoint="http://127.0.0.1:1" if variables else "")
    with open_tracer(settings, Clock(), variables) as tracer:
        assert isinstance(tracer, NoTracer)


def test_the_endpoint_for_traces_is_a_whole_url():
    with otlp_receiver() as received:
        variables = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{received.url}/ingest/otlp"}
        with open_tracer(Settings(otlp_endpoint="http://127.0.0.1:1"), Clock(), variables) as tracer:
            quick_spans(tracer)
    assert received.requests == [("/ingest/otlp", "application/x-protobuf")]


def test_the_standard_variable_is_the_setting():
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    assert read_environment({}, variables)[0].otlp_endpoint == "http://collector:4318"
    assert read_environment({"otlp_endpoint": "http://other:4318"}, variables)[0].otlp_endpoint == "http://other:4318"
    with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        read_environment({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"})


def test_another_protocol_is_logged(caplog):
    with open_tracer(Settings(otlp_endpoint="http://127.0.0.1:1"), Clock(), {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}):
        pass
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [(each.getMessage(), each.protocol) for each in warnings] == [("traces are sent as http/protobuf", "grpc")]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("dovetail.observe.otlp_tracer")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with (
        pytest.raises(TracingUnusable, match=r"pip install 'dovetail\[otel\]'"),
        open_tracer(Settings(otlp_endpoint="http://127.0.0.1:1"), Clock(), {}),
    ):
        pass


def test_what_does_not_trace_does_not_import_the_sdk():
    program = (
        "import sys, dovetail.wiring.live, dovetail.wiring.embedded;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
