"""How many nodes may go at once: counting, rounding, windows, reasons and several pools."""

from datetime import timedelta

import pytest

from acceptance.fleet import cluster, drifted, free, planned, running, said, taken, worker
from acceptance.test_candidates import marked
from builders import LARGE, NOON, node, nodepool, stamped
from dovetail.core import wording
from dovetail.core.disruption.budgets import NodeCounts, allowance, count_nodes
from dovetail.core.disruption.pass_context import PassContext, next_wakeup
from dovetail.core.disruption.planner import plan_pass
from dovetail.core.explain.budget_calendar import draw_calendar
from dovetail.core.explain.node import explain_node
from dovetail.core.explain.nodepool import explain_pool
from dovetail.model import nodepool as nodepools
from dovetail.model.reason import VOLUNTARY, Reason
from dovetail.model.snapshot import ClusterNode

TEN = "abcdefghij"
REASONS = sorted(VOLUNTARY)
HOUR = timedelta(hours=1)
NIGHTLY = {"budgets": [{"nodes": "0", "schedule": "0 0 * * *", "duration": "8h"}]}


def going(name):
    return worker(name, claim={"metadata": {"name": name, "deletionTimestamp": stamped(NOON)}})


def allowed(budgets, reason=Reason.EMPTY, total=10, disrupting=0, at=NOON):
    pool = nodepool(disruption={"budgets": budgets})
    return allowance(pool, reason, NodeCounts(total=total, disrupting=disrupting), at)


def test_unmanaged_nodes_do_not_count():
    assert count_nodes([worker("a"), ClusterNode(node("foreign"), None)]).total == 1


def test_uninitialised_nodes_do_not_count():
    assert count_nodes([worker("a"), worker("b", without=("karpenter.sh/initialized",))]).total == 1


def test_nodes_whose_instance_is_terminating_do_not_count():
    assert count_nodes([worker("a"), worker("b", conditions={"InstanceTerminating": "True"})]).total == 1


def vanished(known):
    """The same node after its instance and its Node disappeared."""
    return ClusterNode(None, known.claim)


@pytest.mark.parametrize("gone", [worker("b"), marked("b"), going("b")])
def test_a_vanished_node_counts_as_away_until_its_claim_is_gone(gone):
    assert count_nodes([worker("a"), vanished(gone)]) == NodeCounts(total=2, disrupting=1)


def test_a_claim_that_was_never_initialised_or_whose_instance_ends_is_not_missed():
    unfinished = worker("b", conditions={"Initialized": "Unknown"})
    ending = worker("c", conditions={"InstanceTerminating": "True"})
    assert count_nodes([vanished(unfinished), vanished(ending)]) == NodeCounts(total=0, disrupting=0)


@pytest.mark.parametrize("nodes", ["1", "10%", "50%", "99%"])
def test_a_node_that_vanishes_never_leaves_more_to_a_budget(nodes):
    for many in range(1, 12):
        pool = nodepool(disruption={"budgets": [{"nodes": nodes}]})
        workers = [worker(f"n{number}") for number in range(many)]
        left = [
            allowance(pool, Reason.EMPTY, count_nodes(known), NOON).left
            for known in (workers, [*workers[1:], vanished(workers[0])])
        ]
        assert left[1] <= left[0]


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_left_is_never_negative(reason):
    found = cluster(*map(going, TEN), pools=[nodepool(disruption={"budgets": [{"nodes": "10%"}]})])
    assert PassContext(found).allowance("default", reason).left == 0


@pytest.mark.parametrize("reason", REASONS)
def test_one_deleted_and_one_marked_leave_eight_of_ten(reason):
    found = cluster(going("a"), marked("b"), *map(worker, TEN[2:]))
    assert PassContext(found).allowance("default", reason).left == 8


@pytest.mark.parametrize("reason", REASONS)
def test_two_that_are_not_ready_leave_eight_of_ten(reason):
    found = cluster(worker("a", ready=False), worker("b", ready=False), *map(worker, TEN[2:]))
    assert PassContext(found).allowance("default", reason).left == 8


@pytest.mark.parametrize(("nodes", "number"), [("100%", 10), ("0%", 0), ("30%", 3), ("0", 0), ("3", 3), (25, 10)])
def test_of_ten_empty_nodes_as_many_go_as_the_budget_says(nodes, number):
    pool = nodepool(disruption={"budgets": [{"nodes": nodes}]})
    assert len(taken(cluster(*map(worker, TEN), pools=[pool]))) == number


