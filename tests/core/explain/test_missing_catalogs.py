"""What is known of NodePools without instance types, and why their nodes are left alone."""

from dataclasses import replace

import pytest

from acceptance.fleet import cluster, free, shielded, worker
from dovetail.core import wording
from dovetail.core.disruption.planner import plan_disruption
from dovetail.core.explain.missing_catalogs import ignored_nodepools, known_obstacles, missing_catalogs
from dovetail.model.refusal import RefusalCode


@pytest.fixture
def found():
    """An empty node and a protected one of NodePool a, an empty one of NodePool b; both without instance types."""
    nodes = worker("a-1", pool="a"), worker("a-2", shielded("x", "a-2"), pool="a"), worker("b-1", pool="b")
    return replace(cluster(*nodes, pools=[free("a"), free("b")]), catalogs={})


def codes(snapshot):
    plan = plan_disruption(snapshot)
    assert not plan.commands
    return {refusal.object.name: refusal.code for refusal in plan.refusals_by_method["emptiness"]}


def test_nodes_without_instance_types_are_left_alone_for_the_cause(found):
    unread = replace(found, missing_catalogs={"a": "no region", "b": "no region"})
    assert codes(unread) == dict.fromkeys(("a-1", "a-2", "b-1"), "NoCatalog")
    refusal = plan_disruption(unread).refusals_by_method["emptiness"][0]
    assert wording.message(refusal) == "the instance types of NodePool a are not known: no region"
    assert not refusal.permanent


def test_nodes_of_no_provider_are_left_alone_for_another_reason(found):
    assert codes(found) == dict.fromkeys(("a-1", "a-2", "b-1"), "NoProvider")
    assert ignored_nodepools(found) == dict.fromkeys("ab", "karpenter.kwok.sh/KWOKNodeClass")
    assert ignored_nodepools(replace(found, missing_catalogs={"a": "no region"})).keys() == {"b"}


def test_nodepools_with_the_same_cause_are_reported_together(found):
    same = missing_catalogs(replace(found, missing_catalogs={"b": "no region", "a": "no region"}))
    assert [str(each) for each in same] == ["the instance types and prices of NodePools a, b are not known: no region"]
    other = replace(found, missing_catalogs={"b": "no region", "a": "no credentials"})
    assert [each.nodepools for each in missing_catalogs(other)] == [("a",), ("b",)]
    assert [each.nodepools for each in missing_catalogs(other, ("b", "c"))] == [("b",)]
    assert missing_catalogs(other, ("",)) == []


def test_obstacles_that_do_not_depend_on_prices_are_known(found):
    known = {node.name: [each.code for each in obstacles] for node, obstacles in known_obstacles(found)}
    assert known == {}
    unread = replace(found, missing_catalogs={"a": "no region"})
    known = {node.name: [each.code for each in obstacles] for node, obstacles in known_obstacles(unread)}
    assert known == {"a-1": [], "a-2": [RefusalCode.DO_NOT_DISRUPT_POD]}
