"""The examples and tables of the v1beta1 disruption page."""

from datetime import UTC, datetime, timedelta

import pytest

from acceptance.fleet import (
    DO_NOT_DISRUPT,
    LEAVING,
    ON_DEMAND,
    SPOT,
    cluster,
    drifted,
    free,
    pdb,
    planned,
    running,
    said,
    shielded,
    taken,
    worker,
)
from builders import LARGE, NOON, SMALL, instance_type, nodepool
from dovetail.core import wording
from dovetail.core.disruption.budgets import NodeCounts, allowance
from dovetail.core.disruption.drift import drift_reason
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.lifecycle.nodepool_hash import template_hash
from dovetail.model.reason import VOLUNTARY
from dovetail.settings import DecisionOptions

FIXED = [free(template=ON_DEMAND)]
THREE_BUDGETS = {
    "consolidationPolicy": "WhenUnderutilized",
    "expireAfter": "720h",
    "budgets": [{"nodes": "20%"}, {"nodes": "5"}, {"nodes": "0", "schedule": "@daily", "duration": "10m"}],
}


@pytest.mark.parametrize(
    ("total", "at", "limit"),
    [
        (19, (12, 0), 4),  # 3.8, rounded up
        (25, (12, 0), 5),
        (26, (12, 0), 5),  # 5.2 would be six; the second budget is the ceiling
        (100, (12, 0), 5),
        (1, (12, 0), 1),
        (19, (0, 0), 0),
        (19, (0, 9), 0),
        (19, (0, 10), 4),
        (100, (0, 5), 0),
        (19, (23, 59), 4),
    ],
)
def test_the_example_of_three_budgets(total, at, limit):
    pool = nodepool(disruption=THREE_BUDGETS)
    instant = datetime(2026, 1, 5, *at, tzinfo=UTC)
    for reason in VOLUNTARY:
        assert allowance(pool, reason, NodeCounts(total=total, disrupting=0), instant).limit == limit


@pytest.mark.parametrize(("total", "gone"), [(19, 4), (26, 5), (40, 5)])
def test_the_example_of_three_budgets_on_as_many_empty_nodes(total, gone):
    nodes = [worker(f"n{each:02}") for each in range(total)]
    assert len(taken(cluster(*nodes, pools=[nodepool(disruption=THREE_BUDGETS)]))) == gone
    midnight = datetime(2026, 1, 6, 0, 5, tzinfo=UTC)
    assert taken(cluster(*nodes, pools=[nodepool(disruption=THREE_BUDGETS)], at=midnight)) == []


def test_nodes_that_are_deleting_or_not_ready_use_up_the_budget():
    """allowed = roundup(19 x 20%) - 1 deleting - 2 not ready = 1."""
    going = {"metadata": {"name": "gone", "deletionTimestamp": "2026-01-05T11:00:00Z"}}
    nodes = [worker(f"n{each:02}") for each in range(16)]
    nodes += [worker("sick", ready=False), worker("sicker", ready=False), worker("gone", claim=going)]
    assert len(taken(cluster(*nodes, pools=[nodepool(disruption=THREE_BUDGETS)]))) == 1


def test_without_budgets_ten_percent_is_assumed():
    nodes = [worker(f"n{each:02}") for each in range(20)]
    assert len(taken(cluster(*nodes, pools=[nodepool()]))) == 2


def test_the_order_of_methods_one_acting_in_a_pass():
    assert [method.name for method in METHODS] == ["expiration", "drift", "emptiness", "multi-node", "single-node"]
    pools = [free("aged", expireAfter="1h"), free()]
    full = running("x", "b", cpu="3500m")
    nodes = [
        worker("a", pool="aged"),
        drifted("b", full),
        worker("c"),
        *(worker(n, running(f"p{n}", n)) for n in "def"),
    ]
    for method in ("expiration", "drift", "emptiness", "multi-node"):
        first = planned(cluster(*nodes, pools=pools, types=(LARGE,)))
        assert {name for name, _ in first} == {method}
        gone = {name for _, names in first for name in names}
        nodes = [each for each in nodes if each.name not in gone]


