"""The alert rules and the dashboard speak only of metrics and labels that exist."""

import json
import re
from pathlib import Path

import pytest
import yaml

from dovetail.observe.metric_declaration import MetricKind
from dovetail.observe.metric_table import METRICS

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [rule["expr"] for rule in RULES] + [target["expr"] for panel in PANELS for target in panel["targets"]]
PREFIXES = ("karpenter_", "dovetail_", "operator_", "workqueue_", "controller_runtime_", "leader_election_")
SERIES = {
    name: metric
    for metric in METRICS.values()
    for name in (
        [f"{metric.name}_{end}" for end in ("bucket", "sum", "count")]
        if metric.kind is MetricKind.HISTOGRAM
        else [metric.name]
    )
}


def named(query):
    """Every metric in a query, with the labels it is chosen by."""
    without_strings = re.sub(r'"[^"]*"', '""', query)
    for match in re.finditer(r"\b([a-z][a-z0-9_]+)\b(?:\{([^}]*)\})?", without_strings):
        if match[1].startswith(PREFIXES):
            yield match[1], re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", match[2] or "")


@pytest.mark.parametrize("query", QUERIES)
def test_every_metric_in_a_query_is_declared_with_its_labels(query):
    found = list(named(query))
    assert found
    for name, labels in found:
        assert name in SERIES
        assert set(labels) <= {*SERIES[name].labels, *(["quantile"] if SERIES[name].kind is MetricKind.SUMMARY else [])}


@pytest.mark.parametrize("query", QUERIES)
def test_counters_are_asked_for_their_growth_and_brackets_match(query):
    for name, _ in named(query):
        if SERIES[name].kind not in (MetricKind.GAUGE, MetricKind.SUMMARY):
            assert re.search(rf"(rate|increase)\({name}[^)]*\[", query)
    assert all(query.count(opening) == query.count(closing) for opening, closing in ("()", "{}", "[]"))


def test_every_alert_says_what_is_wrong_and_how_bad_it_is():
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    for rule in RULES:
        assert rule["labels"]["severity"] in {"page", "ticket", "info"}
        assert set(rule["annotations"]) == {"summary", "description"}


def test_panels_have_their_own_ids_and_places():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert len(places) == len(set(places))
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in PANELS)


def test_what_is_alerted_about_can_be_found_in_the_dashboard():
    """All but what only the process itself is about."""
    shown = {name for panel in PANELS for target in panel["targets"] for name, _ in named(target["expr"])}
    silent = {name for rule in RULES for name, _ in named(rule["expr"])} - shown
    assert silent <= {
        "karpenter_build_info",
        "karpenter_cluster_state_synced",
        "dovetail_cache_stale",
        "dovetail_ledger_failing",
        "dovetail_metrics_rejected_total",
        "dovetail_disruption_unevaluated_nodes",
        "dovetail_nodepools_unpriced_nodes",
        "operator_nodepool_status_condition_count",
        "operator_ec2nodeclass_status_condition_count",
        "karpenter_nodeclaims_unhealthy_disrupted_total",
    }
