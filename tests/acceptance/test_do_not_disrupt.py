"""How the annotation of a pod lifts, what it diverts, and that it is asked before budgets."""

from datetime import timedelta

import pytest

from acceptance.fleet import (
    DO_NOT_DISRUPT,
    ON_DEMAND,
    cluster,
    drifted,
    free,
    pdb,
    planned,
    running,
    shielded,
    taken,
    why_not,
    worker,
)
from builders import LARGE, NOON, stamped
from dovetail.core.disruption.candidates import pod_blocks
from dovetail.model.do_not_disrupt import protection

MINUTE = timedelta(minutes=1)
POOLS = [free(template=ON_DEMAND)]


def aged(value, minutes, name="x", **fields):
    return shielded(
        name,
        "a",
        value,
        metadata={"annotations": {DO_NOT_DISRUPT: value}, "creationTimestamp": stamped(NOON - minutes * MINUTE)},
        **fields,
    )


@pytest.mark.parametrize(("minutes", "names"), [(1, []), (2, ["a"]), (3, ["a"])])
def test_drift_waits_for_a_duration_and_goes_when_it_is_over(minutes, names):
    assert taken(cluster(drifted("a", aged("2m", minutes)), pools=POOLS)) == names


@pytest.mark.parametrize(("minutes", "names"), [(0, []), (1, []), (2, []), (3, ["a"])])
def test_the_longest_of_several_durations_counts(minutes, names):
    pods = aged("1m", minutes), aged("3m", minutes, "y")
    assert taken(cluster(drifted("a", *pods), pools=POOLS)) == names


@pytest.mark.parametrize("value", ["soon", "1d", "0s", "-5m", "yes", "TRUE", ""])
def test_an_invalid_annotation_protects_for_ever_and_its_fault_is_reported(value):
    pod = aged(value, 10**6)
    assert taken(cluster(drifted("a", pod), pools=POOLS)) == []
    assert protection(pod, NOON).fault


@pytest.mark.parametrize("value", ["true", "false", "30m", "1h30m", "1.5h", "90s"])
def test_what_can_be_understood_has_no_fault(value):
    assert protection(aged(value, 1), NOON).fault == ""


def test_consolidation_waits_for_a_duration_and_goes_when_it_is_over():
    def found(minutes):
        return cluster(worker("a", aged("2m", minutes)), worker("b", running("y", "b")), pools=POOLS, types=(LARGE,))

    assert planned(found(1)) == [("single-node", ["b"])], "the other way round"
    assert planned(found(2)) == [("single-node", ["a"])]


def test_blocks_say_until_when_and_whether_waiting_helps():
    lasting, passing = shielded("x", "a"), aged("4h", 60, "y")
    found = cluster(worker("a", lasting, passing))
    blocks = pod_blocks(found.nodes[0], found)
    assert [(each.until, each.permanent) for each in blocks] == [(None, True), (NOON + 180 * MINUTE, False)]


def test_annotations_of_all_pods_are_asked_before_any_budget():
    found = cluster(worker("a", running("first", "a"), shielded("second", "a")), pdbs=[pdb()])
    assert why_not(found).code == "DoNotDisruptPod"
    expired = cluster(worker("a", running("first", "a"), aged("1m", 5, "second")), pdbs=[pdb()])
    assert why_not(expired).code == "PodDisruptionBudget", "an expired protection circumvents no budget"


def test_an_annotation_steers_the_choice_to_the_other_node():
    pair = worker("a", running("x", "a")), worker("b", running("y", "b"))
    assert taken(cluster(*pair, pools=POOLS, types=(LARGE,))) == ["a"]
    held = worker("a", shielded("x", "a")), worker("b", running("y", "b"))
    assert taken(cluster(*held, pools=POOLS, types=(LARGE,))) == ["b"]
    node = worker("a", running("x", "a"), metadata={"annotations": {DO_NOT_DISRUPT: "true"}}), pair[1]
    assert taken(cluster(*node, pools=POOLS, types=(LARGE,))) == ["b"]


def test_a_bounded_drain_does_not_unlock_consolidation():
    bounded = {"spec": {"terminationGracePeriod": "1h"}}
    held = worker("a", shielded("x", "a"), claim=bounded)
    assert taken(cluster(held, pools=POOLS)) == []
    blocked = worker("a", running("x", "a"), claim=bounded)
    assert taken(cluster(blocked, pdbs=[pdb()], pools=POOLS)) == []


def test_eligibility_for_consolidation_follows_the_annotation():
    """None with the annotation, one after it is removed."""
    assert taken(cluster(worker("a", shielded("x", "a")))) == []
    assert taken(cluster(worker("a", running("x", "a")))) == ["a"]
