"""Validation of consolidation: a command that is no longer valid after 15 seconds does not start."""

from dataclasses import replace
from datetime import timedelta

import pytest

from acceptance.fleet import (
    BLOCKING,
    ON_DEMAND,
    cluster,
    free,
    pdb,
    running,
    shielded,
    worker,
)
from builders import LARGE, NOON, SMALL, instance_type
from dovetail.core import wording
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.in_flight import look_ahead
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import VALIDATION_DELAY, consider, plan_disruption
from dovetail.core.disruption.validation import VALIDATED, revalidate
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal

LATER = NOON + timedelta(seconds=15)
FIXED = [free(template=ON_DEMAND)]


def later(*nodes, **fields):
    return PassContext(cluster(*nodes, **{"pools": FIXED, "at": LATER, **fields}))


def decided(*nodes, **fields):
    (command,) = plan_disruption(cluster(*nodes, **{"pools": FIXED, **fields})).commands
    return command


def names(outcome):
    return (
        sorted(each.name for each in outcome.candidates) if isinstance(outcome, Command) else wording.message(outcome)
    )


def pair(first="1", second="2"):
    return worker("a", running("x", "a", cpu=first)), worker("b", running("y", "b", cpu=second))


def test_only_consolidation_waits_and_it_waits_fifteen_seconds():
    assert {Reason.EMPTY, Reason.UNDERUTILIZED} == VALIDATED
    assert timedelta(seconds=15) == VALIDATION_DELAY


def test_what_still_holds_is_done():
    command = decided(*pair(), types=(LARGE,))
    assert names(revalidate(command, later(*pair(), types=(LARGE,)))) == ["a"]


def test_empty_nodes_that_got_a_pod_drop_out_and_the_others_go():
    command = decided(worker("a"), worker("b"))
    assert names(revalidate(command, later(worker("a", running("x", "a")), worker("b")))) == ["b"]


def test_when_no_empty_node_is_left_nothing_is_done():
    outcome = revalidate(decided(worker("a")), later(worker("a", running("x", "a", cpu="3"))))
    assert isinstance(outcome, Refusal)
    assert "churn" in wording.message(outcome)


def test_empty_nodes_over_a_budget_that_shrank_drop_out():
    tight = [free(budgets=[{"nodes": "1"}])]
    assert names(revalidate(decided(worker("a"), worker("b")), later(worker("a"), worker("b"), pools=tight))) == ["a"]


@pytest.mark.parametrize(
    ("fields", "category"),
    [
        ({"pools": [free(budgets=[{"nodes": "0"}])]}, "budget"),
        ({"nominated": ["a"]}, "churn"),
    ],
    ids=["budget", "nomination"],
)
@pytest.mark.parametrize("kind", ["empty", "single", "multi"])
def test_a_budget_that_closed_or_a_nomination_stops_it(kind, fields, category):
    nodes = {
        "empty": (worker("a"),),
        "single": pair(),
        "multi": tuple(worker(name, running(f"p{name}", name)) for name in "abc"),
    }[kind]
    command = decided(*nodes, types=(LARGE,))
    assert {"empty": 1, "single": 1, "multi": 2}[kind] == len(command.candidates)
    outcome = revalidate(command, later(*nodes, **{"types": (LARGE,), **fields}))
    assert isinstance(outcome, Refusal)
    assert outcome.code == ("BudgetsChanged" if category == "budget" and kind != "empty" else "CandidatesChanged")
    if kind != "empty":
        assert category in wording.message(outcome)


@pytest.mark.parametrize("types", [(LARGE,), (SMALL, LARGE)], ids=["delete", "replace"])
@pytest.mark.parametrize("what", ["annotation", "budget"])
def test_protection_that_appears_meanwhile_stops_it(what, types):
    nodes = pair("1500m", "3500m") if types == (SMALL, LARGE) else pair()
    command = decided(*nodes, types=types)
    held = worker("a", shielded("x", "a") if what == "annotation" else running("x", "a")), nodes[1]
    outcome = revalidate(command, later(*held, types=types, pdbs=[pdb(**BLOCKING)] if what == "budget" else []))
    assert isinstance(outcome, Refusal)


def test_pods_that_no_longer_fit_stop_a_deletion():
    outcome = revalidate(decided(*pair(), types=(LARGE,)), later(*pair("1", "3500m"), types=(LARGE,)))
    assert "scheduling: the simulation produced new results" in names(outcome)


def test_pods_that_fit_elsewhere_by_now_stop_a_replacement():
    command = decided(worker("a", running("x", "a")), types=(SMALL, LARGE))
    assert len(command.replacements) == 1
    outcome = revalidate(
        command, later(worker("a", running("x", "a")), worker("b", running("y", "b")), types=(SMALL, LARGE))
    )
    assert "scheduling" in names(outcome)


