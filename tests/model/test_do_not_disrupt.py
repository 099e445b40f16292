"""Of several protections the longest is named, and no node is said to leave while a budget of zero is in force."""

from datetime import timedelta
from itertools import permutations

import pytest

from acceptance.fleet import DO_NOT_DISRUPT, cluster, free, running, said, worker
from builders import NOON, stamped
from dovetail.core import wording
from dovetail.core.disruption.events import refused
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.explain.node import explain_node
from dovetail.core.lifecycle.repair import RepairTerms
from dovetail.dashboard.waiting_for import waits_in

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def protected(value, on="a"):
    """A pod made at noon, named by what its annotation says."""
    metadata = {"creationTimestamp": stamped(NOON), "annotations": {DO_NOT_DISRUPT: value}}
    return running(f"for-{value}", on, cpu="100m", metadata=metadata)


def single_node(found):
    return next(
        each for each in explain_node(found.nodes[0], PassContext(found)).methods if each.method == "single-node"
    )


@pytest.mark.parametrize("order", [*permutations(("3h", "5h", "4h"))])
def test_the_longest_protection_is_named_in_refusal_event_and_explanation(order):
    found = cluster(worker("a", *map(protected, order)))
    refusal = said(found, "single-node", "a")
    assert refusal.until == NOON + 5 * HOUR
    assert "default/for-5h" in wording.message(refusal)
    assert refused("single-node", refusal)[1].endswith("- until 2026-01-05T17:00:00Z")
    view = single_node(found)
    assert [each.until for each in view.obstacles] == [NOON + hours * HOUR for hours in (5, 4, 3)]
    assert view.lifts_at == NOON + 5 * HOUR


@pytest.mark.parametrize("order", [*permutations(("3h", "true", "500h"))])
def test_a_protection_without_end_is_the_longest_of_all(order):
    found = cluster(worker("a", *map(protected, order)))
    refusal = said(found, "single-node", "a")
    assert (refusal.until, refusal.permanent) == (None, True)
    assert "default/for-true" in wording.message(refusal)
    assert single_node(found).obstacles[0].permanent


@pytest.mark.parametrize("order", [*permutations(("3h", "5h", "4h"))])
def test_the_page_names_the_longest_protection_of_a_node_that_drains(order):
    going = {"metadata": {"name": "a", "deletionTimestamp": stamped(NOON)}}
    found = cluster(worker("a", *map(protected, order), claim=going))
    waits = waits_in({"leftAlone": [], "commands": []}, found, RepairTerms(()))
    assert waits["a"]["until"] == "2026-01-05T17:00:00Z"
    assert "default/for-5h" in waits["a"]["because"]


def shut(schedule, duration, nodes="0"):
    return {"nodes": nodes, "schedule": schedule, "duration": duration}


def lifting(*budgets, value="1h"):
    pool = free(budgets=[{"nodes": "100%"}, *budgets], consolidateAfter="0s")
    return single_node(cluster(worker("a", protected(value)), pools=[pool]))


@pytest.mark.parametrize(
    ("budgets", "lifts_at"),
    [
        ([shut("30 12 * * *", "90m")], NOON + 2 * HOUR),  # open when the protection ends, at 13:00
        ([shut("0 13 * * *", "1h")], NOON + 2 * HOUR),  # opens just then
        ([shut("30 12 * * *", "30m")], NOON + HOUR),  # closed again by then
        ([shut("30 13 * * *", "1h")], NOON + HOUR),  # opens afterwards
        ([shut("30 12 * * *", "90m"), shut("30 13 * * *", "90m")], NOON + 3 * HOUR),  # one after the other
        ([shut("0 11 * * *", "30m"), shut("0 12 * * *", "30m"), shut("30 12 * * *", "45m")], NOON + 75 * MINUTE),
        ([shut("30 12 * * *", "90m", nodes="1")], NOON + HOUR),  # allows this node
        ([{**shut("30 12 * * *", "90m"), "reasons": ["Drifted"]}], NOON + HOUR),  # for another reason
        ([shut("30 12,14-23 * * *", "30m"), shut("0 13-23 * * *", "30m")], NOON + 90 * MINUTE),
    ],
)
def test_windows_that_open_before_the_rest_has_lifted_put_it_off(budgets, lifts_at):
    assert lifting(*budgets).lifts_at == lifts_at


def test_the_window_that_puts_it_off_is_named_with_its_end():
    view = lifting(shut("30 12 * * *", "90m"))
    assert [each.code for each in view.obstacles] == ["DoNotDisruptPod", "Budget"]
    put_off = view.obstacles[1]
    assert wording.obstacle(put_off) == "budget 2 of 2 ('0') will be in force by then and allows 0 of 1 nodes"
    assert (put_off.until, put_off.permanent) == (NOON + 2 * HOUR, False)


def test_a_window_that_is_open_now_and_again_when_the_rest_lifts_counts_twice():
    view = lifting(shut("0 9 * * *", "8h"), value="23h")
    assert [each.until for each in view.obstacles if each.code == "Budget"] == [NOON + 5 * HOUR, NOON + 29 * HOUR]
    assert view.lifts_at == NOON + 29 * HOUR


def test_windows_that_take_turns_for_ever_leave_no_instant_to_name():
    """One is open by day, the other by night."""
    view = lifting(shut("0 13 * * *", "12h"), shut("0 1 * * *", "12h", nodes="0%"), value="2h")
    assert view.lifts_at is None
    assert [each.until for each in view.obstacles if "by then" in wording.obstacle(each)] == [None, None]


def test_a_node_that_nothing_else_holds_is_not_held_by_a_window_to_come():
    pool = free(budgets=[{"nodes": "100%"}, shut("30 12 * * *", "90m")], consolidateAfter="0s")
    found = cluster(worker("a"), pools=[pool])
    emptiness = next(
        each for each in explain_node(found.nodes[0], PassContext(found)).methods if each.method == "emptiness"
    )
    assert emptiness.command is not None
