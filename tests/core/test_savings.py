"""The rules of the savings model, one by one. Against a second cluster: test_savings_counterfactual."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dovetail.core.savings import (
    DISRUPT,
    DONE,
    DRY_RUN,
    FAILED,
    LAUNCH,
    LONGEST_SAVING,
    NEVER_EXPIRES,
    REMOVE,
    ROLLED_BACK,
    DecisionCost,
    reckon_savings,
)
from dovetail.ports.ledger import DecisionOutcome, LedgerAction, LedgerNode

START = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hours(number):
    return START + number * HOUR


def node(name, price=1.0, pool="web", expires=NEVER_EXPIRES, gone=None):
    return LedgerNode(nodeclaim=name, nodepool=pool, price=price, expires_at=expires, gone_at=gone)


def command(name, at, removed, launched=(), outcome="done", **more):
    return DecisionCost(
        id=name,
        at=hours(at),
        act="disrupt",
        outcome=outcome,
        reason="Empty",
        removed=removed,
        launched=launched,
        **{"planned": sum(each.price or 0 for each in launched), "ended_at": hours(at), **more},
    )


def empty(name, at, **more):
    return command(f"c-{name}", at, (node(name, gone=hours(at), **more),))


def launch(name, at, price=1.0, pool="web", outcome="done"):
    launched = (LedgerNode(nodeclaim=name, nodepool=pool, price=price),)
    return DecisionCost(id=f"l-{name}", at=hours(at), act="launch", outcome=outcome, launched=launched)


def saved_by(*decisions, until=10):
    return {each.id: round(each.dollars(), 6) for each in reckon_savings(decisions, hours(until))}


def test_the_example_of_the_documentation():
    replaced = command(
        "replace", 0, (node("a", 0.40, gone=hours(1)),), (LedgerNode(nodeclaim="r", nodepool="web", price=0.10),)
    )
    decisions = (replaced, launch("b", 11, price=0.20))
    assert saved_by(*decisions, until=1) == {"replace": -0.10}
    assert saved_by(*decisions, until=11) == {"replace": 2.90}
    assert saved_by(*decisions, until=21) == {"replace": 3.90}


def test_a_removed_node_saves_from_the_moment_it_is_gone():
    slow = command("slow", 0, (node("a", gone=hours(4)),))
    assert saved_by(slow) == {"slow": 6.0}
    assert saved_by(command("draining", 0, (node("a"),))) == {"draining": 0.0}


def test_a_launch_ends_the_savings_of_its_nodepool_first_and_the_newest_first():
    old, new, other = empty("a", 0), empty("b", 1), empty("x", 2, pool="batch")
    assert saved_by(old, new, other, launch("c", 5)) == {"c-a": 10, "c-b": 4, "c-x": 8}
    assert saved_by(old, new, other, launch("c", 5, price=2.5)) == {"c-a": 5, "c-b": 4, "c-x": 5.5}


@pytest.mark.parametrize(
    ("bought", "saved"),
    [
        (launch("c", 5, price=None), 5),
        (launch("c", 5, price=None, outcome=""), 5),
        (launch("c", 5, price=None, outcome="failed"), 10),
        (launch("c", 5, outcome="dry run"), 10),
    ],
)
def test_a_launch_without_a_price_ends_all_savings_unless_it_failed(bought, saved):
    assert saved_by(empty("a", 0), bought) == {"c-a": saved}


def test_a_saving_ends_when_the_node_would_have_expired_and_after_thirty_days():
    assert saved_by(empty("a", 0, expires=hours(3))) == {"c-a": 3}
    assert saved_by(empty("a", 0), until=10_000) == {"c-a": LONGEST_SAVING / HOUR}


def test_removing_a_replacement_saves_no_longer_than_the_node_that_it_replaced():
    first = command("first", 0, (node("a", 1.0, expires=hours(6), gone=hours(0)),), (node("r", 0.5),))
    assert saved_by(first, empty("r", 2, price=0.5)) == {"first": 3.0, "c-r": 2.0}


def test_a_replacement_that_goes_without_a_command_ends_the_saving():
    first = command("first", 0, (node("a", gone=hours(0)),), (node("r", 0.5),))
    reclaimed = DecisionCost(id="gone", at=hours(4), act="remove", removed=(node("r"),))
    assert saved_by(first, reclaimed) == {"first": 2.0}


def lost(name, at, peers, reason="Interrupted", *, pool="web", capacity_type=""):
    gone = LedgerNode(nodeclaim=name, nodepool=pool, capacity_type=capacity_type, peers=peers)
    return DecisionCost(id=f"r-{name}", at=hours(at), act="remove", reason=reason, removed=(gone,))


@pytest.mark.parametrize("reason", ["Interrupted", "Unhealthy", "GarbageCollected", "Manual"])
def test_a_node_that_is_lost_ends_the_share_of_the_savings_that_it_was_of_the_nodes(reason):
    assert saved_by(empty("a", 0), lost("x", 5, 4, reason)) == {"c-a": 5 + 0.75 * 5}
    assert saved_by(empty("a", 0), launch("c", 1, 0.2), lost("x", 5, 4, reason)) == {"c-a": 7.2}


def test_the_last_node_that_is_lost_and_one_of_unknown_peers_end_all_savings():
    assert saved_by(empty("a", 0), lost("x", 5, 1)) == {"c-a": 5}
    assert saved_by(empty("a", 0), lost("x", 5, None)) == {"c-a": 5}


@pytest.mark.parametrize(
    "other",
    [
        lost("x", 5, 4, "Expired"),
        lost("x", 5, 4, "InsufficientCapacity"),
        lost("x", 5, 4, pool="batch"),
        lost("x", 5, 4, capacity_type="spot"),
    ],
    ids=["expired", "never launched", "other nodepool", "other capacity type"],
)
def test_other_removals_end_no_savings(other):
    assert saved_by(empty("a", 0), other) == {"c-a": 10}


def test_what_a_replacement_that_is_lost_while_the_node_drains_costs_until_the_node_is_gone():
    """Without the command the node would be gone; with it, it drains for two more hours."""
    slow = command("slow", 0, (node("a", gone=hours(4)),), (node("r", 0.5),))
    assert saved_by(slow, lost("r", 2, 1)) == {"slow": -0.5 * 2 - 1.0 * 2}


def test_a_node_that_stands_for_removed_capacity_still_does_when_the_replacement_is_lost():
    first = command("first", 0, (node("a", 1.0, expires=hours(6), gone=hours(0)),), (node("r", 0.5),))
    decisions = (first, launch("b", 1, 0.5), lost("r", 2, 2), empty("b", 3, price=0.5))
    assert saved_by(*decisions) == {"first": 0.5, "c-b": 1.5}


def test_a_more_expensive_replacement_costs_money():
    assert saved_by(command("drift", 0, (node("a", 1.0, gone=hours(0)),), (node("r", 1.2),))) == {"drift": -2.0}


def test_a_rolled_back_command_costs_what_it_launched_for_as_long_as_that_stays():
    kept = command("tried", 0, (node("a"),), (node("r", 0.5),), outcome="rolled back", planned=0.5)
    assert saved_by(replace(kept, launched=(), ended_at=hours(2))) == {"tried": -1.0}
    assert saved_by(kept, empty("r", 4, price=0.5)) == {"tried": -5.0, "c-r": 3.0}


def test_the_replacements_of_a_failed_command_count_as_a_launch():
    failed = command("failed", 4, (node("x"),), outcome="failed", planned=0.5)
    assert saved_by(empty("a", 0), failed) == {"c-a": 7.0, "failed": 0.0}


def test_what_a_launch_has_too_much_is_a_loss_until_the_next_launch_or_its_removal():
    """Half of $1.00 is needed, and the removed node would have had room worth $0.40."""
    removed = command("c", 0, (node("a", 0.4, gone=hours(0)),))
    large = replace(launch("b", 2), launched=(replace(node("b"), used=0.5),))
    assert saved_by(removed, large, until=4) == {"c": pytest.approx(2 * 0.4 - 2 * 0.5)}
    assert saved_by(removed, large, launch("d", 3), until=4) == {"c": pytest.approx(2 * 0.4 - 1 * 0.5)}
    assert sum(saved_by(removed, large, empty("b", 3), until=4).values()) == pytest.approx(2 * 0.4 - 0.5 + 0.5)


def test_launches_of_one_pass_count_together():
    """Two half-used nodes need what the removed node had; the cluster without disruption launches nothing."""
    removed = command("c", 0, (node("a", 1.0, gone=hours(0)),))
    half = [replace(launch(name, 2), launched=(replace(node(name), used=0.5),)) for name in ("x", "y")]
    assert saved_by(removed, *half, until=3) == {"c": pytest.approx(2 * 1.0 - 1 * 1.0)}


def test_a_running_command_costs_what_it_launches():
    assert saved_by(command("now", 0, (node("a"),), outcome="", planned=0.5, ended_at=None), until=2) == {"now": -1.0}


@pytest.mark.parametrize(
    "unknown",
    [
        command("c", 0, (node("a", gone=hours(0), price=None),)),
        command("c", 0, (node("a", gone=hours(0), expires=None),)),
        command("c", 0, (node("a", gone=hours(0)),), (node("r", None),)),
    ],
    ids=["price", "expiration", "price of the replacement"],
)
def test_a_command_with_an_unknown_cost_is_not_counted(unknown):
    (saving,) = reckon_savings([unknown], hours(10))
    assert (saving.counted, saving.dollars(), saving.rate) == (False, 0.0, 0.0)


def test_what_stands_for_an_unknown_cost_is_not_counted_either():
    unknown = command("c", 0, (node("a", gone=hours(0), price=None),), (node("r"),))
    assert saved_by(unknown, empty("r", 2)) == {"c": 0.0, "c-r": 0.0}


def test_a_window_and_the_current_rate():
    (saving,) = reckon_savings([empty("a", 2), launch("c", 6, price=0.75)], hours(10))
    assert saving.dollars(hours(0), hours(4)) == 2.0
    assert saving.dollars(hours(4), hours(8)) == 2.5
    assert saving.rate == 0.25


def test_acts_and_outcomes_are_those_of_the_ledger():
    assert {LAUNCH, DISRUPT, REMOVE} == set(LedgerAction)
    assert {DONE, ROLLED_BACK, FAILED, DRY_RUN, "unknown"} == set(DecisionOutcome)
