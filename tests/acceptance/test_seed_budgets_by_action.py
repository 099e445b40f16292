"""The examples of the design "disruption controls by action": budgets with an action, and controls for each action."""

from datetime import UTC, datetime, timedelta

import pytest

from acceptance.fleet import cluster, drifted, free, running, said, taken, worker
from builders import LARGE, NOON, SMALL, nodepool, stamped
from dovetail.core import wording
from dovetail.core.disruption.budgets import NodeCounts, allowance
from dovetail.core.disruption.delays import consolidation_wait, drift_wait, emptiness_wait, expiration_wait
from dovetail.model.reason import VOLUNTARY, Reason

HUNDRED = NodeCounts(total=100, disrupting=0)
MIDNIGHT = datetime(2026, 2, 1, tzinfo=UTC)  # the first of a month, and a Sunday
HOUR = timedelta(hours=1)


def limits(pool, at, counts=HUNDRED):
    return {reason: allowance(pool, reason, counts, at).limit for reason in sorted(VOLUNTARY)}


APPROACH_A = {"budgets": [{"schedule": "0 0 1 * *", "duration": "8h", "action": "Drift", "nodes": 15}, {"nodes": 10}]}


@pytest.mark.parametrize("hours", [0, 4, 8, 300])
def test_approach_a_a_looser_budget_for_drift_never_loosens_the_general_one(hours):
    """The most restrictive one in force wins, so ten it is, inside the window and outside."""
    assert set(limits(nodepool(disruption=APPROACH_A), MIDNIGHT + hours * HOUR).values()) == {10}


@pytest.mark.parametrize(("hours", "drift"), [(-1, 10), (0, 2), (7.99, 2), (8, 10)])
def test_approach_a_a_tighter_budget_for_drift_binds_drift_alone_while_its_window_is_open(hours, drift):
    disruption = {"budgets": [{**APPROACH_A["budgets"][0], "nodes": 2}, {"nodes": 10}]}
    assert limits(nodepool(disruption=disruption), MIDNIGHT + hours * HOUR) == {
        Reason.DRIFTED: drift,
        Reason.EMPTY: 10,
        Reason.EXPIRED: 10,
        Reason.UNDERUTILIZED: 10,
    }


def test_approach_a_as_written_without_a_duration_blocks_the_pool_and_says_why():
    written = {"budgets": [{"schedule": "0 0 1 * *", "action": "Drift", "nodes": 15}, {"nodes": 10}]}
    found = cluster(worker("a"), pools=[nodepool(disruption=written)])
    assert taken(found) == []
    assert "'schedule' must be set with 'duration'" in wording.message(said(found, "emptiness", "a"))


def test_approach_a_no_action_is_all_actions():
    for budget in ({"nodes": 3}, {"nodes": 3, "action": "All"}):
        assert set(limits(nodepool(disruption={"budgets": [budget]}), NOON).values()) == {3}


@pytest.mark.parametrize(
    ("action", "governed"),
    [
        ("All", {"Expired", "Drifted", "Empty", "Underutilized"}),
        ("Consolidation", {"Empty", "Underutilized"}),
        ("Drift", {"Drifted"}),
        ("Expiration", {"Expired"}),
        ("Emptiness", {"Empty"}),
    ],
)
def test_the_actions(action, governed):
    found = limits(nodepool(disruption={"budgets": [{"nodes": 3, "action": action}]}), NOON)
    assert {reason for reason, limit in found.items() if limit == 3} == governed
    assert {reason for reason, limit in found.items() if limit is None} == {*found} - governed


def test_requirement_3_all_is_the_default_for_actions_without_a_budget_in_force():
    disruption = {
        "budgets": [{"nodes": 10}, {"nodes": 1, "action": "Drift", "schedule": "0 0 1 * *", "duration": "1h"}]
    }
    assert allowance(nodepool(disruption=disruption), Reason.DRIFTED, HUNDRED, MIDNIGHT + 2 * HOUR).limit == 10


