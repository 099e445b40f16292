"""A replacement is worth it only if it is cheaper wherever it may be bought."""

from dataclasses import replace

import pytest

from acceptance.fleet import DO_NOT_DISRUPT, ON_DEMAND, cluster, free, running, worker
from builders import LARGE, NOON, SMALL, instance_type
from dovetail.core.disruption.planner import plan_disruption
from dovetail.model.command import RECORD_ANNOTATION, CommandRecord, write_record
from dovetail.model.labels import ZONE
from dovetail.model.reason import Reason


def replacements(*types):
    found = cluster(worker("a", running("web", "a")), pools=[free(template=ON_DEMAND)], types=(LARGE, *types))
    return [draft.type_names for command in plan_disruption(found).commands for draft in command.replacements]


def test_a_node_is_not_replaced_by_one_of_the_same_price():
    assert replacements(instance_type("m.other", "2", "8Gi", LARGE.offerings[0].price)) == []


def mixed(price):
    """A type that costs 0.6 in one zone, and `price` in the other."""
    type_ = instance_type("m.mixed", "2", "8Gi", 0.6)
    offerings = [
        replace(each, price=price) if each.requirements.get(ZONE).has("zone-b") else each for each in type_.offerings
    ]
    return replace(type_, offerings=tuple(offerings))


def test_a_type_that_is_dearer_in_one_zone_is_no_replacement():
    assert replacements(SMALL, mixed(1.5)) == [{"m.small"}]


@pytest.mark.parametrize(("price", "found"), [(1.0, []), (0.99, [{"m.mixed"}])])
def test_a_type_that_costs_the_same_in_one_zone_is_no_replacement(price, found):
    assert replacements(mixed(price)) == found


@pytest.mark.parametrize("policy", ["WhenEmptyOrUnderutilized", "Balanced"])
def test_a_saving_that_is_a_rounding_error_is_none(policy):
    """0.7 x 0.1 is a little less than 0.07 as a float."""
    types = (instance_type("m.old", "2", "8Gi", 0.07), instance_type("m.new", "2", "8Gi", 0.7 * 0.1))
    pool = free(template=ON_DEMAND, consolidationPolicy=policy)
    found = cluster(worker("a", running("web", "a"), type_="m.old"), pools=[pool], types=types)
    assert plan_disruption(found).commands == ()


def removed_beside(**fields):
    """The nodes that go of two: "a" has a pod that tolerates every taint, and protected "b" has room for it."""
    protected = {"annotations": {DO_NOT_DISRUPT: "true"}}
    pod = running("web", "a", spec={"tolerations": [{"operator": "Exists"}]})
    nodes = worker("a", pod), worker("b", metadata=protected, **fields)
    plan = plan_disruption(cluster(*nodes, pools=[free(template=ON_DEMAND)], types=(LARGE,)))
    return [each.name for command in plan.commands for each in command.candidates]


def test_pods_are_not_moved_to_a_node_that_a_command_removes():
    """The pod tolerates the taint of that node, and would have to move again minutes later."""
    record = CommandRecord(id="c", reason=Reason.DRIFTED, started_at=NOON, candidates=1, replacements=0)
    assert removed_beside() == ["a"]
    assert removed_beside(claim={"metadata": {"annotations": {RECORD_ANNOTATION: write_record(record)}}}) == []