def test_a_replacement_that_could_only_be_something_else_by_now_is_abandoned():
    command = decided(worker("a", running("x", "a")), types=(SMALL, LARGE))
    other = instance_type("m.other", "2", "8Gi", 0.4)
    outcome = revalidate(command, later(worker("a", running("x", "a")), types=(other, LARGE)))
    assert "scheduling" in names(outcome)


def test_more_to_choose_from_is_no_reason_to_abandon_and_the_first_decision_is_kept():
    command = decided(worker("a", running("x", "a")), types=(SMALL, LARGE))
    other = instance_type("m.other", "2", "8Gi", 0.4)
    outcome = revalidate(command, later(worker("a", running("x", "a")), types=(other, SMALL, LARGE)))
    assert isinstance(outcome, Command)
    assert outcome.replacements == command.replacements


def test_a_candidate_that_is_gone_stops_it():
    nodes = [worker(name, running(f"p{name}", name)) for name in "abc"]
    outcome = revalidate(decided(*nodes, types=(LARGE,)), later(*nodes[1:], types=(LARGE,)))
    assert "churn" in names(outcome)


def many(*absent, cpu="500m"):
    return [worker(name, running(f"p{name}", name, cpu=cpu)) for name in "abcdef" if name not in absent]


def test_a_set_that_needs_no_replacement_goes_on_without_the_nodes_that_dropped_out():
    """A pod came to one of them meanwhile; the others still fit elsewhere."""
    command = decided(*many(), types=(LARGE,))
    chosen = names(command)
    assert len(chosen) >= 4
    assert not command.replacements
    assert names(revalidate(command, later(*many(chosen[0]), types=(LARGE,)))) == chosen[1:]


def test_a_set_goes_on_with_as_many_as_the_budget_still_allows():
    command = decided(*many(), types=(LARGE,))
    tight = [free(template=ON_DEMAND, budgets=[{"nodes": "2"}])]
    assert len(names(revalidate(command, later(*many(), pools=tight, types=(LARGE,))))) == 2


def test_what_is_left_of_a_set_must_still_fit_elsewhere():
    command = decided(*many(), types=(LARGE,))
    assert "churn" in names(revalidate(command, later(*many("a", cpu="3500m"), types=(LARGE,))))


def test_one_node_is_no_set():
    command = decided(*many(), types=(LARGE,))
    chosen = names(command)
    assert "churn" in names(revalidate(command, later(*many(*chosen[1:]), types=(LARGE,))))


def test_a_set_with_a_replacement_is_all_or_nothing():
    smaller = decided(worker("z", running("x", "z")), types=(SMALL, LARGE)).replacements
    command = replace(decided(*many(), types=(LARGE,)), replacements=smaller)
    assert "churn" in names(revalidate(command, later(*many("a"), types=(LARGE,))))


def test_a_pool_that_changed_its_mind_stops_it():
    changed = [free(template=ON_DEMAND, consolidationPolicy="WhenEmpty")]
    assert isinstance(
        revalidate(decided(*pair(), types=(LARGE,)), later(*pair(), pools=changed, types=(LARGE,))), Refusal
    )


def test_a_pod_event_during_the_wait_restarts_the_clock():
    slow = [free(template=ON_DEMAND, consolidateAfter="1m")]
    command = decided(*pair(), pools=slow, types=(LARGE,))
    touched = worker("a", running("x", "a"), status={"lastPodEventTime": "2026-01-05T12:00:05Z"}), pair()[1]
    assert isinstance(revalidate(command, later(*touched, pools=slow, types=(LARGE,))), Refusal)


def test_time_alone_changes_nothing():
    found = cluster(*pair(), pools=FIXED, types=(LARGE,))
    (command,) = plan_disruption(found).commands
    assert isinstance(revalidate(command, PassContext(replace(found, at=LATER))), Command)


def test_beside_one_that_was_just_started_another_must_find_its_places_elsewhere():
    first = decided(*pair("1", "1"), types=(LARGE,))
    second = decided(worker("a", shielded("x", "a")), pair("1", "1")[1], types=(LARGE,))
    assert (names(first), names(second)) == (["a"], ["b"])
    look = later(*pair("1", "1"), types=(LARGE,))
    assert names(revalidate(second, look)) == ["b"]
    assert isinstance(revalidate(second, look, [first]), Refusal)


def test_one_that_leaves_a_pod_of_those_before_it_without_a_place_is_not_done():
    """Each fits; of both, a pod would have to wait for another node."""
    nodes = [filled("a"), filled("b", "300m", "300m"), filled("c", "300m", "700m", "1500m", "1500m")]
    single = METHODS[-1]
    look = later(*nodes, types=(SMALL, LARGE))
    (first,) = consider(single, look).commands
    (second,) = consider(single, look_ahead(look, [first])).commands
    assert (names(first), names(second)) == (["b"], ["c"])
    assert names(revalidate(second, look, [first])) == "scheduling: with this command a pod could not be scheduled"


def filled(name, *cpu):
    return worker(name, *[running(f"{name}{n}", name, cpu=each, memory="100Mi") for n, each in enumerate(cpu)])