def test_requirement_4_the_most_restrictive_budget_in_force_wins():
    budgets = [{"nodes": 7, "action": "Drift"}, {"nodes": "3%", "action": "Drift"}, {"nodes": 5}]
    assert allowance(nodepool(disruption={"budgets": budgets}), Reason.DRIFTED, HUNDRED, NOON).limit == 3


APPROACH_B = {
    "consolidationPolicy": "WhenUnderutilized",
    "genericPerActionControls": {
        "Consolidation": {
            "disruptAfter": "30m",
            "budgets": [{"nodes": "20%", "schedule": "0 0 1 * *", "duration": "1h"}],
        },
        "Drift": {"disruptAfter": "1h", "budgets": [{"nodes": "10%", "schedule": "0 0 * * 0", "duration": "2h"}]},
        "Expiration": {"disruptAfter": "Never"},
    },
}


def pool_b(spelling="genericPerActionControls", **more):
    disruption = {key: value for key, value in APPROACH_B.items() if key != "genericPerActionControls"}
    return nodepool(disruption={**disruption, spelling: APPROACH_B["genericPerActionControls"], "budgets": [], **more})


@pytest.mark.parametrize("spelling", ["genericPerActionControls", "actionControls"])
@pytest.mark.parametrize(
    ("hours", "consolidation", "drift"), [(0, 20, 10), (0.99, 20, 10), (1, None, 10), (1.99, None, 10), (2, None, None)]
)
def test_approach_b_each_action_has_its_own_budgets_in_its_own_windows(spelling, hours, consolidation, drift):
    assert limits(pool_b(spelling), MIDNIGHT + hours * HOUR) == {
        Reason.DRIFTED: drift,
        Reason.EMPTY: consolidation,
        Reason.EXPIRED: None,
        Reason.UNDERUTILIZED: consolidation,
    }


@pytest.mark.parametrize(("minutes", "over"), [(29, False), (30, True)])
def test_approach_b_consolidation_waits_thirty_minutes_after_the_last_pod_event(minutes, over):
    node = worker("a", status={"lastPodEventTime": stamped(NOON - timedelta(minutes=minutes))})
    assert consolidation_wait(pool_b(), node.claim, NOON).over is over
    assert emptiness_wait(pool_b(), node.claim, NOON).over is over, "an empty node is consolidated too"


@pytest.mark.parametrize(("minutes", "names"), [(59, []), (60, ["a"])])
def test_approach_b_drift_waits_an_hour_from_when_the_node_drifted(minutes, names):
    found = cluster(
        drifted("a", running("x", "a", cpu="3500m"), since=timedelta(minutes=minutes)),
        pools=[pool_b(consolidateAfter="Never")],
    )
    assert drift_wait(pool_b(), found.nodes[0].claim, NOON).over is bool(names)
    assert taken(found) == names


@pytest.mark.parametrize("expire_after", [None, "1h"])
def test_approach_b_expiration_never(expire_after):
    """Also against the older field: the longer wait wins."""
    pool = pool_b(**({"expireAfter": expire_after} if expire_after else {}))
    assert expiration_wait(pool, worker("a", age=timedelta(days=9999)).claim, NOON).never


def test_both_spellings_of_the_controls_at_once_are_refused():
    both = {**APPROACH_B, "actionControls": {"Drift": {"disruptAfter": "1h"}}}
    found = cluster(worker("a"), pools=[nodepool(disruption=both)])
    assert taken(found) == []


def test_a_cluster_that_would_consolidate_waits_for_the_control():
    nodes = worker("a", running("x", "a"), status={"lastPodEventTime": stamped(NOON - timedelta(minutes=10))})
    pools = [free(actionControls={"Consolidation": {"disruptAfter": "30m"}})]
    assert "until 2026-01-05T12:20:00Z" in wording.message(
        said(cluster(nodes, pools=pools, types=(SMALL, LARGE)), "single-node", "a")
    )


