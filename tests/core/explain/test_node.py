"""What stands between a node and each method, until when, and what windows and calendars say."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptance.fleet import ON_DEMAND, cluster, drifted, free, pdb, running, shielded, worker
from builders import NOON, claim, node, nodepool, pod, stamped
from dovetail.core import wording
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.explain import budget_calendar
from dovetail.core.explain.budget_calendar import Allowed, draw_calendar
from dovetail.core.explain.node import explain_node
from dovetail.core.explain.nodepool import explain_pool
from dovetail.core.explain.pod import explain_pod, find_pod
from dovetail.core.verdict_wording import pod_waits
from dovetail.model.budget import BudgetSpec, BudgetWindow, parse_budget
from dovetail.model.cron import CronSchedule
from dovetail.model.duration import Duration
from dovetail.model.kube_object import Key
from dovetail.model.reason import Action, Reason
from dovetail.model.snapshot import ClusterNode
from dovetail.model.unreadable_objects import UnreadableEntry

HOUR = timedelta(hours=1)
CREATED = {"creationTimestamp": stamped(NOON - HOUR)}


def views(found, name="a"):
    asked = next(each for each in found.nodes if each.name == name)
    return {view.method: view for view in explain_node(asked, PassContext(found)).methods}


def codes(view):
    return [each.code for each in view.obstacles]


def budgets(*written):
    return nodepool(disruption={"budgets": list(written)})


def test_a_protected_pod_is_named_with_the_instant_its_protection_ends():
    held = shielded("build-7", "a", "3h", metadata={**CREATED, "annotations": {"karpenter.sh/do-not-disrupt": "3h"}})
    (obstacle,) = views(cluster(worker("a", held)))["single-node"].obstacles
    assert wording.obstacle(obstacle) == "protected by pod default/build-7"
    assert obstacle.until == NOON + 2 * HOUR
    assert not obstacle.permanent


def test_protection_without_end_is_permanent_and_an_unreadable_one_says_so():
    always, odd = shielded("always", "a"), shielded("odd", "a", "soon")
    first, second = views(cluster(worker("a", always, odd)))["single-node"].obstacles
    assert first.permanent
    assert second.permanent
    assert "cannot be understood: 'soon'" in wording.obstacle(second)


def test_a_pdb_is_transient_or_permanent():
    (passing,) = views(cluster(worker("a", running("x", "a")), pdbs=[pdb()]))["single-node"].obstacles
    assert (passing.code, passing.permanent) == ("PodDisruptionBudget", False)
    one_replica = pdb(expectedPods=1, desiredHealthy=1, currentHealthy=1)
    (lasting,) = views(cluster(worker("a", running("x", "a")), pdbs=[one_replica]))["single-node"].obstacles
    assert lasting.permanent


def test_all_obstacles_are_listed_in_order_and_end_at_the_latest_instant():
    pool = nodepool(
        disruption={
            "consolidateAfter": "25h",
            "consolidationGracePeriod": "26h",
            "budgets": [{"nodes": "100%"}, {"nodes": "0", "schedule": "0 9 * * *", "duration": "4h"}],
        }
    )
    held = shielded("x", "a", metadata={**CREATED, "annotations": {"karpenter.sh/do-not-disrupt": "90m"}})
    view = views(cluster(worker("a", held), pools=[pool]))["single-node"]
    assert [(each.code, each.until) for each in view.obstacles] == [
        ("DoNotDisruptPod", NOON + HOUR / 2),
        ("Waiting", NOON + HOUR),
        ("Waiting", NOON + 2 * HOUR),
        ("Budget", NOON + HOUR),
    ]
    assert wording.obstacle(view.obstacles[3]).startswith("budget 2 of 2 ('0') in force allows 0 of 1 nodes")
    assert view.lifts_at == NOON + 2 * HOUR


def test_one_obstacle_without_an_instant_and_there_is_no_instant_for_all():
    held = shielded("x", "a", metadata={**CREATED, "annotations": {"karpenter.sh/do-not-disrupt": "90m"}})
    view = views(cluster(worker("a", held), pools=[budgets({"nodes": "0"})]))["single-node"]
    assert codes(view) == ["DoNotDisruptPod", "Budget"]
    assert view.obstacles[1].permanent
    assert view.lifts_at is None


def test_a_node_says_everything_it_has_against_it_not_only_the_first_thing():
    annotated = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    found = cluster(worker("a", running("x", "a"), metadata=annotated), pdbs=[pdb()], nominated=frozenset({"a"}))
    assert codes(views(found)["single-node"]) == ["Nominated", "DoNotDisruptNode", "PodDisruptionBudget"]
    assert [each.permanent for each in views(found)["single-node"].obstacles] == [False, True, False]


def test_a_method_says_everything_it_has_against_a_node():
    pool = free(consolidationPolicy="WhenEmpty", consolidateAfter="25h", consolidationGracePeriod="26h")
    single = views(cluster(worker("a", running("x", "a"), type_="unheard-of"), pools=[pool]))["single-node"]
    assert [(each.code, each.until) for each in single.obstacles] == [
        ("InstanceTypeUnknown", None),
        ("PolicyWhenEmpty", None),
        ("Waiting", NOON + HOUR),
        ("Waiting", NOON + 2 * HOUR),
    ]


def test_the_simulation_is_explained_although_another_obstacle_comes_first():
    """Waiting for the budget alone would be in vain: nothing cheaper is to be had."""
    found = cluster(
        worker("a", running("x", "a"), type_="m.small"), pools=[free(template=ON_DEMAND, budgets=[{"nodes": "0"}])]
    )
    assert codes(views(found)["single-node"]) == ["Budget", "Unschedulable"]


def test_a_clock_that_has_not_started_is_not_called_endless():
    coming = ClusterNode(None, claim("a", age=HOUR, status={"conditions": []}))
    emptiness = views(cluster(coming, pools=[free(consolidateAfter="1h")]))["emptiness"]
    assert [(each.code, each.permanent) for each in emptiness.obstacles] == [("NodeMissing", False), ("Waiting", False)]
    assert "has not started" in wording.obstacle(emptiness.obstacles[1])


@pytest.mark.parametrize(("pods", "words"), [(1, "1 pod runs on it"), (2, "2 pods run on it")])
def test_pods_are_counted_in_plain_words(pods, words):
    node_of = worker("a", *(running(f"x{number}", "a") for number in range(pods)))
    assert words in wording.obstacle(views(cluster(node_of))["emptiness"].obstacles[0])


def test_a_node_nothing_stands_against_has_its_command_and_later_methods_know_who_acts_first():
    found = views(cluster(drifted("a"), worker("b", running("x", "b"))))
    assert found["drift"].command is not None
    assert found["drift"].after == ""
    assert found["emptiness"].command is not None
    assert found["emptiness"].after == "drift"


def test_obstacles_of_the_simulation_are_explained_too():
    full = running("x", "a", cpu="3")
    assert codes(views(cluster(worker("a", full, type_="m.large")))["multi-node"]) == ["NoSet"]


def test_a_budget_that_cannot_be_understood_is_an_obstacle_for_every_method():
    unreadable = {"nodes": "1", "action": "Drift", "reasons": ["Drifted"]}
    pool = nodepool(disruption={"budgets": [unreadable], "expireAfter": "99h"})
    for view in views(cluster(worker("a"), pools=[pool])).values():
        assert "BudgetUnreadable" in codes(view)


def test_where_a_drain_is_bounded_drift_waits_for_protected_pods_and_not_for_budgets():
    bounded = {"spec": {"terminationGracePeriod": "1h"}}
    node = drifted("a", shielded("x", "a"), running("y", "a"), claim=bounded)
    found = views(cluster(node, pdbs=[pdb()]))
    assert "DoNotDisruptPod" in codes(found["drift"])
    assert "PodDisruptionBudget" not in codes(found["drift"])
    assert {"DoNotDisruptPod", "PodDisruptionBudget"} <= {*codes(found["single-node"])}


def test_without_any_expiration_a_node_never_expires():
    (obstacle,) = views(cluster(worker("a")))["expiration"].obstacles
    assert obstacle.permanent
    assert wording.obstacle(obstacle).startswith("never expires")


def test_hard_expiration_is_explained_with_its_instant_and_without_budgets():
    hard = worker("a", age=20 * HOUR, claim={"spec": {"expireAfter": "24h"}})
    (obstacle,) = views(cluster(hard, pools=[budgets({"nodes": "0"})]))["expiration"].obstacles
    assert wording.obstacle(obstacle) == "not expired: expires after 24h, regardless of budgets"
    assert (obstacle.code, obstacle.until) == ("Never", NOON + 4 * HOUR)


def test_every_method_either_takes_a_node_or_has_an_obstacle_as_the_plan_has_a_refusal():
    held = shielded("y", "b")
    found = cluster(worker("a"), worker("b", held), drifted("c", running("z", "c")), pools=[free()])
    plan = plan_disruption(found, thorough=True)
    for asked in found.nodes:
        for method, view in views(found, asked.name).items():
            refused = [
                each.code for each in plan.refusals_by_method[method] if str(each.object) == f"node/{asked.name}"
            ]
            assert bool(view.obstacles) == bool(refused)
            assert (view.command is None) == bool(view.obstacles)
            assert not refused or refused[0] in codes(view)


def test_a_node_without_nodeclaim_is_unmanaged():
    found = cluster(ClusterNode(node("a"), None))
    assert {tuple(codes(view)) for view in views(found).values()} == {("Unmanaged",)}


def test_a_node_that_is_not_there_yet_and_one_whose_pool_is_gone_say_so():
    coming = ClusterNode(None, claim("a", age=HOUR))
    assert codes(views(cluster(coming))["expiration"])[0] == "NodeMissing"
    assert codes(views(cluster(worker("a", pool="gone")))["drift"]) == ["NodePoolMissing"]


def test_a_pool_that_backs_off_says_until_when():
    found = cluster(drifted("a"))
    context = PassContext(found, backing_off={("default", Reason.DRIFTED): NOON + HOUR})
    drift = explain_node(found.nodes[0], context).methods[1]
    assert [(each.code, each.until) for each in drift.obstacles] == [("BackingOff", NOON + HOUR)]


def window(schedule, duration):
    return BudgetWindow(CronSchedule.parse(schedule), Duration.parse(duration).span)


def test_a_window_closes_at_its_end_and_one_that_is_closed_opens_at_the_next_hit():
    nine = window("0 9 * * *", "4h")
    assert nine.closes_at(NOON) == NOON + HOUR
    assert nine.opens_at(NOON) is None
    assert nine.closes_at(NOON + HOUR) is None
    assert nine.opens_at(NOON + HOUR) == NOON + 21 * HOUR


def test_windows_that_touch_or_overlap_count_as_one():
    assert window("0 9-14 * * *", "1h").closes_at(NOON) == NOON + 3 * HOUR
    assert window("0 9-14 * * *", "90m").closes_at(NOON) == NOON + 3.5 * HOUR


def test_a_window_that_is_always_open_never_closes():
    assert window("* * * * *", "1m").closes_at(NOON) is None


@given(
    st.sampled_from(["0 9 * * *", "*/20 * * * *", "30 8-17 * * mon-fri", "0 0 1 * *", "15 */6 * * sun"]),
    st.integers(1, 3000),
    st.integers(0, 60 * 24 * 30),
)
def test_a_window_is_open_up_to_the_instant_it_closes_and_not_at_it(schedule, minutes, later):
    found = BudgetWindow(CronSchedule.parse(schedule), timedelta(minutes=minutes))
    now = NOON + timedelta(minutes=later)
    closing, opening = found.closes_at(now), found.opens_at(now)
    if closing is not None:
        assert found.open_at(now)
        assert found.open_at(closing - timedelta(seconds=1))
        assert not found.open_at(closing)
    if opening is not None:
        assert not found.open_at(now)
        assert found.open_at(opening)


SCHEDULES = ["0 9 * * *", "* * * * *", "*/7 9-17 * * mon-fri", "0,59 * * * *", "* 22-23 * * *", "5 0 1,15 * *"]


@given(st.sampled_from(SCHEDULES), st.integers(1, 90 * 60), st.integers(0, 60 * 24 * 40))
def test_law_a_window_closes_where_walking_from_hit_to_hit_ends(schedule, seconds, later):
    found = BudgetWindow(CronSchedule.parse(schedule), timedelta(seconds=seconds))
    now = end = NOON + timedelta(minutes=later)
    for _ in range(3000):
        hit = found.schedule.last_at_or_before(end, found.duration)
        if hit is None:
            break
        end = hit + found.duration
    endless = end > now + timedelta(days=1.5)
    assert found.closes_at(now) == (None if end == now or endless else end)


def test_a_year_of_windows_that_open_every_minute_is_drawn_as_fast_as_any(monkeypatch):
    """Hours that are alike are worked out once."""
    worked_out = []
    hour = budget_calendar._hour
    monkeypatch.setattr(budget_calendar, "_hour", lambda *given: worked_out.append(1) or hour(*given))
    pool = budgets({"nodes": "0", "schedule": "* * * * *", "duration": "30s"}, {"nodes": "50%"})
    calendar = draw_calendar(pool, 9, datetime(2026, 1, 5, tzinfo=UTC), 366 * 24)
    assert set(calendar.hours_by_action[Action.DRIFT]) == {Allowed(0, 5)}
    assert len(worked_out) <= 2


MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def test_a_calendar_has_the_tightest_budget_of_each_action_in_each_hour():
    pool = budgets(
        {"nodes": "20%"},
        {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h30m"},
        {"nodes": "5", "reasons": ["Drifted"]},
    )
    calendar = draw_calendar(pool, 40, MONDAY, 48)
    consolidation, drift = (calendar.hours_by_action[each] for each in (Action.CONSOLIDATION, Action.DRIFT))
    assert consolidation[8:19] == (Allowed(8, 8), *[Allowed(0, 0)] * 8, Allowed(0, 8), Allowed(8, 8))
    assert drift[8] == Allowed(5, 5)
    assert len(drift) == 48


def test_hours_without_a_budget_have_no_ceiling():
    pool = budgets({"nodes": "1", "schedule": "0 9 * * *", "duration": "30m"})
    hours = draw_calendar(pool, 4, MONDAY, 24).hours_by_action[Action.DRIFT]
    assert hours[8] == Allowed(None, None)
    assert hours[9] == Allowed(1, None)


def test_a_calendar_of_a_faulty_pool_allows_nothing_and_says_why():
    calendar = draw_calendar(budgets({"nodes": "1", "schedule": "0 9 * * *"}), 4, MONDAY, 24)
    assert "must be set with" in calendar.fault
    assert {each for hours in calendar.hours_by_action.values() for each in hours} == {Allowed(0, 0)}


@given(
    st.sampled_from(["0 9 * * *", "*/20 * * * *", "30 8-17 * * mon-fri", "15 */6 * * sun"]),
    st.integers(1, 2000),
    st.integers(0, 24 * 60 - 1),
)
def test_at_every_minute_the_ceiling_lies_within_the_hour_it_is_in(schedule, minutes, minute):
    spec = BudgetSpec(nodes="2", schedule=schedule, duration=Duration.of(timedelta(minutes=minutes)))
    pool = budgets({"nodes": "5"}, {"nodes": "2", "schedule": schedule, "duration": str(spec.duration)})
    now = MONDAY + timedelta(minutes=minute)
    hour = draw_calendar(pool, 9, MONDAY, 24).hours_by_action[Action.DRIFT][minute // 60]
    ceiling = 2 if parse_budget(spec).governs(Reason.DRIFTED, now) else 5
    assert hour.least <= ceiling <= hour.most


def test_a_pool_is_explained_with_its_budgets_and_what_they_allow():
    pool = budgets({"nodes": "2"}, {"nodes": "0", "reasons": ["Drifted"], "schedule": "0 14 * * *", "duration": "1h"})
    told = explain_pool(pool, PassContext(cluster(worker("a"), worker("b"), pools=[pool])))
    assert [(each.in_force, each.opens_at) for each in told.budgets] == [(True, None), (False, NOON + 2 * HOUR)]
    assert told.changes_at[Reason.DRIFTED] == NOON + 2 * HOUR
    assert told.changes_at[Reason.EMPTY] is None
    assert told.allowances[Reason.DRIFTED].left == 2
    assert told.counts.total == 2


def told_of(found, name):
    return explain_pod(*find_pod(found, Key("default", name)), PassContext(found))


def test_a_pod_on_a_node_has_its_protection_and_budgets():
    told = told_of(cluster(worker("a", shielded("x", "a")), pdbs=[pdb(allowed=1)]), "x")
    assert told.node.name == "a"
    assert told.protection.active
    assert [each.name for each in told.pdbs] == ["web"]
    assert told.block is None


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        (pod("x", cpu="64"), "m.huge"),
        (pod("x"), "fits node a"),
        (pod("x", cpu="8"), "a node of NodePool default would be launched for it"),
        (pod("x", status={"phase": "Pending"}), "kube-scheduler has not marked"),
        (pod("x", status={"phase": "Succeeded"}), "it has ended (Succeeded)"),
    ],
)
def test_a_pod_without_a_node_says_why(waiting, words):
    told = told_of(cluster(worker("a"), pods=[waiting]), "x")
    assert told.node is None
    assert words in pod_waits(told.verdict)


def test_an_unreadable_object_of_unknown_place_keeps_every_node_and_is_listed_first():
    odd = UnreadableEntry(kind="Pod", namespace="shop", name="web-1", problem="spec: expected object", everywhere=True)
    found = replace(cluster(worker("a"), worker("b", shielded("x", "b"))), unreadable=(odd,))
    for name in ("a", "b"):
        for view in views(found, name).values():
            assert view.command is None
            assert codes(view)[0] == "Unreadable"
            assert view.obstacles[0].permanent
            assert "shop/web-1" in wording.obstacle(view.obstacles[0])
    assert "shop/web-1" in told_of(found, "x").unreadable
    assert "shop/web-1" in explain_pool(found.nodepools["default"], PassContext(found)).unreadable


def test_an_unreadable_object_keeps_only_its_own_node():
    odd = UnreadableEntry(kind="Pod", namespace="shop", name="web-1", problem="spec: expected object", node="b")
    found = replace(cluster(worker("a"), worker("b")), unreadable=(odd,))
    assert all("Unreadable" not in codes(view) for view in views(found, "a").values())
    assert all(codes(view)[0] == "Unreadable" for view in views(found, "b").values())
    assert "shop/web-1" in explain_pool(found.nodepools["default"], PassContext(found)).unreadable