def test_consolidation_mechanism_1_empty_nodes_in_parallel():
    assert planned(cluster(*map(worker, "abc"))) == [("emptiness", ["a", "b", "c"])]


def test_consolidation_mechanism_2_several_nodes_with_a_single_cheaper_replacement():
    cheap = instance_type("m.bargain", "16", "64Gi", 0.9)
    nodes = [worker(name, running(f"p{name}", name, cpu="3500m")) for name in "abc"]
    (command,) = plan_disruption(cluster(*nodes, pools=FIXED, types=(LARGE, cheap))).commands
    assert (command.method, len(command.candidates), len(command.replacements)) == ("multi-node", 3, 1)


def test_consolidation_mechanism_3_a_single_node_deleted_or_replaced():
    deleted = cluster(
        worker("a", running("x", "a")), worker("b", running("y", "b", cpu="3")), pools=FIXED, types=(LARGE,)
    )
    replaced = cluster(worker("a", running("x", "a")), pools=FIXED, types=(SMALL, LARGE))
    assert [len(command.replacements) for command in plan_disruption(deleted).commands] == [0]
    assert [len(command.replacements) for command in plan_disruption(replaced).commands] == [1]


ONE = [free(template=ON_DEMAND, budgets=[{"nodes": "1"}])]


def test_candidate_preference_nodes_running_fewer_pods():
    nodes = worker("a", running("x", "a"), running("w", "a")), worker("b", running("y", "b", cpu="2"))
    assert taken(cluster(*nodes, pools=ONE, types=(LARGE,))) == ["b"]


def test_candidate_preference_nodes_that_will_expire_soon():
    life = {"spec": {"expireAfter": "720h"}}
    nodes = [
        worker("a", running("x", "a"), age=timedelta(hours=2), claim=life),
        worker("b", running("y", "b"), age=timedelta(hours=700), claim=life),
    ]
    assert taken(cluster(*nodes, pools=ONE, types=(LARGE,))) == ["b"]


def test_candidate_preference_nodes_that_will_expire_softly_soon():
    """A pool of this page writes its lifetime in the disruption block; its nodes' claims say nothing of it."""
    pools = [free(template=ON_DEMAND, expireAfter="720h", budgets=[{"nodes": "1"}])]
    claim = {"spec": {"expireAfter": "Never"}}
    nodes = [
        worker("a", running("x", "a"), age=timedelta(hours=2), claim=claim),
        worker("b", running("y", "b"), age=timedelta(hours=700), claim=claim),
    ]
    assert taken(cluster(*nodes, pools=pools, types=(LARGE,))) == ["b"]


def test_candidate_preference_nodes_with_lower_priority_pods():
    nodes = worker("a", running("x", "a", spec={"priority": 1000000})), worker("b", running("y", "b"))
    assert taken(cluster(*nodes, pools=ONE, types=(LARGE,))) == ["b"]


def test_events_say_why_a_node_is_not_consolidated():
    """pdb default/inflate-pdb prevents pod evictions; can't replace with a lower-priced node."""
    held = cluster(worker("a", running("x", "a")), pdbs=[pdb("inflate-pdb")], pools=FIXED)
    full = cluster(worker("a", running("x", "a", cpu="3800m")), pools=FIXED, types=(LARGE,))
    assert "default/inflate-pdb" in wording.message(said(held, "single-node", "a"))
    assert wording.message(said(full, "single-node", "a")).startswith("Can't replace with a cheaper node")


def preference_levels(number):
    return tuple(instance_type(f"t{each:02}", "4", "16Gi", 0.01 + each * 0.01) for each in range(number))


@pytest.mark.parametrize(("gate", "choice", "goes"), [(False, 20, False), (True, 14, False), (True, 15, True)])
def test_spot_consolidation_replaces_behind_its_gate_with_fifteen_types_of_flexibility(gate, choice, goes):
    found = cluster(
        worker("a", running("x", "a"), sold="spot"),
        pools=[free(template=SPOT)],
        types=(LARGE, *preference_levels(choice)),
    )
    assert bool(taken(found, DecisionOptions(spot_to_spot=gate))) is goes


