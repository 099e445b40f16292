import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model import labels
from dovetail.model.requirements import Requirement, Requirements

LARGEST = (1 << 63) - 1
VALUES = ["a", "b", "c", "-1", "0", "1", "4", "5", "05", "+5", "6", "9", "", "1.5", str(LARGEST), str(LARGEST + 1)]
INTEGERS = st.integers(-2, 10).map(str)


def requirement(operator, *values, min_values=None):
    return Requirement.of("key", operator, values, min_values)


SETS = st.builds(
    lambda operator, values, least: requirement(operator, *values, min_values=least),
    st.sampled_from(["In", "NotIn"]),
    st.sets(st.sampled_from(VALUES), max_size=5),
    st.none() | st.integers(1, 5),
)
BOUNDED = st.builds(requirement, st.sampled_from(["Gt", "Lt", "Gte", "Lte"]), INTEGERS)
SIMPLE = SETS | BOUNDED | st.sampled_from([requirement("Exists"), requirement("DoesNotExist")])
REQUIREMENTS = SIMPLE | st.builds(Requirement.intersection, SIMPLE, SIMPLE)


def membership(one):
    return [one.has(value) for value in VALUES]


@given(REQUIREMENTS, REQUIREMENTS)
def test_an_intersection_admits_what_both_admit(a, b):
    assert membership(a.intersection(b)) == [a.has(value) and b.has(value) for value in VALUES]


@given(REQUIREMENTS, REQUIREMENTS)
def test_intersection_is_commutative(a, b):
    assert a.intersection(b) == b.intersection(a)


@given(REQUIREMENTS, REQUIREMENTS, REQUIREMENTS)
def test_intersection_is_associative(a, b, c):
    left, right = a.intersection(b).intersection(c), a.intersection(b.intersection(c))
    assert membership(left) == membership(right)
    assert left.min_values == right.min_values


@given(REQUIREMENTS)
def test_intersection_is_idempotent(a):
    assert a.intersection(a) == a


@given(REQUIREMENTS, REQUIREMENTS)
def test_two_intersect_exactly_when_their_intersection_is_not_empty(a, b):
    assert a.intersects(b) == (not a.intersection(b).is_empty)
    assert a.intersects(b) == b.intersects(a)


@given(REQUIREMENTS)
def test_what_is_written_reads_back_as_the_same_requirement(a):
    back = (
        Requirement.of(entry["key"], entry["operator"], entry.get("values", ()), entry.get("minValues"))
        for entry in a.to_wire()
    )
    assert Requirements.of(back) == Requirements.of([a])


@given(REQUIREMENTS)
def test_any_value_is_admitted_and_always_the_same(a):
    assert a.any() == a.any()
    assert a.has(a.any()) or a.any() == ""


def test_bounds_meet_in_between():
    five = requirement("Gt", "4").intersection(requirement("Lt", "6"))
    assert (five.gte, five.lte, five.operator) == (5, 5, "Exists")
    assert [five.has(value) for value in ("5", "4", "abc")] == [True, False, False]
    assert requirement("Gt", "5").intersection(requirement("Lt", "6")).operator == "DoesNotExist"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (requirement("In", "a", "b"), requirement("NotIn", "b"), requirement("In", "a")),
        (requirement("NotIn", "a"), requirement("NotIn", "b"), requirement("NotIn", "a", "b")),
        (requirement("In", "a"), requirement("In", "b"), requirement("DoesNotExist")),
        (requirement("Exists"), requirement("DoesNotExist"), requirement("DoesNotExist")),
        (requirement("In", "1", "5", "9"), requirement("Gte", "5"), requirement("In", "5", "9")),
        (requirement("NotIn", "3", "7"), requirement("Gte", "5"), Requirement(
            key="key", complement=True, values=frozenset({"7"}), gte=5
        )),
    ],
)  # fmt: skip
def test_sets_meet(a, b, expected):
    assert a.intersection(b) == b.intersection(a) == expected


def test_the_larger_minimum_of_values_wins_even_over_an_empty_set():
    two, three = requirement("Exists", min_values=2), requirement("Exists", min_values=3)
    assert two.intersection(three).min_values == 3
    assert two.intersection(requirement("Exists")).min_values == 2
    assert two.intersection(requirement("Gt", "5")).intersection(requirement("Lt", "5")).min_values == 2


@pytest.mark.parametrize(("operator", "bound"), [("Gt", LARGEST), ("Lt", -LARGEST - 1)])
def test_beyond_the_last_integer_there_is_nothing(operator, bound):
    assert requirement(operator, str(bound)) == requirement("DoesNotExist")


@pytest.mark.parametrize("values", [(), ("1", "2"), ("x",), ("1.5",), ("",), (str(LARGEST + 1),)])
def test_a_bound_needs_exactly_one_integer(values):
    with pytest.raises(ValueError, match="exactly one integer"):
        requirement("Gt", *values)


def test_an_unknown_operator_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'in' of requirement 'key' is unknown; use one of In, NotIn, Exists"):
        requirement("in", "a")


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (requirement("In", "b", "a"), "a"),
        (requirement("Exists"), "0"),
        (requirement("NotIn", "0", "1"), "2"),
        (requirement("Gte", "7"), "7"),
        (requirement("Lt", "0"), "-1"),
        (requirement("Gte", "5").intersection(requirement("NotIn", "5")), "6"),
        (requirement("DoesNotExist"), ""),
    ],
)
def test_one_value_stands_for_all(one, value):
    assert one.any() == value


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (requirement("In", "b", "a"), "key In [a b]"),
        (requirement("NotIn", *"gfedcba"), "key NotIn [a b c d e and 2 others]"),
        (requirement("In", *"edcba"), "key In [a b c d e]"),
        (requirement("Exists"), "key Exists"),
        (requirement("DoesNotExist"), "key DoesNotExist"),
        (requirement("Gt", "4").intersection(requirement("Lte", "9")), "key Exists >=5 <=9"),
        (requirement("In", "a", min_values=1), "key In [a] minValues 1"),
    ],
)
def test_a_requirement_reads_as_a_phrase(one, text):
    assert str(one) == text


def test_excluded_values_are_written_beside_bounds():
    one = requirement("Gte", "2", min_values=2).intersection(requirement("NotIn", "5", "3"))
    assert one.to_wire() == [
        {"key": "key", "operator": "Gte", "values": ["2"], "minValues": 2},
        {"key": "key", "operator": "NotIn", "values": ["3", "5"], "minValues": 2},
    ]


def test_older_spellings_of_labels_are_rewritten():
    assert Requirement.of("beta.kubernetes.io/arch", "Exists").key == labels.ARCH
    assert Requirement.of("failure-domain.beta.kubernetes.io/zone", "In", ["a"]).key == labels.ZONE
