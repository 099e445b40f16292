"""What moving a pod costs, what makes a node empty, and in which order nodes are considered."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptance.fleet import LEAVING, cluster, free, owned, planned, running, worker
from builders import LARGE, NOON
from dovetail.core.disruption.candidates import least_disruptive_first
from dovetail.core.disruption.disruption_cost import BASE_COST, disruption_cost, eviction_cost, lifetime_left
from dovetail.core.disruption.pass_context import PassContext

COST = "controller.kubernetes.io/pod-deletion-cost"


def priced(deletion):
    return eviction_cost(running("x", "a", metadata={"annotations": {COST: str(deletion)}}))


def ranked(priority):
    return eviction_cost(running("x", "a", spec={"priority": priority}))


def test_a_plain_pod_costs_exactly_one():
    assert eviction_cost(running("x", "a")) == 1.0


def test_a_positive_deletion_cost_is_dearer_and_a_negative_one_cheaper():
    assert priced(-100) < 1.0 < priced(100)


def test_a_higher_priority_is_dearer_and_a_negative_one_cheaper():
    assert ranked(-100) < 1.0 < ranked(100)


def test_a_deletion_cost_that_is_no_number_is_ignored():
    assert priced("many") == 1.0


@given(st.integers(-(2**31) + 1, 2**31 - 1), st.integers(-(2**31) + 1, 2**31 - 1))
def test_law_a_greater_deletion_cost_never_makes_a_pod_cheaper(one, other):
    low, high = sorted((one, other))
    assert priced(low) <= priced(high)


def test_only_a_daemon_pod_is_empty():
    assert disruption_cost([owned("x", "a", "DaemonSet")]) == BASE_COST


def test_only_terminating_pods_of_a_replica_set_are_empty():
    assert disruption_cost([owned("x", "a", "ReplicaSet", metadata=LEAVING)]) == BASE_COST


def test_a_terminating_pod_of_a_stateful_set_is_not_empty():
    assert disruption_cost([owned("x", "a", "StatefulSet", metadata=LEAVING)]) > BASE_COST


def test_an_ended_pod_and_a_mirror_pod_are_empty():
    assert disruption_cost([running("x", "a", status={"phase": "Failed"}), owned("y", "a", "Node", "v1")]) == BASE_COST


def order(*nodes, **fields):
    candidates, _ = PassContext(cluster(*nodes, **fields)).candidates(eventual=False)
    return [each.name for each in least_disruptive_first(candidates)]


def test_fewer_pods_come_first():
    many = worker("a", running("x", "a"), running("y", "a"))
    assert order(many, worker("b", running("z", "b"))) == ["b", "a"]


def test_soon_to_expire_comes_first():
    life = {"spec": {"expireAfter": "48h"}}
    old = worker("b", running("y", "b"), age=timedelta(hours=40), claim=life)
    assert order(worker("a", running("x", "a"), age=timedelta(hours=1), claim=life), old) == ["b", "a"]


def test_lower_priority_comes_first():
    urgent = worker("a", running("x", "a", spec={"priority": 10**6}))
    assert order(urgent, worker("b", running("y", "b"))) == ["b", "a"]


def test_ties_go_by_name_whatever_the_order_of_the_snapshot():
    nodes = [worker(name, running(f"p{name}", name)) for name in "cab"]
    assert order(*nodes) == order(*reversed(nodes)) == ["a", "b", "c"]


def test_balanced_pools_are_ordered_by_what_a_saving_costs():
    """Same price: fewer pods win, even if the other node is closer to its end."""
    balanced = [free(consolidationPolicy="Balanced")]
    dying = worker(
        "a", running("x", "a"), running("y", "a"), age=timedelta(hours=47), claim={"spec": {"expireAfter": "48h"}}
    )
    young = worker("b", running("z", "b"), claim={"spec": {"expireAfter": "Never"}})
    assert order(dying, young, pools=balanced) == ["b", "a"]
    assert order(dying, young) == ["a", "b"], "otherwise the nearer end wins"


@pytest.mark.parametrize(("age", "left"), [(0, 1.0), (12, 0.5), (24, 0.0), (30, 0.0)])
def test_the_life_left_is_a_share_between_one_and_nothing(age, left):
    made = worker("a", age=timedelta(hours=age), claim={"spec": {"expireAfter": "24h"}})
    assert lifetime_left(made.claim, NOON) == left


def test_a_node_of_pods_that_cost_nothing_goes_as_empty():
    worthless = running("x", "a", metadata={"annotations": {COST: "-134217728"}})
    assert planned(cluster(worker("a", worthless), types=(LARGE,))) == [("emptiness", ["a"])]
