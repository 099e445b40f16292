"""minSavings: consolidation must be worth its evictions, and leaves pods alone that were just bound."""

from dataclasses import replace
from datetime import timedelta

import pytest

from acceptance.fleet import ON_DEMAND, cluster, drifted, free, owned, planned, running, said, taken, worker
from builders import LARGE, NOON, SMALL, instance_type, nodepool, stamped
from dovetail.core.disruption.pass_context import PassContext, next_wakeup
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.disruption.validation import revalidate
from dovetail.core.explain.node import explain_node
from dovetail.core.explain.nodepool import explain_pool
from dovetail.core.explain.plan_summary import summarize
from dovetail.core.verdict_wording import verdict_line
from dovetail.core.wording import message
from dovetail.model.percentage import Percentage
from dovetail.model.refusal import RefusalCode

RECENTLY = timedelta(minutes=10)  # after the cool-down
HOUR = timedelta(hours=1)
COOL_DOWN = timedelta(minutes=2)
TYPES = (SMALL, LARGE)
CRITICAL = {"priority": 2**25}


def pools(**disruption):
    return [free(template=ON_DEMAND, **disruption)]


def settled(name, on, cpu="500m", age=RECENTLY, **fields):
    """A pod that was created, and bound, this long ago."""
    return running(name, on, cpu, metadata={"creationTimestamp": stamped(NOON - age)}, **fields)


def half_empty(age=RECENTLY, **disruption):
    """A node of $1 whose only pod requests 47.5% of it and fits a node of $0.50."""
    return cluster(worker("a", settled("x", "a", "1900m", age)), pools=pools(**disruption), types=TYPES)


def uneven(**disruption):
    """Two nodes of $1: the pod of `a` has room on `b`, beside three others. Each costs $0.125."""
    others = [settled(f"y{each}", "b") for each in range(3)]
    return cluster(worker("a", settled("x", "a")), worker("b", *others), pools=pools(**disruption), types=TYPES)


@pytest.mark.parametrize("written", ["0%", "1%", "105%"])
def test_a_replacement_that_saves_as_much_as_required_is_launched(written):
    assert planned(half_empty(minSavings=written)) == [("single-node", ["a"])]


@pytest.mark.parametrize(
    ("disruption", "expected"),
    [
        ({}, Percentage(100)),
        ({"minSavings": "0%"}, None),
        ({"minSavings": "5%"}, Percentage(5)),
        ({"consolidationPolicy": "Balanced"}, None),
        ({"consolidationPolicy": "Balanced", "minSavings": "70%"}, Percentage(70)),
    ],
)
def test_nodepools_are_restrained_unless_they_turn_it_off_or_are_balanced(disruption, expected):
    assert nodepool(disruption=disruption).min_savings == expected


def test_a_replacement_that_saves_less_than_required_is_refused_with_the_figures():
    found = half_empty(minSavings="120%")
    refusal = said(found, "single-node", "a")
    assert taken(found) == []
    assert refusal.code == "SavesTooLittle"
    assert message(refusal) == (
        "saves $0.500/h for 1 eviction: below the threshold of $0.570/h "
        "(minSavings 120% of nodepool default, turnover 100%)"
    )


def test_a_nodepool_says_what_must_be_saved_for_each_eviction():
    found = half_empty(minSavings="120%")
    told = explain_pool(found.nodepools["default"], PassContext(found)).restraint
    assert told is not None
    assert (str(told.min_savings), told.turnover) == ("120%", 1.0)
    assert told.per_eviction == pytest.approx(said(found, "single-node", "a").small_saving.required)


@pytest.mark.parametrize(
    "disruption", [{"minSavings": "0%"}, {"minSavings": "50%", "consolidationPolicy": "WhenEmpty"}]
)
def test_a_nodepool_without_restraint_says_nothing_of_it(disruption):
    found = half_empty(**disruption)
    assert explain_pool(found.nodepools["default"], PassContext(found)).restraint is None


