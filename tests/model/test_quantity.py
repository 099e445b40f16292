import gzip
import json
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.resources import ZERO, Quantity

ORACLE = Path(__file__).parents[1] / "data" / "quantity.jsonl.gz"
NANOS = st.integers(min_value=-(10**24), max_value=10**24)
SCALES = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1, "k": 1000, "M": 10**6}
SCALES |= {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "e3": 1000, "E-3": Fraction(1, 1000), "G": 10**9, "T": 10**12}


def cases():
    with gzip.open(ORACLE, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def spelled(quantity, like):
    """Amounts that were written with an exponent are printed by Kubernetes with one; here they get a suffix."""
    return quantity.canonical if "e" not in like else Quantity.parse(like) == quantity and like


def test_agrees_with_kubernetes_on_every_recorded_text():
    for case in cases():
        if "error" in case:
            with pytest.raises(ValueError, match="is not a quantity"):
                Quantity.parse(case["a"])
            continue
        quantity = Quantity.parse(case["a"])
        assert (quantity.milli, quantity.units) == (case["milli"], case["units"]), case
        assert spelled(quantity, case["canonical"]) == case["canonical"]


def test_agrees_with_kubernetes_on_every_recorded_sum_and_difference():
    for case in cases():
        if "sum" in case:
            a, b = Quantity.parse(case["a"]), Quantity.parse(case["b"])
            assert spelled(a + b, case["sum"]) == case["sum"], case
            assert spelled(a - b, case["difference"]) == case["difference"], case
            assert (a > b) - (a < b) == case["compare"], case


@given(st.integers(0, 10**15), st.integers(0, 9), st.sampled_from(sorted(SCALES)), st.sampled_from(["", "-", "+"]))
def test_what_is_written_is_what_is_meant_rounded_away_from_zero_below_a_nano(number, places, suffix, sign):
    digits = str(number).rjust(places + 1, "0")
    text = f"{sign}{digits[: len(digits) - places]}.{digits[len(digits) - places :]}{suffix}"
    exact = Fraction(number, 10**places) * SCALES[suffix] * 10**9
    nano = -(-exact.numerator // exact.denominator)
    if suffix.endswith("i"):
        nano = min(nano, ((1 << 63) - 1) * 10**9)  # Kubernetes caps amounts written in a binary suffix
    assert Quantity.parse(text).nano == (-nano if sign == "-" else nano)


@given(NANOS, NANOS)
def test_addition_is_exact_and_can_be_undone(a, b):
    total = Quantity(a) + Quantity(b)
    assert total.nano == a + b
    assert total - Quantity(b) == Quantity(a)


@given(NANOS, NANOS, NANOS)
def test_addition_preserves_order(a, b, more):
    assert (Quantity(a) < Quantity(b)) == (Quantity(a) + Quantity(more) < Quantity(b) + Quantity(more))
    assert max(Quantity(a), Quantity(b)).nano == max(a, b)


@given(NANOS, st.booleans())
def test_the_canonical_spelling_reads_back_as_the_same_amount(nano, binary):
    quantity = Quantity(nano, binary=binary)
    assert Quantity.parse(str(quantity)) == quantity


@given(NANOS)
def test_whole_units_are_never_fewer_than_requested(nano):
    quantity = Quantity(nano)
    assert abs(quantity.units) * 10**9 >= abs(quantity.milli) * 10**6 >= abs(nano)
    assert abs(quantity.units) * 10**9 - abs(nano) < 10**9


@pytest.mark.parametrize(
    ("text", "milli", "units"), [("1500m", 1500, 2), ("100n", 1, 1), ("-1500m", -1500, -2), ("0", 0, 0)]
)
def test_thousandths_and_units_round_away_from_zero(text, milli, units):
    assert (Quantity.parse(text).milli, Quantity.parse(text).units) == (milli, units)


def test_what_was_written_is_printed_unchanged():
    for text in ("1024Mi", "1000m", "1e3", "+5", "0.50"):
        assert str(Quantity.parse(text)) == text


@pytest.mark.parametrize(
    ("a", "b", "total"), [("1Gi", "1Gi", "2Gi"), ("512Mi", "512Mi", "1Gi"), ("1", "500m", "1500m"), ("0", "1Gi", "1Gi")]
)
def test_a_sum_is_printed_with_the_largest_whole_suffix_of_its_family(a, b, total):
    assert str(Quantity.parse(a) + Quantity.parse(b)) == total


@pytest.mark.parametrize(("value", "text"), [(2, "2"), (0.5, "500m"), (1e22, "10e21"), ("1500m", "1500m")])
def test_documents_may_carry_numbers(value, text):
    assert Quantity.of(value) == Quantity.parse(text)


@pytest.mark.parametrize("value", [True, None, float("inf"), float("nan"), [1]])
def test_other_values_of_documents_are_refused(value):
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity.of(value)


@pytest.mark.parametrize(
    "text", ["", ".", "+", "Gi", "1K", "1ki", "1 Gi", "1e", "1e1.5", "٣", "1e9999999999", "9" * 9999]
)
def test_a_refusal_names_the_text_and_shows_how_to_write_it(text):
    with pytest.raises(ValueError, match=r'such as "500m" or "2Gi"') as fault:
        Quantity.parse(text)
    assert repr(text)[:10].rstrip("'") in str(fault.value)


def test_zero_is_falsy_equal_amounts_hash_alike_and_binary_amounts_are_capped():
    assert not ZERO
    assert Quantity.parse("1n")
    assert len({Quantity.parse("1"), Quantity.parse("1000m"), Quantity.parse("1e0")}) == 1
    assert Quantity.parse("100Ei").units == (1 << 63) - 1
    assert Quantity.parse("1") != 1


@pytest.mark.parametrize(
    ("text", "number"),
    [("1500m", 1.5), ("2Ki", 2048.0), ("1e400", sys.float_info.max), ("-1e400", -sys.float_info.max)],
)
def test_as_a_figure_every_amount_is_a_number(text, number):
    assert Quantity.parse(text).number == number
