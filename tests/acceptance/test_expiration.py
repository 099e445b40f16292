"""Soft expiration: nodes that have lived long enough are replaced first, within budgets and with protection."""

from datetime import timedelta

import pytest

from acceptance.fleet import (
    DO_NOT_DISRUPT,
    TERMINATION,
    cluster,
    drifted,
    free,
    pdb,
    planned,
    running,
    said,
    shielded,
    taken,
    worker,
)
from builders import LARGE, nodepool
from dovetail.core.disruption.planner import plan_disruption
from dovetail.model.reason import Reason

HOUR = timedelta(hours=1)


def pools(**disruption):
    return [free(consolidateAfter="Never", **{"expireAfter": "24h", **disruption})]


def old(name, *pods, age=30 * HOUR, **fields):
    return worker(name, *pods, age=age, **fields)


def full(name):
    return running(f"p-{name}", name, cpu="3500m")


@pytest.mark.parametrize(("age", "names"), [(24 * HOUR - timedelta(seconds=1), []), (24 * HOUR, ["a"])])
def test_a_node_is_due_exactly_when_its_claim_is_that_old(age, names):
    assert taken(cluster(old("a", full("a"), age=age), pools=pools())) == names


def test_it_is_the_claims_age_that_counts_not_the_nodes():
    """The node object of the builder is as young as the snapshot."""
    assert taken(cluster(old("a", full("a")), pools=pools())) == ["a"]


@pytest.mark.parametrize("disruption", [{"expireAfter": "Never"}, {"expireAfter": None}])
def test_never_and_nothing_written_are_never(disruption):
    assert taken(cluster(old("a", full("a"), age=9999 * HOUR), pools=pools(**disruption))) == []


def test_the_replacement_comes_first():
    plan = plan_disruption(cluster(old("a", full("a")), pools=pools()))
    assert [(command.reason, len(command.replacements)) for command in plan.commands] == [(Reason.EXPIRED, 1)]


def test_oldest_first_and_one_purchase_at_a_time():
    nodes = [old(name, full(name), age=age * HOUR) for name, age in (("a", 30), ("b", 50), ("c", 40))]
    assert planned(cluster(*nodes, pools=pools(), types=(LARGE,))) == [("expiration", ["b"])]


def test_budgets_for_expiration_bind_it():
    closed = pools(budgets=[{"nodes": "0", "action": "Expiration"}])
    assert said(cluster(old("a", full("a")), pools=closed), "expiration", "a").code == "Budget"


def test_protected_pods_budgets_and_nodes_hold_it_off():
    held = {"annotations": {DO_NOT_DISRUPT: "true"}}
    assert taken(cluster(old("a", shielded("x", "a")), pools=pools())) == []
    assert taken(cluster(old("a", full("a"), metadata=held), pools=pools())) == []
    assert taken(cluster(old("a", full("a")), pdbs=[pdb()], pools=pools())) == []


def test_a_bounded_drain_does_not_unlock_it():
    """Soft means soft: hard expiration is the field of the template."""
    assert taken(cluster(old("a", shielded("x", "a"), claim=TERMINATION), pools=pools())) == []


def test_it_comes_before_drift():
    assert planned(cluster(drifted("a", full("a"), age=30 * HOUR), pools=pools())) == [("expiration", ["a"])]


def test_empty_ones_go_together():
    assert planned(cluster(old("a"), old("b"), pools=pools())) == [("expiration", ["a", "b"])]


@pytest.mark.parametrize(("after", "names"), [("36h", []), ("12h", ["a"]), ("Never", [])])
def test_disrupt_after_for_expiration_is_the_longer_of_both(after, names):
    controls = {"Expiration": {"disruptAfter": after}}
    assert taken(cluster(old("a", full("a")), pools=pools(actionControls=controls))) == names


def test_disrupt_after_for_expiration_is_enough():
    only = nodepool(
        disruption={
            "budgets": [],
            "consolidateAfter": "Never",
            "actionControls": {"Expiration": {"disruptAfter": "12h"}},
        }
    )
    assert planned(cluster(old("a", full("a")), pools=[only])) == [("expiration", ["a"])]
