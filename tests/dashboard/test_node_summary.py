"""Tiles and details of nodes: correct values, and no labels that may contain secrets."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from acceptance.fleet import cluster, running, worker
from builders import NOON, nodepool
from dovetail import dashboard
from dovetail.cli.view.plan import plan_document
from dovetail.core.disruption.planner import plan_disruption
from dovetail.dashboard.nodes import NodeSummaries, is_shown, node_details, state_of, summary_of
from dovetail.dashboard.waiting_for import reasons_in_plan
from dovetail.model.refusal import RefusalCode
from dovetail.model.snapshot import ClusterNode


def tiles_of(snapshot):
    said = reasons_in_plan(plan_document(plan_disruption(snapshot, thorough=True), snapshot))
    return NodeSummaries().of(snapshot, said)


def cordoned(each):
    node = structs.replace(each.node, spec=structs.replace(each.node.spec, unschedulable=True))
    return ClusterNode(node, each.claim)


def test_every_refusal_code_has_a_short_name_on_the_page():
    text = (Path(dashboard.__file__).parent / "static" / "labels.js").read_text()
    named = dict(re.findall(r'(\w+): "([^"]+)"', text))
    assert named.keys() == {code.value for code in RefusalCode} | {"Next"}
    assert len({*named.values()}) >= len(named) - 2  # a node being disrupted has two codes


def test_a_tile_has_the_properties_and_requests_of_the_node():
    tile = tiles_of(cluster(worker("a", running("x", "a", cpu="1500m"), type_="m.large")))["a"]
    assert (tile["pool"], tile["type"], tile["capacity"], tile["zone"]) == ("default", "m.large", "on-demand", "zone-a")
    assert (tile["state"], tile["price"]) == ("Ready", 1.0)
    assert tile["cpu"] == [1.5, 4.0]
    assert tile["memory"] == [2**30, 16 * 2**30]
    assert tile["pods"][0] == 1


def test_a_tile_has_the_reason_of_the_plan():
    budget = {"budgets": [{"nodes": "1"}]}
    found = tiles_of(cluster(worker("a"), worker("b"), pools=[nodepool(disruption=budget)]))
    assert found["a"]["because"] == "Empty: would be deleted in the next pass"
    assert found["a"]["code"] == "Next"
    assert found["b"]["code"] == "Budget"
    assert found["b"]["because"] == "budget '1' of NodePool default allows 1 node, taken by 1 other first"
    assert found["b"]["by"] == "emptiness"


@pytest.mark.parametrize(
    ("node", "state"),
    [
        (worker("a"), "Ready"),
        (worker("a", labels={"karpenter.sh/initialized": "false"}), "NotReady"),
        (worker("a", labels={"karpenter.sh/registered": "false"}), "Registering"),
        (ClusterNode(None, worker("a").claim), "Lost"),
        (ClusterNode(worker("a").node, None), "Ready"),
        (cordoned(worker("a")), "Cordoned"),
        (cordoned(worker("a", labels={"karpenter.sh/registered": "false"})), "Registering"),
    ],
)
def test_the_state_is_one_word(node, state):
    assert state_of(node) == state


def test_the_cost_counts_only_managed_nodes():
    snapshot = cluster(worker("a"), worker("b"), ClusterNode(worker("c").node, None))
    summary = summary_of(snapshot, NodeSummaries().of(snapshot, {}).values())
    assert (summary["nodes"], summary["costPerHour"]) == (3, 2.0)
    assert summary["pools"] == [{"name": "default", "nodes": 2, "costPerHour": 2.0}]


def test_an_unchanged_node_is_summarized_once_but_its_reason_is_updated():
    snapshot = cluster(worker("a"))
    tiles = NodeSummaries()
    first = tiles.of(snapshot, {"a": {"because": "one"}})["a"]
    second = tiles.of(snapshot, {"a": {"because": "two"}})["a"]
    assert first["cpu"] is second["cpu"]
    assert (first["because"], second["because"]) == ("one", "two")


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("karpenter.sh/nodepool", True),
        ("node.kubernetes.io/instance-type", True),
        ("karpenter.k8s.aws/instance-family", True),
        ("vault.example.com/token", False),
        ("evil-karpenter.sh/token", False),
        ("plain", False),
        ("kubectl.kubernetes.io/last-applied-configuration", False),
    ],
)
def test_only_labels_and_annotations_of_known_domains_are_shown(key, shown):
    assert is_shown(key) is shown


def test_details_leave_out_labels_of_other_domains():
    node = worker("a", labels={"vault.example.com/token": "s3cr3t"})
    assert "s3cr3t" not in str(node_details(node, cluster(node)))


def test_protected_pods_have_the_end_of_their_protection():
    shield = {"annotations": {"karpenter.sh/do-not-disrupt": "1h"}, "creationTimestamp": "2026-01-05T11:30:00Z"}
    node = worker("a", running("x", "a", metadata=shield))
    (pod,) = node_details(node, cluster(node, at=NOON))["pods"]
    ends = NOON + timedelta(minutes=30)
    assert (pod["protected"], pod["protectedUntil"]) == (True, f"{ends:%Y-%m-%dT%H:%M:%SZ}")
