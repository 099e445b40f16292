"""A replacement is worth it only if it is cheaper wherever it may be bought."""

from dataclasses import replace

from acceptance.fleet import ON_DEMAND, cluster, free, running, worker
from builders import LARGE, SMALL, instance_type
from dovetail.core.disruption.planner import plan_disruption
from dovetail.model.labels import ZONE


def replacements(*types):
    found = cluster(worker("a", running("web", "a")), pools=[free(template=ON_DEMAND)], types=(LARGE, *types))
    return [draft.type_names for command in plan_disruption(found).commands for draft in command.replacements]


def test_a_node_is_not_replaced_by_one_of_the_same_price():
    assert replacements(instance_type("m.other", "2", "8Gi", LARGE.offerings[0].price)) == []


def test_a_type_that_is_dearer_in_one_zone_is_no_replacement():
    mixed = instance_type("m.mixed", "2", "8Gi", 0.6)
    dear = [replace(each, price=1.5) if each.requirements.get(ZONE).has("zone-b") else each for each in mixed.offerings]
    assert replacements(SMALL, replace(mixed, offerings=tuple(dear))) == [{"m.small"}]


def test_a_type_that_costs_the_same_in_one_zone_is_no_replacement():
    mixed = instance_type("m.mixed", "2", "8Gi", 0.6)
    same = LARGE.offerings[0].price
    equal = [
        replace(each, price=same) if each.requirements.get(ZONE).has("zone-b") else each for each in mixed.offerings
    ]
    assert replacements(replace(mixed, offerings=tuple(equal))) == []
