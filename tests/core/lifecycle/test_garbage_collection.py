"""What counts as left over, and what is left alone because it may not be."""

from datetime import timedelta

import pytest

from builders import NOON, claim, node, stamped
from dovetail.core.lifecycle.garbage_collection import (
    Holdings,
    claims_are_missing,
    has_no_leftovers,
    leaked_instances,
    lost_claims,
    nodeless_claims,
    orphaned_nodes,
)
from dovetail.model.catalog import Instance

REGISTERED = {"Launched": "True", "Registered": "True"}


def instance(name="i-1", age=60.0, **fields):
    launched_at = NOON - timedelta(seconds=age) if age is not None else None
    labels = {"karpenter.sh/nodepool": fields.pop("pool", "default")}
    return Instance(f"kwok://{name}", labels, {}, {}, {}, launched_at=launched_at, **fields)


def claimed(name="i-1", **fields):
    """A registered claim with that instance."""
    conditions = fields.pop("conditions", REGISTERED)
    return claim(f"claim-{name}", conditions=conditions, status={"providerID": f"kwok://{name}"}, **fields)


def noded(name="i-1", *, ready=True, age=60.0, **metadata):
    created = {"creationTimestamp": stamped(NOON - timedelta(seconds=age)), **metadata}
    return node(name, ready=ready, spec={"providerID": f"kwok://{name}"}, metadata=created)


def held(claims=(), nodes=(), instances=()):
    return Holdings(tuple(claims), tuple(nodes), tuple(instances))


def test_a_claim_without_instance_and_node_is_lost():
    assert lost_claims(held([claimed()])) == (claimed(),)


def test_a_claim_whose_instance_runs_without_a_node_is_nodeless():
    alone = held([claimed()], [], [instance()])
    assert nodeless_claims(alone) == (claimed(),)
    assert lost_claims(alone) == ()
    assert not has_no_leftovers(alone, NOON)


@pytest.mark.parametrize(
    "holdings",
    [
        held([claimed()], [noded(ready=False)], [instance()]),
        held([claimed(conditions={"Launched": "True"})], [], [instance()]),
        Holdings((claimed(),), (), (instance(),), hidden_nodes=(noded(),)),
    ],
    ids=["its node is not ready", "it has not registered yet", "its node cannot be read"],
)
def test_a_claim_that_has_or_may_get_a_node_is_not_nodeless(holdings):
    assert nodeless_claims(holdings) == ()


def test_a_claim_whose_instance_is_terminating_is_lost():
    assert lost_claims(held([claimed()], [noded(ready=False)], [instance(terminating=True)])) == (claimed(),)


@pytest.mark.parametrize(
    ("made", "nodes", "instances"),
    [
        (claimed(), (), (instance(),)),
        (claimed(), (noded(ready=True),), ()),
        (claimed(conditions={"Launched": "True"}), (), ()),
        (claimed(metadata={"deletionTimestamp": stamped(NOON), "finalizers": ["x"]}), (), ()),
        (claim(conditions=REGISTERED), (), ()),
    ],
    ids=["its instance runs", "its node is ready", "not registered yet", "on its way out", "without instance id"],
)
def test_a_claim_is_kept(made, nodes, instances):
    assert lost_claims(held([made], nodes, instances)) == ()


@pytest.mark.parametrize(("age", "leaked"), [(29.0, False), (30.0, False), (30.001, True), (None, False)])
def test_an_instance_without_claim_is_leaked_once_it_is_older_than_half_a_minute(age, leaked):
    assert bool(leaked_instances(held(instances=[instance(age=age)]), NOON)) is leaked


def test_an_instance_that_is_claimed_or_terminating_is_not_leaked():
    assert leaked_instances(held([claimed()], instances=[instance()]), NOON) == ()
    assert leaked_instances(held(instances=[instance(terminating=True)]), NOON) == ()


