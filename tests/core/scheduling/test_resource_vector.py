"""Resources as vectors: one column a resource, whole numbers, rounded up."""

import pytest

from dovetail.core.scheduling.resource_vector import MOST, ResourceUnits, any_negative
from dovetail.model.resources import Quantity

UNITS = ResourceUnits(["memory", "cpu", "example.com/gpu"])


def resources(**amounts):
    return {name: Quantity.of(amount) for name, amount in amounts.items()}


def test_needs_of_a_size_class_have_one_least_need():
    units = ResourceUnits(["cpu", "memory"])
    least = units.least(((0, 1050), (1, 7)))
    assert least == ((0, 1024), (1, 7))
    assert units.least(((0, 1151), (1, 7))) is least
    assert units.least(((0, 1152), (1, 7))) != least


def test_columns_are_sorted_by_name_whatever_the_order_given():
    assert UNITS.names == ("cpu", "example.com/gpu", "memory")
    assert UNITS.column == {"cpu": 0, "example.com/gpu": 1, "memory": 2}


def test_cpu_is_counted_in_thousandths_and_memory_in_bytes():
    assert UNITS.amounts(resources(cpu="1500m", memory="2Ki")) == [1500, 0, 2048]


@pytest.mark.parametrize(("written", "amount"), [("100u", 1), ("1", 1000), ("1001u", 2)])
def test_a_fraction_is_rounded_up(written, amount):
    assert UNITS.amounts(resources(cpu=written))[0] == amount


def test_a_resource_without_a_column_is_left_out():
    assert UNITS.amounts({"hugepages-2Mi": Quantity.of("1Gi")}) == [0, 0, 0]


def test_a_negative_amount_counts_as_zero():
    assert UNITS.amounts(resources(cpu="-1")) == [0, 0, 0]


def test_an_amount_beyond_64_bits_is_capped_so_that_sums_of_some_still_fit():
    assert UNITS.amounts(resources(memory="9E"))[2] == MOST
    assert MOST * 100 < 2**63


def test_a_need_has_columns_with_amounts_and_no_zeros():
    assert UNITS.need(resources(cpu="0", memory="1Ki")) == ((2, 1024),)


def test_overdrawn_is_below_zero_and_not_zero():
    assert any_negative(resources(cpu="1", memory="-1"))
    assert not any_negative(resources(cpu="0"))