@pytest.mark.parametrize(("nodes", "number"), [("2", 2), ("100%", 5), ("0", 0)])
@pytest.mark.parametrize("make", [worker, drifted], ids=["empty", "drifted"])
def test_each_pool_has_its_own_budget(make, nodes, number):
    names = ["red", "green", "blue"]
    pools = [nodepool(name, disruption={"budgets": [{"nodes": nodes}]}) for name in names]
    nodes = [make(f"{name}-{each}", pool=name) for name in names for each in range(5)]
    gone = taken(cluster(*nodes, pools=pools))
    assert [sum(each.startswith(name) for each in gone) for name in names] == [number] * 3


def pairs(*names, pool="default"):
    """Nodes that are a quarter full, so that many of them can go."""
    return [worker(name, running(f"p-{name}", name), pool=pool) for name in names]


def test_multi_node_takes_at_most_what_the_budget_allows():
    pool = free(budgets=[{"nodes": "3"}])
    assert planned(cluster(*pairs(*TEN), pools=[pool], types=(LARGE,))) == [("multi-node", ["a", "b", "c"])]


def test_single_node_takes_one_within_its_budget_and_none_without():
    one, none = ([{"nodes": each}] for each in ("1", "0"))
    found = [cluster(*pairs(*TEN), pools=[free(budgets=each)], types=(LARGE,)) for each in (one, none)]
    assert planned(found[0]) == [("single-node", ["a"])]
    assert planned(found[1]) == []
    assert said(found[1], "single-node", "a").code == "Budget"


def test_consolidation_of_several_pools_spends_from_each():
    pools = [free(name, budgets=[{"nodes": "2"}]) for name in ("red", "green", "blue")]
    nodes = [each for pool in pools for each in pairs(*(f"{pool.name}-{n}" for n in range(4)), pool=pool.name)]
    gone = taken(cluster(*nodes, pools=pools, types=(LARGE,)))
    assert len(gone) == 6
    assert {name: sum(each.startswith(name) for each in gone) for name in ("red", "green", "blue")} == {
        "red": 2,
        "green": 2,
        "blue": 2,
    }


@pytest.mark.parametrize("nodes", [map(worker, TEN), pairs(*TEN)], ids=["empty", "underutilized"])
def test_what_a_budget_stopped_is_found_again_as_soon_as_it_allows(nodes):
    """Nothing is memorised: the same nodes go in the first pass in which they may."""
    closed = nodepool(disruption={"budgets": [{"nodes": "0", "schedule": "0 12 * * *", "duration": "1h"}]})
    nodes = list(nodes)
    assert taken(cluster(*nodes, pools=[closed], types=(LARGE,))) == []
    assert taken(cluster(*nodes, pools=[closed], types=(LARGE,), at=NOON + HOUR)) != []


def test_a_budget_that_is_not_in_force_limits_nothing():
    assert allowed([{"nodes": "0", "schedule": "0 3 * * *", "duration": "1h"}]).limit is None


def test_the_minimum_over_budgets_that_match_the_reason_counts():
    budgets = [{"nodes": "7"}, {"nodes": "2", "reasons": ["Drifted"]}, {"nodes": "4", "reasons": ["Empty", "Drifted"]}]
    assert allowed(budgets, Reason.DRIFTED).limit == 2
    assert allowed(budgets, Reason.EMPTY).limit == 4
    assert allowed(budgets, Reason.UNDERUTILIZED).limit == 7


@pytest.mark.parametrize(
    ("minutes", "open_"), [(-1, False), (0, True), (30, True), (59, True), (60, False), (24 * 60, True)]
)
def test_a_window_opens_at_its_hit_and_shuts_at_its_end_in_utc(minutes, open_):
    budget = {"nodes": "0", "schedule": "0 12 * * *", "duration": "1h"}
    assert (allowed([budget], at=NOON + timedelta(minutes=minutes)).limit == 0) is open_


def test_a_window_longer_than_its_recurrence_never_shuts():
    budget = {"nodes": "0", "schedule": "@hourly", "duration": "2h"}
    assert all(allowed([budget], at=NOON + timedelta(minutes=each)).limit == 0 for each in range(0, 300, 7))


