"""Figures: only what is declared, in the declared order, and never more series than a metric may have."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dovetail.observe import metrics as observed
from dovetail.observe.metric_declaration import MetricKind
from dovetail.observe.metric_table import METRICS
from dovetail.observe.metrics import PrometheusMetrics
from dovetail.ports.metrics import label_text

ROOT = Path(__file__).parents[2]
CREATED = "karpenter_nodeclaims_created_total"
LIMIT = "karpenter_nodepools_limit"


def samples(metrics):
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value for family in families for each in family.samples
    }


def test_a_count_adds_up_under_its_labels():
    metrics = PrometheusMetrics(strict=True)
    metrics.count(CREATED, reason="provisioning", nodepool="a", min_values_relaxed="false")
    metrics.count(CREATED, 2, min_values_relaxed="false", nodepool="a", reason="provisioning")
    labels = (("min_values_relaxed", "false"), ("nodepool", "a"), ("reason", "provisioning"))
    assert samples(metrics)[CREATED, labels] == 3


def test_a_histogram_has_the_declared_buckets():
    metrics = PrometheusMetrics(strict=True)
    metrics.observe("karpenter_pods_bound_duration_seconds", 0.2)
    found = {
        dict(labels)["le"]
        for name, labels in samples(metrics)
        if name == "karpenter_pods_bound_duration_seconds_bucket"
    }
    assert found == {*map(str, METRICS["karpenter_pods_bound_duration_seconds"].buckets), "+Inf"}


def test_a_gauge_forgets_what_is_not_shown_again():
    metrics = PrometheusMetrics(strict=True)
    metrics.show(LIMIT, {("a", "cpu"): 1.0, ("b", "cpu"): 2.0})
    metrics.show(LIMIT, {("b", "cpu"): 3.0})
    assert {key: value for key, value in samples(metrics).items() if key[0] == LIMIT} == {
        (LIMIT, (("nodepool", "b"), ("resource_type", "cpu"))): 3.0
    }


@pytest.mark.parametrize(
    "wrong",
    [
        lambda metrics: metrics.count("karpenter_no_such_total"),
        lambda metrics: metrics.count(CREATED, nodepool="a"),
        lambda metrics: metrics.count(CREATED, reason="", nodepool="a", min_values_relaxed="", more=""),
        lambda metrics: metrics.count(LIMIT, nodepool="a", resource_type="cpu"),
        lambda metrics: metrics.observe(CREATED, 1.0, reason="", nodepool="a", min_values_relaxed=""),
        lambda metrics: metrics.show(LIMIT, {("a",): 1.0}),
        lambda metrics: metrics.show("no_such_gauge", {}),
    ],
)
def test_what_is_not_declared_raises_in_tests_and_is_only_counted_in_production(wrong, caplog):
    with pytest.raises(AssertionError, match="does not match its declaration"):
        wrong(PrometheusMetrics(strict=True))
    metrics = PrometheusMetrics()
    wrong(metrics)
    wrong(metrics)
    assert samples(metrics)["dovetail_metrics_rejected_total", ()] == 2
    assert len(caplog.records) == 1


def test_beyond_its_number_of_series_a_metric_gathers_the_rest_as_other(monkeypatch):
    monkeypatch.setattr(observed, "METRICS", {**METRICS, CREATED: replace(METRICS[CREATED], most=5)})
    metrics = PrometheusMetrics(strict=True)
    for number in range(1000):
        metrics.count(CREATED, reason=f"r{number}", nodepool="a", min_values_relaxed="false")
    rows = {dict(labels)["reason"]: value for (name, labels), value in samples(metrics).items() if name == CREATED}
    assert rows == {**{f"r{number}": 1 for number in range(5)}, "other": 995}
    assert samples(metrics)["dovetail_metrics_overflowed_total", ()] == 995


def test_beyond_its_number_of_series_a_gauge_is_cut(monkeypatch):
    monkeypatch.setattr(observed, "METRICS", {**METRICS, LIMIT: replace(METRICS[LIMIT], most=5)})
    metrics = PrometheusMetrics(strict=True)
    metrics.show(LIMIT, {(f"pool-{number}", "cpu"): 1.0 for number in range(20)})
    assert sum(name == LIMIT for name, _ in samples(metrics)) == 5


def test_names_are_as_prometheus_wants_them():
    for metric in METRICS.values():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
        assert metric.help.endswith(".")
        assert (metric.kind is MetricKind.COUNTER) <= metric.name.endswith("_total")
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in metric.labels)
        assert not {"pod", "uid"} & set(metric.labels)
        per_object = {"name", "namespace"} & set(metric.labels)
        assert not per_object or metric.kind is MetricKind.GAUGE or metric.name.startswith(("workqueue", "leader"))


def test_nothing_is_declared_that_nobody_measures():
    tables = {"metric_table.py", "library_metrics.py"}
    sources = [path for path in (ROOT / "src").rglob("*.py") if path.name not in tables]
    text = "".join(path.read_text() for path in sources)
    patterns = [re.sub(r"\\{[^}]*\\}", "[a-z0-9_]+", re.escape(each)) for each in re.findall(r'f"([a-z_{}]+)"', text)]
    patterns = [each for each in patterns if each.startswith(("karpenter_", "operator_", "controller_runtime_"))]
    silent = {
        name for name in METRICS if f'"{name}"' not in text and not any(re.fullmatch(each, name) for each in patterns)
    }
    assert silent == set()


def test_a_summary_has_quantiles_of_the_last_ten_minutes_and_counts_for_good():
    now = 0.0
    metrics = PrometheusMetrics(strict=True, now=lambda: now)
    for seconds in (1.0, 2.0, 30.0):
        metrics.observe(TERMINATION, seconds, nodepool="a")
    now = 900.0
    metrics.observe(TERMINATION, 4.0, nodepool="a")
    found = samples(metrics)
    quantiles = {dict(labels).get("quantile"): value for (name, labels), value in found.items() if name == TERMINATION}
    assert quantiles == dict.fromkeys(("0", "0.5", "0.9", "0.99", "1"), 4.0)
    assert found[f"{TERMINATION}_count", (("nodepool", "a"),)] == 4
    assert found[f"{TERMINATION}_sum", (("nodepool", "a"),)] == 37


TERMINATION = "karpenter_nodes_termination_duration_seconds"


def test_labels_that_are_formatted_once_must_be_declared_too():
    metrics = PrometheusMetrics(strict=True)
    metrics.show(ALLOCATABLE, {(label_text({"node_name": "a", "zone": ""}), "cpu"): 2.0})
    assert samples(metrics)[ALLOCATABLE, (("node_name", "a"), ("resource_type", "cpu"))] == 2
    with pytest.raises(AssertionError, match="does not match its declaration"):
        metrics.show(ALLOCATABLE, {(label_text({"node": "a"}), "cpu"): 2.0})
    with pytest.raises(AssertionError, match="does not match its declaration"):
        metrics.show(ALLOCATABLE, {(label_text({"resource_type": "memory"}), "cpu"): 2.0})


ALLOCATABLE = "karpenter_nodes_allocatable"