@pytest.mark.parametrize(("written", "expected"), [("800%", ["a"]), ("801%", [])])
def test_a_node_may_go_if_its_price_is_worth_its_evictions(written, expected):
    assert taken(uneven(minSavings=written)) == expected


def test_the_first_of_two_pods_of_a_deleted_node_saves_as_much_as_both():
    two = cluster(
        worker("a", settled("x", "a"), settled("z", "a")),
        worker("b", *(settled(f"y{each}", "b") for each in range(4))),
        pools=pools(minSavings="400%"),
        types=TYPES,
    )
    assert taken(two) == ["a"]  # $1 for two evictions; six pods cost $0.75
    assert taken(replace(two, nodepools={"default": pools(minSavings="401%")[0]})) == []


def test_pods_count_by_their_eviction_cost():
    """A pod of priority 2^25 counts twice: of five units the node has two, and $0.5 * 2/5 * 501% exceeds its price."""
    others = [settled(f"y{each}", "b") for each in range(3)]
    nodes = [worker("a", settled("x", "a", spec=CRITICAL)), worker("b", *others)]
    found = cluster(*nodes, pools=pools(minSavings="501%"), types=TYPES)
    assert taken(found) == []
    assert said(found, "single-node", "a").small_saving.required == pytest.approx(1.002)
    assert taken(uneven(minSavings="501%")) == ["a"]


def in_zone(zone):
    return {"nodeSelector": {"topology.kubernetes.io/zone": zone}}


@pytest.mark.parametrize(("restraint", "first"), [({"minSavings": "0%"}, "a"), ({"minSavings": "30%"}, "b")])
def test_the_move_that_saves_most_for_its_evictions_goes_first(restraint, first):
    """`a` saves $1.50 for ten evictions, `b` $1 for one."""
    dear = {"type_": "m.dear", "size": ("8", "32Gi")}
    many = [settled(f"x{each}", "a", "190m", memory="256Mi", spec=in_zone("zone-a")) for each in range(10)]
    one = settled("y", "b", "3", spec=in_zone("zone-b"))
    nodes = [worker("a", *many, **dear), worker("b", one, zone="zone-b", **dear)]
    types = (SMALL, LARGE, instance_type("m.dear", "8", "32Gi", 2.0))
    plan = plan_disruption(cluster(*nodes, pools=pools(**restraint, budgets=[{"nodes": "1"}]), types=types))
    assert [each.name for each in plan.commands[0].candidates] == [first]


def test_sets_of_nodes_are_refused_with_the_figures():
    small = [worker(name, settled(f"p{name}", name, "900m"), type_="m.small", size=("2", "8Gi")) for name in "ab"]
    types = (SMALL, instance_type("m.cheap", "2", "8Gi", 0.45))
    refusal = said(cluster(*small, pools=pools(minSavings="130%"), types=types), "multi-node", "b")
    assert message(refusal) == (
        "saves $0.550/h together with 1 more for 2 evictions: "
        "below the threshold of $0.585/h (minSavings 130% of nodepool default, turnover 100%)"
    )
    assert planned(cluster(*small, pools=pools(minSavings="120%"), types=types))[0] == ("multi-node", ["a", "b"])


@pytest.mark.parametrize(("written", "expected"), [("421%", ["a"]), ("422%", [])])
def test_evictions_cost_less_where_pods_stay(written, expected):
    """No pod was bound within the last hour, so a quarter of it is required: $0.475 * 25% * 421% is $0.4999."""
    assert taken(half_empty(age=HOUR, minSavings=written)) == expected


@pytest.mark.parametrize(("young", "turnover"), [(0, 0.25), (1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0)])
def test_turnover_is_the_share_of_pods_that_were_bound_within_the_last_hour(young, turnover):
    ages = [RECENTLY] * young + [HOUR] * (4 - young)
    on_b = [settled(f"y{each}", "b", age=age) for each, age in enumerate(ages[1:])]
    nodes = [worker("a", settled("x", "a", age=ages[0])), worker("b", *on_b)]
    small = said(cluster(*nodes, pools=pools(minSavings="9999%"), types=TYPES), "single-node", "a").small_saving
    assert small.turnover == pytest.approx(turnover)
    assert small.required == pytest.approx(99.99 * 0.125 * turnover)


