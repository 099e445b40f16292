"""Pods of nodes that are going: for which of them room is brought ahead, and for which it is not."""

from datetime import timedelta

import pytest

from acceptance.fleet import cluster, pdb, running, shielded, worker
from builders import NOON, stamped
from dovetail.core.provisioning.eligible_pods import displaced_pods
from dovetail.core.provisioning.plan import plan_provisioning

WEB = {"labels": {"app": "web"}}
UNREADY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}}


def going(deadline=None):
    at = {"karpenter.sh/nodeclaim-termination-timestamp": stamped(deadline)} if deadline is not None else {}
    return {"metadata": {"name": "a", "deletionTimestamp": stamped(NOON), "annotations": at}}


def planned(pod, *budgets, deadline=None):
    seen = cluster(worker("a", pod, claim=going(deadline)), pdbs=budgets)
    found = displaced_pods(seen)
    assert bool(plan_provisioning(seen).launches) is bool(found)
    return bool(found)


@pytest.mark.parametrize("spec", [{"maxUnavailable": 0}, {"maxUnavailable": "0%"}, {"minAvailable": "100%"}])
def test_nothing_is_bought_for_a_pod_that_its_budget_never_lets_go(spec):
    assert not planned(running("x", "a", metadata=WEB), pdb(spec=spec))


def test_nothing_is_bought_for_a_pod_with_two_budgets():
    """The eviction API refuses it for ever, however much each of them allows."""
    assert not planned(running("x", "a", metadata=WEB), pdb(allowed=1), pdb("again", allowed=1))


@pytest.mark.parametrize(
    "budget",
    [
        pdb(spec={"maxUnavailable": 1}),  # closed now, and opens again
        pdb(spec={"minAvailable": 1}),
        pdb(allowed=1, spec={"maxUnavailable": 1}),
        pdb(namespace="elsewhere", spec={"maxUnavailable": 0}),
        pdb(spec={"maxUnavailable": 0, "selector": {"matchLabels": {"app": "other"}}}),
    ],
)
def test_a_budget_that_gives_way_one_day_holds_nothing_back(budget):
    assert planned(running("x", "a", metadata=WEB), budget)


def test_an_unready_pod_that_its_budget_lets_go_all_the_same_is_planned_for():
    lenient = pdb(spec={"maxUnavailable": 0, "unhealthyPodEvictionPolicy": "AlwaysAllow"})
    assert planned(running("x", "a", metadata=WEB, **UNREADY), lenient)
    assert not planned(running("x", "a", metadata=WEB), lenient)


@pytest.mark.parametrize(("minutes", "bought"), [(5, True), (6, False)])
def test_when_the_nodes_time_is_all_but_over_nothing_protects_its_pods(minutes, bought):
    deadline = NOON + timedelta(minutes=minutes)
    assert planned(running("x", "a", metadata=WEB), pdb(spec={"maxUnavailable": 0}), deadline=deadline) is bought
    assert planned(shielded("x", "a", metadata=WEB), deadline=deadline) is bought


def test_neighbours_that_may_go_are_planned_for():
    free, held = running("x", "a"), running("y", "a", metadata=WEB)
    stuck = pdb(spec={"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}})
    seen = cluster(worker("a", free, held, claim=going()), pdbs=[stuck])
    assert [each.name for each in displaced_pods(seen)] == ["x"]
