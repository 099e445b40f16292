"""What the process tells over HTTP, asked over real HTTP."""

import asyncio
import socket

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dovetail.observe.endpoints import Endpoints, PortUnusable
from dovetail.observe.metrics import PrometheusMetrics


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def endpoints(metrics_port=0, probe_port=0, missing=(), broken=False):
    metrics = PrometheusMetrics(strict=True)

    async def refresh():
        metrics.show("karpenter_cluster_state_node_count", {(): 7.0})
        if broken:
            raise RuntimeError("cannot be refreshed")

    return Endpoints(
        metrics_port=metrics_port,
        probe_port=probe_port,
        refresh=refresh,
        render=metrics.render,
        missing=lambda: list(missing),
    )


def fetched(served, *urls):
    async def main():
        async with served.served(), aiohttp.ClientSession() as session:
            answers = []
            for url in urls:
                async with session.get(url) as answer:
                    answers.append((answer.status, answer.headers["Content-Type"], await answer.text()))
            return answers

    return asyncio.run(main())


def test_prometheus_reads_what_is_scraped():
    port = free_port()
    ((status, content_type, text),) = fetched(endpoints(metrics_port=port), f"http://127.0.0.1:{port}/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert status == 200
    assert content_type.startswith("text/plain; version=0.0.4")
    assert families["karpenter_cluster_state_node_count"].samples[0].value == 7.0


def test_ready_once_nothing_is_missing_and_alive_all_the_while():
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    starting = endpoints(probe_port=port, missing=["pods are not listed yet"])
    (alive, ready) = fetched(starting, f"{base}/healthz", f"{base}/readyz")
    assert alive[0] == 200
    assert (ready[0], ready[2]) == (503, "pods are not listed yet\n")
    assert fetched(endpoints(probe_port=port), f"{base}/readyz")[0][0] == 200


def test_probes_do_not_answer_where_metrics_are_served_unless_the_port_is_the_same():
    one, two = free_port(), free_port()
    apart = fetched(endpoints(one, two), f"http://127.0.0.1:{one}/readyz", f"http://127.0.0.1:{two}/metrics")
    assert [status for status, _, _ in apart] == [404, 404]
    both = fetched(endpoints(one, one), f"http://127.0.0.1:{one}/readyz", f"http://127.0.0.1:{one}/metrics")
    assert [status for status, _, _ in both] == [200, 200]


@pytest.mark.parametrize(
    ("ports", "flag"),
    [
        (lambda port: {"metrics_port": port}, "--metrics-port (METRICS_PORT)"),
        (lambda port: {"probe_port": port}, "--health-probe-port (HEALTH_PROBE_PORT)"),
    ],
)
def test_a_port_in_use_names_the_flag(ports, flag):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortUnusable) as refused:
            fetched(endpoints(**ports(port)))
    assert f"port {port} cannot be used" in str(refused.value)
    assert flag in str(refused.value)


def test_figures_that_cannot_be_refreshed_are_served_as_they_were(caplog):
    port = free_port()
    answers = fetched(endpoints(metrics_port=port, broken=True), f"http://127.0.0.1:{port}/metrics")
    assert answers[0][0] == 200
    assert "metrics not refreshed" in caplog.messages


def test_port_0_serves_nothing():
    assert fetched(endpoints()) == []