TEN_PERCENT = [{"nodes": "10%"}]
"""The default that the CRD sets."""


def by_action(budgets, **entries):
    """The ceilings at noon of a pool with these entries, each a list of budgets."""
    controls = {"actionControls": {action: {"budgets": written} for action, written in entries.items()}}
    own = {} if budgets is None else {"budgets": budgets}
    return {str(reason): limit for reason, limit in limits(nodepool(disruption={**controls, **own}), NOON).items()}


@pytest.mark.parametrize("budgets", [None, TEN_PERCENT], ids=["absent", "written by the CRD"])
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, (10, 10, 10, 10)),
        ({"Drift": [{"nodes": 40}]}, (10, 10, 40, 10)),
        ({"Consolidation": [{"nodes": 40}]}, (40, 40, 10, 10)),
        ({"Emptiness": [{"nodes": 40}]}, (40, 10, 10, 10)),
        ({"Emptiness": [{"nodes": 40}], "Consolidation": [{"nodes": 5}]}, (40, 5, 10, 10)),
        ({"Emptiness": [{"nodes": 2}], "Consolidation": [{"nodes": 50}]}, (2, 50, 10, 10)),
        ({"All": [{"nodes": 40}]}, (40, 40, 40, 40)),
        ({"All": [{"nodes": 40}], "Drift": [{"nodes": 50}]}, (40, 40, 50, 40)),
        ({"All": [{"nodes": 40}], "Consolidation": [{"nodes": 50}]}, (50, 50, 40, 40)),
        ({"All": [{"nodes": 40}], "Emptiness": [{"nodes": 50}]}, (50, 40, 40, 40)),
        ({"Drift": [{"nodes": 40}, {"nodes": "3%"}]}, (10, 10, 3, 10)),
        ({"Drift": []}, (10, 10, None, 10)),
    ],
)
def test_approach_b_the_most_specific_entry_governs_and_ten_percent_only_what_nothing_else_does(
    budgets, entries, expected
):
    found = by_action(budgets, **entries)
    assert tuple(found[each] for each in ("Empty", "Underutilized", "Drifted", "Expired")) == expected


@pytest.mark.parametrize(
    ("ceiling", "drifted", "others"),
    [
        ([{"nodes": 5}], 5, 5),
        ([{"nodes": "10%", "action": "All"}], 10, 10),
        ([{"nodes": "10%"}, {"nodes": "10%"}], 10, 10),
        ([{"nodes": 60}], 40, 60),
        ([{"nodes": 5, "action": "Drift"}], 5, None),
        ([], 40, None),
    ],
)
def test_approach_b_any_other_list_of_budgets_is_a_ceiling_for_all(ceiling, drifted, others):
    found = by_action(ceiling, Drift=[{"nodes": 40}])
    assert found == {"Drifted": drifted, "Empty": others, "Expired": others, "Underutilized": others}


@pytest.mark.parametrize("at", [NOON, MIDNIGHT])
def test_approach_b_an_entry_governs_its_action_outside_its_windows_too(at):
    """An action with budgets of its own is not the default's any more: with no window open, it has no ceiling."""
    window = {"nodes": 2, "schedule": "0 0 1 * *", "duration": "1h"}
    pool = nodepool(disruption={"actionControls": {"Drift": {"budgets": [window]}, "All": {"budgets": [{"nodes": 7}]}}})
    assert allowance(pool, Reason.DRIFTED, HUNDRED, at).limit == (2 if at == MIDNIGHT else None)
    assert allowance(pool, Reason.EMPTY, HUNDRED, at).limit == 7