def test_a_pass_is_made_when_pods_no_longer_count_as_turnover():
    assert next_wakeup(half_empty(minSavings="200%"), {}) == NOON + HOUR - RECENTLY
    assert next_wakeup(half_empty(), {}) is None
    assert next_wakeup(half_empty(age=HOUR, minSavings="200%"), {}) is None


def test_empty_nodes_are_not_restrained():
    assert planned(cluster(worker("a"), pools=pools(minSavings="9999%"), types=TYPES)) == [("emptiness", ["a"])]


def test_drift_and_expiration_are_not_restrained():
    young = settled("x", "a", age=timedelta(seconds=5))
    restraint = pools(minSavings="9999%")
    assert planned(cluster(drifted("a", young), pools=restraint, types=TYPES)) == [("drift", ["a"])]
    expiring = pools(minSavings="9999%", expireAfter="12h")
    assert planned(cluster(worker("a", young), pools=expiring, types=TYPES)) == [("expiration", ["a"])]


@pytest.mark.parametrize(("age", "expected"), [(119, []), (120, ["a"])])
def test_pods_are_left_alone_for_two_minutes_after_they_were_bound(age, expected):
    young = worker("a", settled("x", "a", "1900m", age=timedelta(seconds=age)))
    assert taken(cluster(young, pools=pools(minSavings="1%"), types=TYPES)) == expected


def test_the_cool_down_counts_from_the_binding_and_ends_the_wait():
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamped(NOON - timedelta(seconds=30))}
    young = settled("x", "a", "1900m", status={"phase": "Running", "conditions": [bound]})
    found = cluster(worker("a", young), pools=pools(minSavings="1%"), types=TYPES)
    refusal = said(found, "single-node", "a")
    assert (refusal.code, refusal.until) == ("CoolingDown", NOON + timedelta(seconds=90))
    assert next_wakeup(found, {}) == refusal.until
    assert message(refusal) == (
        "a pod was bound to it a moment ago, and nodepool default has minSavings: left alone until 2026-01-05T12:01:30Z"
    )


def test_without_restraint_there_is_no_cool_down():
    young = worker("a", settled("x", "a", "1900m", age=timedelta(seconds=1)))
    for restraint in ({}, {"minSavings": "0%"}):
        assert taken(cluster(young, pools=pools(**restraint), types=TYPES)) == ["a"]


def test_daemons_do_not_cool_down():
    agent = owned("agent", "a", "DaemonSet", cpu="100m")
    found = cluster(worker("a", settled("x", "a", "1500m"), agent), pools=pools(minSavings="50%"), types=TYPES)
    assert taken(found) == ["a"]


def test_a_command_is_validated_against_the_prices_of_then():
    before = half_empty(minSavings="105%")
    (command,) = plan_disruption(before).commands
    assert revalidate(command, PassContext(before)) == command
    after = replace(before, nodepools={"default": pools(minSavings="106%")[0]})
    refusal = revalidate(command, PassContext(after))
    assert refusal.code is RefusalCode.SIMULATION_CHANGED
    assert refusal.cause.code is RefusalCode.SAVES_TOO_LITTLE


def test_explain_and_plan_say_why():
    found = half_empty(minSavings="120%")
    explained = explain_node(found.nodes[0], PassContext(found))
    line = verdict_line(explained.verdict, NOON)
    assert "saves $0.500/h for 1 eviction: below the threshold of $0.570/h" in line
    (blocked,) = summarize(plan_disruption(found, thorough=True), found).blocked
    assert blocked.what.startswith("saves $0.500/h for 1 eviction")
