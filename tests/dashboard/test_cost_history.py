"""The recorded cost: the sums of an independent reckoning, gaps where nothing is known, and a bound on memory."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptance.fleet import cluster, free, worker
from builders import NOON, TYPES
from dashboard.pages import page_served
from dovetail.dashboard.cost_history import HOLD, OTHERS, SAMPLE_SECONDS, TIERS, CostHistory

PRICES = {each.name: each.offerings[0].price for each in TYPES}


def of(seconds, *types, pool="default", more=()):
    nodes = [worker(f"{pool}-{number}", pool=pool, type_=each) for number, each in enumerate(types)]
    pools = [free(pool), *(free(each.nodepool_name) for each in more)]
    return cluster(*nodes, *more, pools=pools, at=NOON + timedelta(seconds=seconds))


def recorded(*snapshots):
    history = CostHistory()
    for each in snapshots:
        history.record(each)
    return history


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def test_a_cost_holds_until_the_next_sample():
    history = recorded(of(0, "m.large"), of(60, "m.large", "m.huge"), of(120))
    found = history.document(None, at(120))
    assert found["costPerHour"] == [1.0, 5.0]
    assert found["nodePools"] == [{"name": "default", "costPerHour": [1.0, 5.0]}]
    assert (found["stepSeconds"], found["firstAt"]) == (60, "2026-01-05T12:00:00Z")
    assert (found["dollars"], found["knownSeconds"]) == (0.1, 120)


def test_it_says_from_when_it_knows():
    found = recorded(of(40, "m.large"), of(70, "m.large")).document(NOON - timedelta(hours=1), at(70))
    assert (found["since"], found["knownSince"]) == ("2026-01-05T11:00:00Z", "2026-01-05T12:00:40Z")
    assert found["costPerHour"] == [1.0, 1.0]
    nothing = CostHistory().document(None, NOON)
    assert (nothing["knownSince"], nothing["firstAt"], nothing["costPerHour"]) == (None, None, [])


def test_a_longer_silence_is_a_gap():
    found = recorded(of(0, "m.large"), of(HOLD + 120, "m.large"), of(HOLD + 180)).document(None, at(HOLD + 180))
    assert found["costPerHour"] == [1.0] * 5 + [None, None, 1.0]
    assert found["nodePools"][0]["costPerHour"] == found["costPerHour"]
    assert found["unpricedNodes"][5:7] == [None, None]
    assert found["knownSeconds"] == HOLD + 60


def test_nothing_is_known_while_the_cluster_is_not_read():
    history = recorded(of(0, "m.large"), of(60, "m.large"))
    history.interrupt()
    history.record(of(120, "m.large"))
    history.record(of(180, "m.large"))
    assert history.document(None, at(180))["costPerHour"] == [1.0, None, 1.0]


def test_a_node_without_a_price_is_counted_and_costs_nothing():
    found = recorded(of(0, "m.large", "m.unheard-of"), of(60)).document(None, at(60))
    assert (found["costPerHour"], found["unpricedNodes"]) == ([1.0], [1])


def test_nodes_that_dovetail_does_not_manage_cost_nothing():
    unmanaged = worker("foreign", without=("karpenter.sh/nodepool",))
    found = recorded(cluster(type(unmanaged)(unmanaged.node, None, ())), of(60)).document(None, at(60))
    assert (found["costPerHour"], found["unpricedNodes"]) == ([0.0], [0])


def test_many_nodepools_are_added_up_after_the_first():
    pools = [worker(f"{number}", pool=f"pool-{number}", type_="m.large") for number in range(9)]
    found = recorded(of(0, "m.huge", more=pools), of(60)).document(None, at(60))
    names = [each["name"] for each in found["nodePools"]]
    assert (names[0], names[-1], len(names)) == ("default", OTHERS, 6)
    assert sum(each["costPerHour"][0] for each in found["nodePools"]) == pytest.approx(found["costPerHour"][0]) == 13.0


def test_a_window_has_no_dollars_from_before_it():
    history = recorded(*(of(each, "m.large") for each in range(0, 3 * 3600 + 1, 60)))
    found = history.document(at(2 * 3600 + 30), at(3 * 3600))
    assert found["knownSeconds"] == 3600 - 60
    assert found["dollars"] == pytest.approx((3600 - 60) / 3600, abs=1e-4)


def test_longer_windows_have_longer_steps_and_memory_is_bounded():
    history = CostHistory()
    for minute in range(0, 62 * 24 * 60, 4):
        history.record(of(minute * 60, "m.large"))
    end = at(62 * 86400 - 240)
    steps = [history.document(end - timedelta(hours=hours), end)["stepSeconds"] for hours in (1, 6, 24, 24 * 30)]
    assert steps == [60, 60, 600, 3600]
    assert [len(tier.buckets) for tier in history._tiers] == [most for _, most in TIERS]
    whole = history.document(None, end)
    assert set(whole["costPerHour"]) == {1.0}
    assert whole["knownSince"] == "2026-01-07T11:56:00Z"  # sixty days
    assert whole["knownSeconds"] > (60 * 24 - 1) * 3600


@given(
    st.lists(
        st.tuples(st.floats(SAMPLE_SECONDS, 2 * HOLD), st.lists(st.sampled_from([*PRICES]), max_size=4)), min_size=1
    )
)
def test_law_dollars_are_those_of_an_independent_reckoning(steps):
    history, now, spent, known, last = CostHistory(), 0.0, 0.0, 0.0, None
    for pause, types in steps:
        if last is not None:
            held = min(pause, HOLD)
            spent, known = spent + last * held / 3600, known + held
            now += pause
        history.record(of(now, *types))
        last = sum(PRICES[each] for each in types)
    found = history.document(None, at(now))
    assert found["dollars"] == pytest.approx(spent, abs=1e-3)
    assert found["knownSeconds"] == pytest.approx(known, abs=1)


def test_the_page_serves_it_with_the_nodes_that_have_no_price_now():
    with page_served(of(60, "m.large", "m.unheard-of")) as page:
        page.published_state.cost_history.record(of(0, "m.large"))
        page.published_state.cost_history.record(of(60, "m.large"))
        answer = page.ask("/api/cost").json
        assert (answer["costPerHour"], answer["unpricedNow"]) == ([1.0], 1)
        assert page.ask("/api/cost?since=24h").json["since"] == "2026-01-04T12:01:00Z"
        assert page.ask("/api/cost?since=soon").status == 400
