"""What a draft can still become: narrowing, the cheapest type that holds a total, and prices."""

from dataclasses import replace

import pytest

from builders import HUGE, LARGE, SMALL, instance_type, nodepool, snapshot
from dovetail.core.scheduling.daemon_overhead import read_daemons
from dovetail.core.scheduling.draft_options import UNLIMITED, root_options
from dovetail.core.scheduling.instance_type_table import build_table
from dovetail.core.scheduling.node_affinity import Alternative
from dovetail.core.scheduling.resource_vector import ResourceUnits
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.requirements import Requirement

GIB = 2**30


def options(*types, **pool):
    found = snapshot(pools=[nodepool(**pool)], types=types or (SMALL, LARGE, HUGE))
    return root_options(
        build_table(found.nodepools["default"], found, read_daemons(found), ResourceUnits(["cpu", "memory"]))
    )


def wanted(*expression):
    return Alternative([Requirement.of(*expression)])


def name(found, position):
    return found.choice(position).type.name if position >= 0 else None


def test_types_are_sorted_by_their_cheapest_offering():
    found = options()
    assert [name(found, each) for each in range(3)] == ["m.small", "m.large", "m.huge"]
    assert found.prices.tolist() == [0.2, 0.4, 1.6]


@pytest.mark.parametrize(
    ("cpu", "memory", "below", "type_"),
    [
        (2000, 8, UNLIMITED, "m.small"),
        (2001, 8, UNLIMITED, "m.large"),
        (2000, 9, UNLIMITED, "m.large"),
        (16001, 1, UNLIMITED, None),
        (2001, 8, 0.4, None),  # the price must be below, not equal
    ],
)
def test_the_cheapest_type_that_holds_a_total_is_found(cpu, memory, below, type_):
    found = options()
    assert name(found, found.find([cpu, memory * GIB], below)) == type_


def test_the_frontier_leaves_out_types_that_cost_more_and_have_no_more():
    found = options(SMALL, LARGE, instance_type("m.bad", "3", "12Gi", 2.0))
    assert [name(found, position) for _, position, _ in found.frontier] == ["m.small", "m.large"]


def test_all_types_that_hold_a_total_are_left_cheapest_first():
    found = options()
    assert [name(found, each) for each in found.left([3000, GIB])] == ["m.large", "m.huge"]


def test_equal_narrowing_is_one_object_and_narrowing_to_nothing_new_is_itself():
    found = options()
    narrowed = found.narrow(wanted(ZONE, "In", ["zone-a"]))
    assert found.narrow(wanted(ZONE, "In", ["zone-a"])) is narrowed
    assert narrowed.narrow(wanted(ZONE, "In", ["zone-a"])) is narrowed
    assert narrowed.domains(ZONE) == ("zone-a",)
    assert found.domains(ZONE) == ("zone-a", "zone-b")


def test_narrowing_to_nothing_says_why():
    found = options()
    assert found.narrow(wanted(ZONE, "In", ["zone-c"])) == "no instance type met all requirements"
    assert "does not have known values" in found.narrow(wanted("team", "In", ["a"]))


def test_the_highest_price_is_over_all_remaining_offerings():
    zone_b = tuple(replace(each, price=each.price * 3) if each.zone == "zone-b" else each for each in SMALL.offerings)
    found = options(replace(SMALL, offerings=zone_b))
    assert found.most_expensive(0) == 1.5
    assert found.within(ZONE, ["zone-a"]).most_expensive(0) == 0.5
    assert found.within(CAPACITY_TYPE, ["spot"]).within(ZONE, ["zone-a"]).most_expensive(0) == pytest.approx(0.2)


def test_fewer_types_than_min_values_are_none():
    pool = {"requirements": [{"key": INSTANCE_TYPE, "operator": "Exists", "minValues": 2}]}
    found = options(template=pool)
    assert len(found.left([3000, GIB])) == 2
    assert found.left([5000, GIB]) == []