def test_spot_consolidation_deletes_without_any_gate():
    nodes = worker("a", running("x", "a"), sold="spot"), worker("b", running("y", "b", cpu="2"), sold="spot")
    assert taken(cluster(*nodes, pools=[free(template=SPOT)], types=(LARGE,))) == ["a"]


def typed(*names):
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(names)}
    return nodepool(template={"requirements": [requirement]})


def test_drift_special_case_widened_requirements_are_no_drift():
    """m5.large of {m5.large} and then of {m5.large, m5.2xlarge}."""
    large, larger = instance_type("m5.large"), instance_type("m5.2xlarge", "16", "64Gi", 4.0)
    for pool, drift in ((typed("m5.large", "m5.2xlarge"), ""), (typed("m5.2xlarge"), "RequirementsDrifted")):
        found = cluster(worker("a", type_="m5.large"), pools=[pool], types=(large, larger))
        assert drift_reason(found.nodes[0].claim, pool, found) == drift


def test_drift_special_case_what_the_provider_discovers_is_drift():
    found = cluster(drifted("a"))
    assert drift_reason(found.nodes[0].claim, found.nodepools["default"], found) == "ImageDrift"


@pytest.mark.parametrize(
    "field",
    [
        {"weight": 50},
        {"limits": {"cpu": "1"}},
        {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1h"}},
        {"disruption": {"expireAfter": "1h"}},
        {"disruption": {"budgets": []}},
        {"disruption": {"consolidationGracePeriod": "1h"}},
        {"disruption": {"actionControls": {"Drift": {"disruptAfter": "1h"}}}},
    ],
    ids=str,
)
def test_the_table_of_behavioural_fields_that_never_drift(field):
    assert template_hash(nodepool(**field)) == template_hash(nodepool())


def test_the_drift_gate_closed_leaves_drifted_nodes_alone():
    found = cluster(drifted("a", running("x", "a", cpu="3500m")), pools=[free(consolidateAfter="Never")])
    assert taken(found, DecisionOptions(drift=False)) == []


@pytest.mark.parametrize(
    "found",
    [
        cluster(worker("a", shielded("x", "a"))),
        cluster(drifted("a", shielded("x", "a"))),
        cluster(worker("a", shielded("x", "a")), pools=[free(expireAfter="1h")]),
    ],
    ids=["consolidation", "drift", "expiration"],
)
def test_pod_level_controls_prevent_voluntary_removal(found):
    assert taken(found) == []


@pytest.mark.parametrize("status", ["Succeeded", "Failed"])
def test_pod_level_controls_are_ignored_for_terminal_pods(status):
    assert taken(cluster(worker("a", shielded("x", "a", status={"phase": status})))) == ["a"]


def test_pod_level_controls_are_ignored_for_terminating_pods():
    metadata = {"annotations": {DO_NOT_DISRUPT: "true"}, **LEAVING}
    assert taken(cluster(worker("a", running("x", "a", metadata=metadata)))) == ["a"]


def test_node_level_controls_prevent_disruption_actions():
    held = {"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}}
    pools = [free(expireAfter="1h")]
    for node in (worker("a", **held), drifted("a", **held)):
        assert taken(cluster(node, pools=pools)) == []


def test_the_defaults_are_when_underutilized_and_thirty_days():
    pool = nodepool()
    assert pool.consolidation_policy == "WhenEmptyOrUnderutilized"
    assert (
        nodepool(disruption={"consolidationPolicy": "WhenUnderutilized"}).consolidation_policy
        == pool.consolidation_policy
    )
    assert pool.hard_expire_after.span == timedelta(hours=720)
    soft = [free(expireAfter="720h", consolidateAfter="Never")]
    full = running("x", "a", cpu="3500m")
    assert taken(cluster(worker("a", full, age=timedelta(hours=719)), pools=soft)) == []
    assert taken(cluster(worker("a", full, age=timedelta(hours=720)), pools=soft, at=NOON)) == ["a"]
