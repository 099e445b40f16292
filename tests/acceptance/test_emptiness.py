"""Nodes on which nothing worth keeping runs are deleted together."""

from datetime import timedelta

import pytest

from acceptance.fleet import (
    DO_NOT_DISRUPT,
    LEAVING,
    ON_DEMAND,
    cluster,
    drifted,
    free,
    owned,
    planned,
    running,
    said,
    taken,
    worker,
)
from builders import LARGE, NOON, pod, stamped
from dovetail.core import wording
from dovetail.core.disruption.command import Decision
from dovetail.core.disruption.planner import plan_disruption

MINUTE = timedelta(minutes=1)


def annotated(value):
    return {"annotations": {DO_NOT_DISRUPT: value}}


def test_eligibility_follows_the_pod():
    """Not while a pod is bound, and again once it is gone."""
    assert said(cluster(worker("a", running("x", "a")), types=(LARGE,)), "emptiness", "a").code == "NotEmpty"
    assert taken(cluster(worker("a"))) == ["a"]


@pytest.mark.parametrize("policy", ["WhenEmpty", "WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced"])
def test_an_empty_node_goes_whatever_the_policy(policy):
    assert planned(cluster(worker("a"), pools=[free(consolidationPolicy=policy)])) == [("emptiness", ["a"])]


def test_an_empty_drifted_node_goes_as_drifted_because_drift_comes_first():
    assert planned(cluster(drifted("a"))) == [("drift", ["a"])]


@pytest.mark.parametrize(("minutes", "names"), [(29, []), (30, ["a"])])
def test_an_empty_node_goes_once_consolidate_after_has_passed_since_its_last_pod_event(minutes, names):
    status = {"lastPodEventTime": stamped(NOON - minutes * MINUTE)}
    assert taken(cluster(worker("a", status=status), pools=[free(consolidateAfter="30m")])) == names


def test_without_pod_events_the_clock_starts_at_initialisation():
    pools = [free(consolidateAfter="30m")]
    assert taken(cluster(worker("a", age=29 * MINUTE), pools=pools)) == []
    assert taken(cluster(worker("a", age=30 * MINUTE), pools=pools)) == ["a"]


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_never_was_initialised_has_no_clock_to_run_out(status):
    found = cluster(worker("a", conditions={"Initialized": status}), pools=[free(consolidateAfter="30m")])
    assert taken(found) == []


def test_never_means_never():
    found = cluster(worker("a"), pools=[free(consolidateAfter="Never")])
    assert taken(found) == []
    assert wording.message(said(found, "emptiness", "a")) == 'NodePool "default" has consolidation disabled'


@pytest.mark.parametrize(("value", "names"), [("true", []), ("false", ["a"])])
def test_the_annotation_of_the_node_decides(value, names):
    assert taken(cluster(worker("a", metadata=annotated(value)))) == names


def test_several_empty_nodes_go_in_one_command():
    plan = plan_disruption(cluster(*map(worker, "abc"), worker("d", running("x", "d")), types=(LARGE,)))
    assert [len(command.candidates) for command in plan.commands] == [3]
    assert plan.commands[0].decision == Decision.DELETE


@pytest.mark.parametrize(
    ("lodger", "names"),
    [
        (owned("x", "a", "DaemonSet"), ["a"]),
        (owned("x", "a", "ReplicaSet", metadata=LEAVING), ["a"]),
        (owned("x", "a", "StatefulSet", metadata=LEAVING), []),
        (owned("x", "a", "Node", "v1"), ["a"]),
        (running("x", "a", status={"phase": "Succeeded"}), ["a"]),
        (running("x", "a", cpu="3500m"), []),
    ],
    ids=["daemon", "terminating", "terminating stateful", "mirror", "ended", "running"],
)
def test_what_counts_as_empty(lodger, names):
    assert taken(cluster(worker("a", lodger), pools=[free(template=ON_DEMAND)], types=(LARGE,))) == names


def test_a_huge_pending_pod_that_needs_the_room_keeps_a_node_from_being_consolidated():
    """Its pods could go to the other node, but the pending pod takes that room."""
    nodes = worker("a", running("x", "a", cpu="2")), worker("b", running("y", "b"))
    waiting = pod("huge", cpu="3")
    pools = [free(template=ON_DEMAND)]
    assert taken(cluster(*nodes, pools=pools, types=(LARGE,))) == ["a"]
    assert taken(cluster(*nodes, pods=[waiting], pools=pools, types=(LARGE,))) == []


def test_a_static_pool_keeps_its_empty_nodes():
    found = cluster(worker("a"), pools=[free(replicas=1)])
    assert said(found, "emptiness", "a").code == "Static"
    assert taken(found) == []
