"""Nodes that are no longer what their pool asks for are replaced, whatever the consolidation policy."""

from datetime import timedelta

import pytest

from acceptance.fleet import (
    BLOCKING,
    DO_NOT_DISRUPT,
    ON_DEMAND,
    TERMINATION,
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
from acceptance.test_candidates import marked
from builders import HUGE, LARGE, NOON, SMALL, nodepool
from dovetail.core.disruption.drift import drift_reason
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_disruption, plan_pass
from dovetail.core.lifecycle.nodepool_hash import HASH_VERSION, template_hash
from dovetail.model.reason import Reason
from dovetail.settings import DecisionOptions

HOUR = timedelta(hours=1)
NEVER = {"consolidateAfter": "Never"}
TYPE = "node.kubernetes.io/instance-type"


def full(name, **fields):
    """A pod that needs a node of its own."""
    return running(f"p-{name}", name, cpu="3500m", **fields)


def never(**fields):
    return [free(**NEVER, **fields)]


def test_only_drifted_nodes_are_eligible():
    found = cluster(drifted("a", full("a")), worker("b", full("b")), pools=never())
    assert planned(found) == [("drift", ["a"])]
    assert said(found, "drift", "b").code == "NotDrifted"


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_condition_that_is_not_true_is_no_drift(status):
    assert taken(cluster(worker("a", full("a"), conditions={"Drifted": status}), pools=never())) == []


def test_a_budget_limits_drift_and_counts_what_is_under_way():
    pool = nodepool(disruption={"budgets": [{"nodes": "2"}], **NEVER})
    nodes = [drifted(name, full(name)) for name in "bcd"]
    assert len(taken(cluster(*nodes, marked("a"), pools=[pool], types=(LARGE,)))) == 1
    assert taken(cluster(*nodes, marked("a"), marked("z"), pools=[pool], types=(LARGE,))) == []


def test_when_the_first_cannot_be_rescheduled_the_next_is_taken():
    nowhere = running("x", "a", spec={"nodeSelector": {"disk": "rare"}})
    stuck = drifted("a", nowhere, since=3 * HOUR, labels={"disk": "rare"})
    found = cluster(stuck, drifted("b", full("b")), pools=never(), types=(LARGE,))
    assert planned(found) == [("drift", ["b"])]
    assert said(found, "drift", "a").code == "Unschedulable"


@pytest.mark.parametrize(("value", "names"), [("true", []), ("false", ["a"])])
def test_the_annotation_of_the_node_decides(value, names):
    held = drifted("a", full("a"), metadata={"annotations": {DO_NOT_DISRUPT: value}})
    assert taken(cluster(held, pools=never())) == names


@pytest.mark.parametrize("bound", [{}, TERMINATION], ids=["unbounded", "bounded"])
def test_a_protected_pod_stops_drift_whether_or_not_the_claim_bounds_its_drain(bound):
    found = cluster(drifted("a", shielded("x", "a", cpu="3500m"), claim=bound), pools=never())
    assert taken(found) == []
    assert said(found, "drift", "a").code == "DoNotDisruptPod"


def test_a_protected_pod_is_named_where_a_budget_that_yields_stands_before_it():
    pods = running("w", "a"), shielded("x", "a")
    found = cluster(drifted("a", *pods, claim=TERMINATION), pdbs=[pdb()], pools=never())
    assert said(found, "drift", "a").code == "DoNotDisruptPod"


@pytest.mark.parametrize("budgets", [[pdb(**BLOCKING)], [pdb("one", 1), pdb("two", 1)]], ids=["blocking", "several"])
def test_nothing_is_bought_for_pods_that_no_drain_can_evict(budgets):
    found = cluster(drifted("a", full("a"), claim=TERMINATION), pdbs=budgets, pools=never())
    assert [command.replacements for command in plan_disruption(found).commands] == [()]


def test_a_budget_that_is_only_used_up_for_now_is_planned_for():
    found = cluster(drifted("a", full("a"), claim=TERMINATION), pdbs=[pdb()], pools=never())
    assert [len(command.replacements) for command in plan_disruption(found).commands] == [1]


def test_it_replaces_when_pods_need_room_and_deletes_when_they_fit_elsewhere():
    replaced = plan_disruption(cluster(drifted("a", full("a")), worker("b", full("b")), pools=never()))
    deleted = plan_disruption(cluster(drifted("a", full("a")), worker("b"), pools=never()))
    assert [len(command.replacements) for command in replaced.commands] == [1]
    assert [len(command.replacements) for command in deleted.commands] == [0]


def test_an_empty_drifted_node_goes_even_where_nothing_is_consolidated_and_counts_as_drifted():
    plan = plan_disruption(cluster(drifted("a"), pools=never()))
    assert [command.reason for command in plan.commands] == [Reason.DRIFTED]


def test_empty_ones_go_first_and_together():
    nodes = drifted("a", full("a"), since=9 * HOUR), drifted("b"), drifted("c")
    first, *others = planned(cluster(*nodes, pools=never()))
    assert first == ("drift", ["b", "c"])
    assert others == [("drift", ["a"])]


def test_several_nodes_may_replace_one():
    pods = [running(f"x{each}", "a", cpu="3500m") for each in range(4)]
    plan = plan_disruption(cluster(drifted("a", *pods, type_="m.huge"), pools=never(), types=(LARGE,)))
    assert [len(command.replacements) for command in plan.commands] == [4]


def test_replacements_need_not_be_cheaper():
    plan = plan_disruption(
        cluster(drifted("a", running("x", "a"), type_="m.small"), pools=never(template=ON_DEMAND), types=(HUGE,))
    )
    assert [len(command.replacements) for command in plan.commands] == [1]


def test_what_has_to_be_bought_goes_one_at_a_time_longest_drifted_first():
    nodes = [drifted(name, full(name), since=since * HOUR) for name, since in (("a", 1), ("b", 3), ("c", 2))]
    found = cluster(*nodes, pools=never(), types=(LARGE,))
    assert planned(found) == [("drift", ["b"])]
    assert said(found, "drift", "c").code == "NextPass"


def test_a_static_pool_is_left_to_others():
    assert said(cluster(drifted("a"), pools=[free(replicas=1)]), "drift", "a").code == "Static"


def test_the_gate_closes_drift():
    assert taken(cluster(drifted("a", full("a")), pools=never()), DecisionOptions(drift=False)) == []


def test_a_pool_whose_replacements_fail_backs_off_and_does_not_starve_others():
    pools = [free(name, **NEVER) for name in ("bad", "good")]
    nodes = drifted("a", full("a"), pool="bad", since=9 * HOUR), drifted("b", full("b"), pool="good")
    found = cluster(*nodes, pools=pools, types=(LARGE,))
    assert planned(found) == [("drift", ["a"])]
    plan = plan_pass(PassContext(found, backing_off={("bad", Reason.DRIFTED): NOON + timedelta(minutes=1)}))
    assert [each.name for command in plan.commands for each in command.candidates] == ["b"]


@pytest.mark.parametrize(("minutes", "names"), [(59, []), (60, ["a"])])
def test_disrupt_after_for_drift_runs_from_when_the_node_drifted(minutes, names):
    pools = [free(actionControls={"Drift": {"disruptAfter": "1h"}}, **NEVER)]
    found = cluster(drifted("a", full("a"), since=timedelta(minutes=minutes)), pools=pools)
    assert taken(found) == names


# -- what drift is


def stamp(pool, **more):
    return {
        "karpenter.sh/nodepool-hash": template_hash(pool),
        "karpenter.sh/nodepool-hash-version": HASH_VERSION,
        **more,
    }


def reason(claim_fields, pool, types=(SMALL, LARGE, HUGE), **fields):
    found = cluster(worker("a", claim=claim_fields, **fields), pools=[pool], types=types)
    return drift_reason(found.nodes[0].claim, pool, found)


CHANGES = [
    {"template_metadata": {"labels": {"team": "a"}}},
    {"template_metadata": {"annotations": {"team": "a"}}},
    {"template": {"taints": [{"key": "team", "effect": "NoSchedule"}]}},
    {"template": {"startupTaints": [{"key": "team", "effect": "NoSchedule"}]}},
    {"template": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "other"}}},
    {"template": {"expireAfter": "100h"}},
    {"template": {"terminationGracePeriod": "100h"}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_changed_template_is_drift_by_fingerprint(change):
    before, after = nodepool(), nodepool(**change)
    metadata = {"metadata": {"name": "a", "annotations": stamp(before)}}
    assert reason(metadata, before) == ""
    assert reason(metadata, after) == "NodePoolDrifted"


@pytest.mark.parametrize("missing", ["karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"])
def test_a_missing_stamp_is_no_drift(missing):
    annotations = stamp(nodepool())
    del annotations[missing]
    changed = nodepool(template_metadata={"labels": {"team": "a"}})
    assert reason({"metadata": {"name": "a", "annotations": annotations}}, changed) == ""


def test_a_stamp_of_another_version_is_no_drift():
    annotations = stamp(nodepool(), **{"karpenter.sh/nodepool-hash-version": "v2"})
    changed = nodepool(template_metadata={"labels": {"team": "a"}})
    assert reason({"metadata": {"name": "a", "annotations": annotations}}, changed) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"weight": 10},
        {"limits": {"cpu": "10"}},
        {"disruption": {"consolidateAfter": "5m", "consolidationPolicy": "WhenEmpty"}},
        {"disruption": {"budgets": [{"nodes": "1"}], "expireAfter": "5h"}},
        {"template": {"requirements": [{"key": "team", "operator": "DoesNotExist"}]}},
    ],
    ids=str,
)
def test_behavioural_fields_and_requirements_are_not_in_the_fingerprint(change):
    assert template_hash(nodepool(**change)) == template_hash(nodepool())


