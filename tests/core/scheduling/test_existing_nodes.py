"""Existing nodes as rows: their order, and the masks of labels and taints."""

import pytest

from builders import NOON, claim, node, stamped
from core.scheduling.parts import existing
from dovetail.core.scheduling.existing_nodes import ExistingNodes
from dovetail.core.scheduling.node_affinity import NODE_NAME, Alternative
from dovetail.model.labels import HOSTNAME, ZONE
from dovetail.model.requirements import Requirement
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import Toleration

LEAVING = {"deletionTimestamp": stamped(NOON)}


def starting(name, *requirements):
    """A NodeClaim without an instance: its labels are not decided."""
    written = [{"key": key, "operator": operator, "values": values} for key, operator, values in requirements]
    return ClusterNode(None, claim(name, spec={"requirements": written}))


def names(nodes):
    return [each.name for each in nodes.nodes]


def meeting(nodes, *expressions):
    mask = nodes.meeting((Alternative([Requirement.of(*each) for each in expressions]),))
    return [each.name for each, met in zip(nodes.nodes, mask.tolist(), strict=True) if met]


def test_initialized_nodes_come_first_then_by_name():
    assert names(ExistingNodes([starting("a"), existing("c"), existing("b")])) == ["b", "c", "a"]


def test_nodes_that_leave_are_no_rows_unless_they_count_for_topology():
    nodes = [existing("a", metadata={**LEAVING, "finalizers": ["x"]}), existing("b")]
    assert names(ExistingNodes(nodes)) == ["b"]
    counted = ExistingNodes(nodes, include_deleting=True)
    assert names(counted) == ["b", "a"]
    assert list(counted.deleting_rows) == [1]


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        ((ZONE, "In", ["zone-a"]), ["a"]),
        ((ZONE, "NotIn", ["zone-a"]), ["b"]),
        (("disk", "Exists", []), ["b"]),
        (("disk", "DoesNotExist", []), ["a"]),
        (("disk", "NotIn", ["ssd"]), ["a"]),
        ((HOSTNAME, "In", ["b"]), ["b"]),
        ((NODE_NAME, "In", ["a"]), ["a"]),
        (("failure-domain.beta.kubernetes.io/zone", "In", ["zone-a"]), ["a"]),
    ],
    ids=str,
)
def test_a_mask_has_the_nodes_that_meet_an_expression(expression, met):
    assert meeting(ExistingNodes([existing("a"), existing("b", "zone-b", labels={"disk": "ssd"})]), expression) == met


def test_all_expressions_of_an_alternative_must_hold_and_any_alternative_is_enough():
    nodes = ExistingNodes([existing("a"), existing("b", "zone-b"), existing("c", "zone-c")])
    assert meeting(nodes, (ZONE, "In", ["zone-a", "zone-b"]), (HOSTNAME, "NotIn", ["a"])) == ["b"]
    either = tuple(Alternative([Requirement.of(ZONE, "In", [zone])]) for zone in ("zone-a", "zone-c"))
    assert nodes.meeting(either).tolist() == [True, False, True]


def test_a_node_whose_labels_are_not_decided_meets_only_what_it_surely_will():
    nodes = ExistingNodes([starting("a", (ZONE, "In", ["zone-a", "zone-b"]))])
    assert meeting(nodes, (ZONE, "In", ["zone-a", "zone-b", "zone-c"])) == ["a"]
    assert meeting(nodes, (ZONE, "In", ["zone-a"])) == []


def test_taints_must_be_tolerated_and_soft_ones_only_while_preferences_hold():
    taints = {"hard": "NoSchedule", "soft": "PreferNoSchedule"}
    nodes = ExistingNodes([existing("a", taints=[{"key": key, "effect": effect}]) for key, effect in taints.items()])
    tolerates = (Toleration(key="hard", operator="Exists"),)
    assert nodes.has_soft_taints
    assert nodes.tolerated((), soft=False).tolist() == [False, False]
    assert nodes.tolerated((), soft=True).tolist() == [False, True]
    assert nodes.tolerated(tolerates, soft=False).tolist() == [True, False]
    assert nodes.tolerated(tolerates, soft=True).tolist() == [True, True]


def test_without_nodes_every_mask_is_empty():
    nodes = ExistingNodes([])
    assert nodes.tolerated((), soft=False).tolist() == []
    assert meeting(nodes, (ZONE, "In", ["zone-a"])) == []


def test_a_row_keeps_its_place_when_its_pods_change():
    nodes = ExistingNodes([existing("a"), existing("b")])
    nodes.replace(0, ClusterNode(node("a"), None, ()))
    assert names(nodes) == ["a", "b"]
    assert nodes.row_by_name == {"a": 0, "b": 1}
