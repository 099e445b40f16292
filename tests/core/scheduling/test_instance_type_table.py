"""The offerings of a NodePool as sorted arrays, and masks over them."""

import numpy as np

from builders import LARGE, SMALL, daemon_set, instance_type, nodepool, snapshot
from dovetail.core.scheduling.catalog_table import Column
from dovetail.core.scheduling.daemon_overhead import read_daemons
from dovetail.core.scheduling.instance_type_table import Sizes, build_table
from dovetail.core.scheduling.resource_vector import ResourceUnits
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Quantity

UNITS = ResourceUnits(["cpu", "memory"])


def table(*types, daemons=(), **pool):
    found = snapshot(pools=[nodepool(**pool)], types=types or (LARGE, SMALL), daemon_sets=daemons)
    return build_table(found.nodepools["default"], found, read_daemons(found), UNITS)


def requirements(*each):
    return Requirements.of([Requirement.of(*one) for one in each])


def left(found, *each):
    """The offerings that requirements leave, as (type, zone, capacity type)."""
    wanted = requirements(*each)
    mask = found.left_by(np.ones(len(found.offerings), dtype=np.bool_), wanted, [one[0] for one in each])
    rows = np.flatnonzero(mask)
    return {
        (found.choices[found.type_of[row]].type.name, found.offerings[row].zone, found.offerings[row].capacity_type)
        for row in rows
    }


def test_offerings_are_sorted_by_price_whatever_the_order_of_the_types():
    found = table(LARGE, SMALL)
    assert found.price.tolist() == [0.2, 0.2, 0.4, 0.4, 0.5, 0.5, 1.0, 1.0]
    assert [found.choices[index].type.name for index in found.type_of] == ["m.small"] * 2 + ["m.large"] * 2 + [
        "m.small"
    ] * 2 + ["m.large"] * 2


def test_offerings_of_one_price_are_sorted_by_type_name():
    found = table(instance_type("m.b"), instance_type("m.a"))
    assert [found.choices[index].type.name for index in found.type_of[:4]] == ["m.a", "m.a", "m.b", "m.b"]


def test_only_offerings_that_the_nodepool_allows_are_in_the_table():
    wanted = {"requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]}
    assert table(template=wanted).price.tolist() == [0.5, 0.5, 1.0, 1.0]


def test_daemons_take_their_share_of_each_type():
    assert table(SMALL, daemons=[daemon_set(cpu="500m")]).net.tolist() == [[1500, 8 * 2**30]]


def test_a_daemon_takes_its_share_only_of_types_it_selects():
    picky = daemon_set(cpu="500m", nodeSelector={INSTANCE_TYPE: "m.small"})
    found = table(LARGE, SMALL, daemons=[picky])
    assert {choice.type.name: net[0] for choice, net in zip(found.choices, found.net.tolist(), strict=True)} == {
        "m.large": 4000,
        "m.small": 1500,
    }


def test_nodepools_that_differ_only_in_their_names_make_the_same_offer():
    found = snapshot(pools=[nodepool("a"), nodepool("b"), nodepool("c", weight=5)], types=(LARGE, SMALL))
    tables = [build_table(pool, found, read_daemons(found), UNITS) for pool in found.nodepools.values()]
    assert len({each.offer for each in tables}) == 1
    taints = [{"key": "dedicated", "effect": "NoSchedule"}]
    other = snapshot(pools=[nodepool("d", template={"taints": taints})], types=(LARGE, SMALL))
    tainted = build_table(other.nodepools["d"], other, read_daemons(other), UNITS)
    assert tainted.offer != tables[0].offer


def test_a_type_that_its_daemons_overdraw_has_nothing():
    assert table(SMALL, daemons=[daemon_set(cpu="3")]).net.tolist() == [[-1, -1]]


def test_a_requirement_on_a_label_of_offerings_leaves_those():
    assert left(table(SMALL), (ZONE, "In", ["zone-a"])) == {
        ("m.small", "zone-a", "spot"),
        ("m.small", "zone-a", "on-demand"),
    }


def test_a_requirement_on_a_label_of_types_leaves_all_their_offerings():
    assert {name for name, _, _ in left(table(), (INSTANCE_TYPE, "In", ["m.large"]))} == {"m.large"}
    assert len(left(table(), (INSTANCE_TYPE, "In", ["m.large"]))) == 4


def test_a_label_that_no_row_has_excludes_none():
    assert len(left(table(SMALL), ("team", "In", ["a"]))) == 4


def test_a_row_that_says_nothing_of_a_label_is_admitted():
    column = Column.read([requirements((ZONE, "In", ["zone-a"])), requirements()], ZONE)
    assert column.admitted(Requirement.of(ZONE, "In", ["zone-b"])).tolist() == [False, True]


def test_sizes_compare_exactly_and_know_the_largest():
    sizes = Sizes([Quantity.of("1"), Quantity.of("1000000000000000000001n"), Quantity.of("2")])
    assert sizes.within(Quantity.of("1")).tolist() == [True, False, False]
    assert sizes.within(Quantity.of("2")).tolist() == [True, False, True]
    assert sizes.largest(np.array([0, 2])) == Quantity.of("2")


def test_an_equal_question_gets_the_same_table_and_another_daemon_another_one():
    found = snapshot(pools=[nodepool()], types=(LARGE, SMALL))
    ask = (found.nodepools["default"], found, read_daemons(found), UNITS)
    assert build_table(*ask) is build_table(*ask)
    with_daemon = snapshot(pools=[nodepool()], types=(LARGE, SMALL), daemon_sets=[daemon_set()])
    assert build_table(*ask[:2], read_daemons(with_daemon), UNITS) is not build_table(*ask)