def asks(operator, *values, key=TYPE):
    requirement = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return nodepool(template={"requirements": [requirement]})


@pytest.mark.parametrize(
    ("pool", "drift"),
    [
        (asks("In", "m.large"), ""),
        (asks("In", "m.large", "m.huge"), ""),
        (asks("In", "m.huge"), "RequirementsDrifted"),
        (asks("NotIn", "m.large"), "RequirementsDrifted"),
        (asks("NotIn", "m.huge"), ""),
        (asks("In", "red", key="team"), "RequirementsDrifted"),
        (asks("Exists", key="team"), "RequirementsDrifted"),
        (asks("NotIn", "red", key="team"), ""),
        (asks("DoesNotExist", key="team"), ""),
        (asks("DoesNotExist", key=TYPE), "RequirementsDrifted"),
    ],
)
def test_requirements_drift_by_meaning(pool, drift):
    assert reason({}, pool) == drift


def test_the_pools_own_reasons_win_over_the_provider():
    said_by_provider = drifted("a")
    for pool, expected in ((asks("In", "m.huge"), "RequirementsDrifted"), (nodepool(), "ImageDrift")):
        found = cluster(said_by_provider, pools=[pool])
        assert drift_reason(found.nodes[0].claim, pool, found) == expected


@pytest.mark.parametrize(("age", "drift"), [(HOUR, ""), (HOUR + timedelta(seconds=1), "InstanceTypeNotFound")])
def test_a_type_that_is_gone_is_held_against_a_node_only_after_an_hour(age, drift):
    assert reason({}, nodepool(), types=(SMALL,), age=age) == drift


def test_a_type_that_is_no_longer_sold_that_way_is_gone_too_and_reserved_counts_as_on_demand():
    assert reason({}, nodepool(), sold="reserved") == ""
    assert reason({}, nodepool(), zone="zone-z") == "InstanceTypeNotFound"


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_claim_that_is_not_launched_has_not_drifted(status):
    assert reason({}, asks("In", "m.huge"), conditions={"Launched": status}) == ""


def test_ten_drifted_nodes_and_a_budget_of_three_start_three_commands_in_three_passes():
    """Each has a replacement of its own; the fourth pass starts nothing."""
    pool = nodepool(disruption={"budgets": [{"nodes": "3"}], **NEVER})
    names = [f"n{each}" for each in range(10)]
    gone = []
    for _ in range(4):
        nodes = [marked(name, name, full(name)) if name in gone else drifted(name, full(name)) for name in names]
        gone += taken(cluster(*nodes, pools=[pool], types=(LARGE,)))
    assert gone == ["n0", "n1", "n2"]
