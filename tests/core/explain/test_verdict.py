"""The verdict on a node: the soonest way it can leave, each obstacle once, and budgets only where they decide."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from acceptance.fleet import (
    BLOCKING,
    ON_DEMAND,
    cluster,
    drifted,
    free,
    pdb,
    planned,
    running,
    shielded,
    worker,
)
from builders import NOON, nodepool, stamped
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.explain.node import explain_nodes
from dovetail.core.verdict_wording import verdict_line

HOUR = timedelta(hours=1)
CLOSED = {"nodes": "0"}
CLOSED_TILL_TWO = {"nodes": "0", "schedule": "0 9 * * *", "duration": "5h"}


def verdicts(found):
    explained = explain_nodes(found.nodes, PassContext(found))
    return {each.node.name: each.verdict for each in explained}


def verdict(found, name="a"):
    return verdicts(found)[name]


def line(found, name="a"):
    return verdict_line(verdict(found, name), NOON)


def protected_for(duration, name="build-7", on="a", age=HOUR):
    metadata = {
        "creationTimestamp": stamped(NOON - age),
        "annotations": {"karpenter.sh/do-not-disrupt": duration},
    }
    return shielded(name, on, metadata=metadata)


def test_a_pdb_is_named_once_with_the_number_of_its_pods_and_a_protected_pod_with_its_end():
    pods = [running(f"web-{number}", "a", cpu="100m") for number in range(7)]
    found = cluster(worker("a", *pods, protected_for("160m")), pdbs=[pdb()])
    expected = "Stays: PDB default/web allows no eviction (7 pods); pod default/build-7 is protected until 13:40 UTC"
    assert line(found) == expected
    assert not verdict(found).permanent


def test_a_node_that_the_next_pass_takes_leaves_now():
    found = cluster(worker("a"))
    assert planned(found) == [("emptiness", ["a"])]
    assert line(found) == "Leaves now: Empty, deleted, saves $730.00 a month"


def test_a_node_behind_another_method_leaves_in_a_later_pass():
    found = cluster(drifted("a", running("x", "a")), worker("b"))
    assert planned(found) == [("drift", ["a"])]
    assert line(found, "b") == "Can leave in a later pass by emptiness: drift goes first"


def test_the_soonest_of_several_ways_is_shown_whatever_the_order_of_the_methods():
    """Drift waits until 20:00; consolidation, which is tried last, only until 12:30."""
    controls = {"Drift": {"disruptAfter": "10h"}, "Consolidation": {"disruptAfter": "30m"}}
    pool = free(actionControls=controls, template=ON_DEMAND)
    recent = {"status": {"lastPodEventTime": stamped(NOON)}}
    node = drifted("a", running("x", "a"), type_="m.huge", **recent)
    found = verdict(cluster(node, pools=[pool]))
    assert (found.method, found.at) == ("single-node", NOON + HOUR / 2)


def test_a_window_that_ends_last_decides_when_a_node_can_leave():
    pool = free(budgets=[{"nodes": "100%"}, CLOSED_TILL_TWO])
    found = cluster(worker("a", protected_for("90m"), type_="m.huge"), pools=[pool])
    assert line(found) == (
        "Can leave from 14:00 UTC by single-node consolidation: budget 2 of 2 ('0') of NodePool default allows 0 of 1 "
        "node until 14:00 UTC; pod default/build-7 is protected until 12:30 UTC"
    )


def test_a_budget_that_ends_before_another_obstacle_is_not_blamed():
    pool = free(budgets=[CLOSED_TILL_TWO])
    found = verdict(cluster(worker("a", protected_for("9h"), type_="m.huge"), pools=[pool]))
    assert found.at == NOON + 8 * HOUR
    assert [each.refusal.code for each in found.obstacles] == ["DoNotDisruptPod"]


def test_a_budget_is_not_blamed_for_a_node_that_would_stay_without_it():
    """The only pod fits nowhere else and nothing cheaper is sold: a wider budget would not change the plan."""
    node = worker("a", running("x", "a"), type_="m.small")
    closed = cluster(node, pools=[free(template=ON_DEMAND, budgets=[CLOSED])])
    assert planned(cluster(node, pools=[free(template=ON_DEMAND)])) == []
    assert [each.refusal.code for each in verdict(closed).obstacles] == ["Unschedulable"]
    assert not verdict(closed).permanent


def test_a_budget_is_blamed_for_a_node_that_leaves_without_it():
    node = worker("a", running("x", "a"), type_="m.huge")
    assert planned(cluster(node, pools=[free()])) == [("single-node", ["a"])]
    found = verdict(cluster(node, pools=[free(budgets=[CLOSED])]))
    assert [each.refusal.code for each in found.obstacles] == ["Budget"]


HELD = [{"nodes": "100%"}, {"nodes": "0", "reasons": ["Drifted"]}]


def test_a_budget_of_zero_that_alone_keeps_a_drifted_node_is_the_verdict():
    """Consolidation may become possible at any time, but with a wider budget drift takes the node now."""
    nodes = [drifted("a", running("web", "a", cpu="4")), worker("b", running("api", "b", cpu="4"))]
    found = cluster(*nodes, pools=[free(budgets=HELD, template=ON_DEMAND)])
    assert planned(cluster(*nodes, pools=[free(template=ON_DEMAND)])) == [("drift", ["a"])]
    assert line(found) == "Stays: budget 2 of 2 ('0') of NodePool default allows 0 of 2 nodes"
    assert not verdict(found).permanent


def test_a_budget_of_zero_does_not_hide_that_another_way_opens_at_a_known_time():
    held = [*HELD, {**CLOSED_TILL_TWO, "reasons": ["Empty", "Underutilized"]}]
    found = cluster(drifted("a"), worker("b", running("api", "b", cpu="4")), pools=[free(budgets=held)])
    assert line(found).startswith("Can leave from 14:00 UTC by emptiness")


def full_nodes(number):
    """Nodes that no method can remove: each is full, and no cheaper one is sold."""
    return [worker(f"n{each}", running(f"x{each}", f"n{each}", cpu="3500m")) for each in range(number)]


def test_a_budget_that_the_nodes_before_use_up_is_not_blamed_if_no_set_of_nodes_can_leave():
    found = cluster(*full_nodes(4), pools=[free(template=ON_DEMAND, budgets=[{"nodes": "2"}])])
    assert planned(found) == []
    for each in verdicts(found).values():
        assert "Budget" not in [group.refusal.code for group in each.obstacles]


def test_a_method_does_not_list_a_budget_that_a_wider_one_would_not_help():
    found = cluster(*full_nodes(4), pools=[free(template=ON_DEMAND, budgets=[{"nodes": "2"}])])
    for explained in explain_nodes(found.nodes, PassContext(found)):
        views = {view.method: view for view in explained.methods}
        assert [each.code for each in views["multi-node"].obstacles] == ["NoSet"]


def test_a_set_of_nodes_is_a_way_if_the_planner_finds_one_without_the_budget():
    """Small nodes with 1.3 cores in use each: none leaves alone, and one large node is cheaper than three of them."""
    nodes = [worker(name, running(f"x-{name}", name, cpu="1300m"), type_="m.small") for name in "abcd"]
    pool = free(template=ON_DEMAND, budgets=[{"nodes": "100%"}, CLOSED_TILL_TWO])
    assert planned(cluster(*nodes, pools=[free(template=ON_DEMAND)])) == [("multi-node", ["a", "b", "c"])]
    assert line(cluster(*nodes, pools=[pool])).startswith(
        "Can leave from 14:00 UTC by multi-node consolidation: budget 2"
    )


@pytest.mark.parametrize(
    ("nodes", "blocked_for_good"),
    [
        pytest.param(worker("a", shielded("x", "a")), True, id="a pod that is protected for good stops every method"),
        pytest.param(worker("a", running("x", "a")), False, id="WhenEmpty: the node may become empty"),
    ],
)
def test_permanent_only_if_every_method_is_blocked_for_good(nodes, blocked_for_good):
    found = verdict(cluster(nodes, pools=[free(consolidationPolicy="WhenEmpty")]))
    assert found.outcome == "Stays"
    assert found.permanent is blocked_for_good


def test_hard_expiration_with_a_bounded_drain_ends_a_permanent_block():
    spec = {"expireAfter": "24h", "terminationGracePeriod": "1h"}
    node = worker("a", running("x", "a"), age=20 * HOUR, claim={"spec": spec})
    found = cluster(node, pdbs=[pdb(**BLOCKING)])
    held = "PDB default/web never allows an eviction (pod default/x)"
    assert line(found) == f"Can leave from 16:00 UTC by expiration; until then {held}"
    assert not verdict(found).permanent


def test_hard_expiration_of_a_node_whose_drain_would_not_end_is_no_way_to_leave():
    node = worker("a", running("x", "a"), age=20 * HOUR, claim={"spec": {"expireAfter": "24h"}})
    found = cluster(node, pdbs=[pdb(**BLOCKING)])
    held = "PDB default/web never allows an eviction (pod default/x)"
    assert line(found) == f"Stays: {held}; expires 16:00 UTC"
    assert verdict(found).permanent


def test_expiration_is_a_deadline_while_another_way_may_open():
    node = worker("a", running("x", "a"), age=20 * HOUR, claim={"spec": {"expireAfter": "24h"}})
    found = cluster(node, pdbs=[pdb()])
    assert line(found) == "Stays: PDB default/web allows no eviction (pod default/x); expires 16:00 UTC"


def test_a_node_that_expires_before_a_budget_window_ends_leaves_by_expiration():
    node = worker("a", running("x", "a", cpu="1"), age=23 * HOUR, claim={"spec": {"expireAfter": "24h"}})
    found = cluster(node, worker("b", running("y", "b", cpu="1")), pools=[free(budgets=[CLOSED_TILL_TWO])])
    held = "budget '0' of NodePool default allows 0 of 2 nodes until 14:00 UTC"
    assert line(found) == f"Can leave from 13:00 UTC by expiration; until then {held}"


@pytest.mark.parametrize(
    ("pods", "budgets"),
    [
        pytest.param([running("x", "a", cpu="1")], [CLOSED_TILL_TWO], id="a budget, which does not apply"),
        pytest.param([running("x", "a", cpu="1")], [CLOSED], id="a budget that never opens"),
        pytest.param([protected_for("160m")], [], id="a pod that is protected for a time"),
    ],
)
def test_a_node_past_its_hard_expiration_is_leaving_whatever_keeps_it(pods, budgets):
    node = worker("a", *pods, age=25 * HOUR, claim={"spec": {"expireAfter": "24h"}})
    found = cluster(node, pools=[free(budgets=budgets)])
    assert line(found) == "Leaving: expired after 24h, at 11:00 UTC, regardless of budgets"
    assert verdict(found).code == "Deleting"  # for chips and filters


def test_a_node_past_its_hard_expiration_stays_if_its_drain_would_not_end():
    node = worker("a", running("x", "a"), age=25 * HOUR, claim={"spec": {"expireAfter": "24h"}})
    found = cluster(node, pdbs=[pdb(**BLOCKING)])
    held = "PDB default/web never allows an eviction (pod default/x)"
    assert line(found) == f"Stays: {held}; expired 11:00 UTC"


def test_more_obstacles_than_three_are_counted():
    pods = [protected_for(f"{number}h", f"build-{number}") for number in range(2, 7)]
    found = cluster(worker("a", *pods, type_="m.huge"))
    assert line(found).endswith("pod default/build-4 is protected until 15:00 UTC; 2 more")


def test_a_node_in_a_drain_is_leaving():
    node = worker("a", running("x", "a"), claim={"metadata": {"deletionTimestamp": stamped(NOON)}})
    assert line(cluster(node)) == "Leaving: draining: 1 pod to go"


def test_a_node_without_a_nodeclaim_stays_for_good():
    unmanaged = cluster(worker("a"))
    (node,) = unmanaged.nodes
    found = cluster(type(node)(node.node, None, ()))
    assert line(found) == "Stays: not managed by Dovetail: no NodeClaim belongs to it"
    assert verdict(found).permanent


def test_the_verdict_of_an_already_closed_pool_is_that_of_nodepool_budgets():
    found = cluster(worker("a"), worker("b"), pools=[nodepool(disruption={"budgets": [{"nodes": "1"}]})])
    taken = planned(found)[0][1]
    (other,) = {"a", "b"} - {*taken}
    assert line(found, other).startswith("Can leave in a later pass by emptiness: budget '1' of NodePool default")


class Explosive(dict):
    """Unexpected content."""

    def get(self, *_):
        raise RuntimeError("boom")


def test_an_error_about_one_node_is_its_verdict_and_the_others_have_theirs():
    found = cluster(worker("a"), worker("b"))
    first, second = found.nodes
    metadata = msgspec.structs.replace(first.node.metadata, annotations=Explosive())
    broken = replace(first, node=msgspec.structs.replace(first.node, metadata=metadata))
    lines = {name: verdict_line(each, NOON) for name, each in verdicts(replace(found, nodes=(broken, second))).items()}
    assert lines["a"].startswith("Stays: left unchanged because of an internal error: RuntimeError at test_verdict.py")
    assert lines["b"].startswith("Leaves now: Empty")