def test_approach_b_as_written_leaves_expiration_to_the_ten_percent():
    """The example: Consolidation and Drift have budgets of their own, Expiration has an entry without any."""
    pool = nodepool(disruption=APPROACH_B)
    inside = {Reason.DRIFTED: 10, Reason.EMPTY: 20, Reason.EXPIRED: 10, Reason.UNDERUTILIZED: 20}
    assert limits(pool, MIDNIGHT) == inside
    outside = {Reason.DRIFTED: None, Reason.EMPTY: None, Reason.EXPIRED: 10, Reason.UNDERUTILIZED: None}
    assert limits(pool, MIDNIGHT + 3 * HOUR) == outside


@pytest.mark.parametrize("inside", [{"action": "Emptiness"}, {"reasons": ["Empty"]}])
def test_approach_b_a_budget_under_an_action_that_names_another_blocks_the_pool(inside):
    written = {"actionControls": {"Drift": {"budgets": [{"nodes": 5, **inside}]}}}
    found = cluster(worker("a"), pools=[nodepool(disruption=written)])
    assert taken(found) == []
    assert "actionControls.Drift: budgets under an action are for that action" in wording.message(
        said(found, "emptiness", "a")
    )


@pytest.mark.parametrize(
    ("controls", "consolidation", "emptiness", "drift"),
    [
        ({"All": "1h"}, 60, 60, 60),
        ({"All": "1h", "Drift": "2h"}, 60, 60, 120),
        ({"All": "1h", "Consolidation": "30m"}, 30, 30, 60),
        ({"All": "1h", "Emptiness": "5m"}, 60, 5, 60),
        ({"Consolidation": "30m", "Emptiness": "5m"}, 30, 5, 0),
        ({"Consolidation": "30m", "Emptiness": "2h"}, 30, 120, 0),
        ({"All": "1h", "Drift": None}, 60, 60, 60),
    ],
)
def test_approach_b_disrupt_after_of_the_most_specific_entry_counts_and_all_is_the_default(
    controls, consolidation, emptiness, drift
):
    """An entry that leaves `disruptAfter` out takes it from `All`, as it does with budgets."""
    entries = {
        action: {"budgets": [{"nodes": 1}]} if after is None else {"disruptAfter": after}
        for action, after in controls.items()
    }
    pool, node = nodepool(disruption={"actionControls": entries}), drifted("a", since=timedelta())
    claim = worker("a", status={"lastPodEventTime": stamped(NOON)}).claim
    waits = [(consolidation_wait, claim), (emptiness_wait, claim), (drift_wait, node.claim)]
    for (wait, of), minutes in zip(waits, (consolidation, emptiness, drift), strict=True):
        end = NOON + timedelta(minutes=minutes)
        assert wait(pool, of, end).over
        assert not minutes or wait(pool, of, NOON).until == end


@pytest.mark.parametrize("delay", ["Never", "100h"])
def test_approach_b_a_wait_for_expiration_takes_the_place_of_the_assumed_720_hours(delay):
    """It is another spelling of `disruption.expireAfter`: nodes are replaced with care, or never."""
    pool = nodepool(disruption={"actionControls": {"Expiration": {"disruptAfter": delay}}})
    assert pool.hard_expire_after.never


def test_all_does_not_make_nodes_expire():
    pool = nodepool(disruption={"actionControls": {"All": {"disruptAfter": "1h"}}})
    assert expiration_wait(pool, worker("a", age=timedelta(days=9)).claim, NOON).never
    assert str(pool.hard_expire_after) == "720h"


def test_a_cluster_disrupts_by_the_budget_of_each_action():
    """Ten empty nodes: one by the implicit 10 %, four by the budget of their own action."""
    nodes = [worker(name) for name in "abcdefghij"]
    assert len(taken(cluster(*nodes, pools=[nodepool(disruption={})]))) == 1
    own = {"budgets": TEN_PERCENT, "actionControls": {"Emptiness": {"budgets": [{"nodes": 4}]}}}
    assert len(taken(cluster(*nodes, pools=[nodepool(disruption=own)]))) == 4