@pytest.mark.parametrize(
    ("age", "pool", "leaked"),
    [
        (61, "default", False),
        (60, "default", False),
        (59, "default", True),
        (61, "other", True),
    ],
    ids=["claim was there first", "same instant", "claim came later", "claim of another pool"],
)
def test_an_instance_that_a_claim_may_be_about_to_learn_of_is_not_leaked(age, pool, leaked):
    unlaunched = claim("fresh", pool, age=timedelta(seconds=age))
    assert bool(leaked_instances(held([unlaunched], instances=[instance(age=60)]), NOON)) is leaked


def test_a_node_with_neither_claim_nor_instance_is_an_orphan():
    sick = noded(ready=False)
    assert orphaned_nodes(held(nodes=[sick]), NOON) == (sick,)


@pytest.mark.parametrize(
    "holdings",
    [
        held([claimed()], [noded(ready=False)]),
        held([], [noded(ready=False)], [instance()]),
        held([], [noded(ready=False)], [instance(terminating=True)]),
        held([], [noded(ready=True)]),
        held([], [noded(ready=False, age=30)]),
        held([], [noded(ready=False, deletionTimestamp=stamped(NOON), finalizers=["x"])]),
        held([], [node("bare", ready=False)]),
    ],
    ids=["claimed", "has an instance", "instance is going", "ready", "young", "going already", "no instance id"],
)
def test_a_node_is_left_alone(holdings):
    assert orphaned_nodes(holdings, NOON) == ()


@pytest.mark.parametrize(
    ("holdings", "nothing"),
    [
        (held([claimed()], [noded()], [instance()]), True),
        (held([claimed()], [noded()]), True),
        (held([claimed()], [noded(ready=False)]), False),
        (held(instances=[instance(age=1.0)]), False),
        (held(nodes=[noded(ready=False, age=1.0)]), False),
    ],
    ids=["complete", "its node is ready", "without instance", "an instance still young", "a node still young"],
)
def test_nothing_is_left_only_if_waiting_would_not_find_it_either(holdings, nothing):
    assert has_no_leftovers(holdings, NOON) is nothing


def test_a_claim_that_cannot_be_read_keeps_its_instance_and_node_and_is_never_lost_itself():
    others = [instance(), instance("i-2")]
    seen = Holdings((), (noded(ready=False),), tuple(others), hidden_claims=(claimed(),))
    assert leaked_instances(seen, NOON) == (others[1],)
    alone = Holdings((), (noded(ready=False),), (), hidden_claims=(claimed(),))
    assert lost_claims(alone) == ()
    assert orphaned_nodes(alone, NOON) == ()


def test_a_claim_that_cannot_be_read_before_launch_may_own_any_instance_of_its_pool():
    waiting = claim(age=timedelta(minutes=5))
    others = (instance(), instance("i-2", pool="other"))
    assert leaked_instances(Holdings((), (), others, hidden_claims=(waiting,)), NOON) == (others[1],)
    nameless = claim(age=timedelta(minutes=5), metadata={"labels": {}})
    assert leaked_instances(Holdings((), (), others, hidden_claims=(nameless,)), NOON) == ()


def test_a_node_that_cannot_be_read_keeps_its_claim_and_its_instance():
    """It may be ready, and what runs there is not known."""
    hidden = (noded(ready=False),)
    assert lost_claims(Holdings((claimed(),), (), (), hidden_nodes=hidden)) == ()
    assert leaked_instances(Holdings((), (), (instance(),), hidden_nodes=hidden), NOON) == ()


@pytest.mark.parametrize(
    ("holdings", "missing"),
    [
        (held([], [], [instance()]), True),
        (held([], [], [instance(age=1.0)]), True),
        (held([claimed("another")], [], [instance()]), False),
        (Holdings((), (), (instance(),), hidden_claims=(claimed("another"),)), False),
        (held([], [noded()], [instance(terminating=True)]), False),
        (held(), False),
    ],
)
def test_claims_are_missing_if_there_are_instances_and_no_claim_at_all(holdings, missing):
    assert claims_are_missing(holdings) is missing