@pytest.mark.parametrize(
    "budget",
    [
        {"nodes": "0", "schedule": "* * * *", "duration": "1h"},
        {"nodes": "5", "schedule": "0 0 * * 7", "duration": "1h"},
        {"nodes": "5", "schedule": "0 0 0 * * *", "duration": "1h"},
        {"nodes": "5", "schedule": "@dailyxyz", "duration": "1h"},
        {"nodes": "5", "schedule": "0 0 30 2 *", "duration": "1h"},
        {"nodes": "5", "schedule": "0 0 * * tue-mon", "duration": "1h"},
        {"nodes": "5", "schedule": "@daily", "duration": "0m"},
        {"nodes": "5", "schedule": "@daily", "duration": "-1h"},
        {"nodes": "5", "schedule": "@daily", "duration": "1ns"},
        {"nodes": "5", "schedule": "@daily"},
        {"nodes": "5", "duration": "1h"},
        {"nodes": "some"},
        {"nodes": "-1"},
        {"nodes": "5", "reasons": []},
        {"nodes": "5", "reasons": ["Bored"]},
        {"nodes": "5", "action": "Boredom"},
        {"nodes": "5", "action": "Drift", "reasons": ["Drifted"]},
    ],
    ids=str,
)
def test_a_budget_that_cannot_be_read_blocks_its_pool_for_every_reason_and_no_other(budget):
    """Also when the unreadable one is for another reason, or stands beside one that is fine."""
    blocked = nodepool("blocked", disruption={"budgets": [{"nodes": "100%"}, budget]})
    found = cluster(worker("a", pool="blocked"), worker("b", pool="other"), pools=[blocked, free("other")])
    assert taken(found) == ["b"]
    for reason in REASONS:
        verdict = PassContext(found).allowance("blocked", reason)
        assert verdict.limit == 0
        assert verdict.fault
    refusal = said(found, "emptiness", "a")
    assert refusal.code == "BudgetUnreadable"
    assert "blocked" in wording.message(refusal)


def test_budgets_are_parsed_once(monkeypatch):
    """By the pass, the explanations and the calendar alike; an unreadable one is a value like the others."""
    parsed = []
    real = nodepools.parse_budget
    monkeypatch.setattr(nodepools, "parse_budget", lambda spec: parsed.append(spec) or real(spec))
    pools = [nodepool("bad", disruption={"budgets": [{"nodes": "some"}]}), nodepool("good", disruption=NIGHTLY)]
    found = cluster(worker("a", pool="bad"), worker("b", pool="good"), pools=pools)
    for _ in range(2):
        context = PassContext(found)
        plan_pass(context, thorough=True)
        next_wakeup(found, {})
        for each in found.nodes:
            explain_node(each, context)
        for pool in found.nodepools.values():
            explain_pool(pool, context)
            draw_calendar(pool, 10, NOON, 48)
    assert sorted(str(spec.nodes) for spec in parsed) == ["0", "some"]
    (bad,) = found.nodepools["bad"].budgets
    assert (bad.limit(1000), bad.reasons, bad.in_force(NOON), bool(bad.fault)) == (0, VOLUNTARY, True, True)


def test_an_empty_list_is_no_ceiling_and_an_absent_one_is_ten_percent():
    assert len(taken(cluster(*map(worker, TEN), pools=[nodepool(disruption={"budgets": []})]))) == 10
    assert len(taken(cluster(*map(worker, TEN), pools=[nodepool()]))) == 1


def test_action_controls_add_their_budgets_to_the_list():
    controls = {"Drift": {"budgets": [{"nodes": "1"}]}, "All": {"budgets": [{"nodes": "4"}]}}
    pool = nodepool(disruption={"budgets": [{"nodes": "8"}], "actionControls": controls})
    assert len(pool.budgets) == 3
    counts = NodeCounts(total=10, disrupting=0)
    assert allowance(pool, Reason.DRIFTED, counts, NOON).limit == 1
    assert allowance(pool, Reason.EXPIRED, counts, NOON).limit == 4


def test_the_refusal_names_the_budget_that_binds():
    pool = nodepool(disruption={"budgets": [{"nodes": "80%"}, {"nodes": "1", "action": "Emptiness"}]})
    refusal = said(cluster(worker("a"), worker("b"), pools=[pool]), "emptiness", "b")
    assert wording.message(refusal) == "budget '1' of NodePool default allows 1 for Empty: 0 in use, 1 ahead of it"
