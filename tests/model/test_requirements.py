import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model import labels
from dovetail.model.requirements import Requirement, Requirements

STRICT = frozenset()
LENIENT = labels.WELL_KNOWN


def requirements(*specs):
    """Each spec is `key Operator value...`."""
    words = [spec.split() for spec in specs]
    return Requirements.of(Requirement.of(key, operator, values) for key, operator, *values in words)


@pytest.mark.parametrize(
    ("incoming", "strict", "lenient"),
    [
        (f"{labels.ZONE} In a", False, True),
        ("team In x", False, False),
        ("team Exists", False, False),
        ("team Gt 4", False, False),
        ("team NotIn x", True, True),
        ("team DoesNotExist", True, True),
    ],
)
def test_an_undefined_label_satisfies_only_requirements_that_accept_its_absence(incoming, strict, lenient):
    base, wanted = requirements(), requirements(incoming)
    assert (base.compatible(wanted, STRICT) is None) is strict
    assert (base.compatible(wanted, LENIENT) is None) is lenient


def test_two_that_accept_absence_are_compatible_without_a_common_value():
    base = requirements("gpu DoesNotExist")
    assert base.compatible(requirements("gpu NotIn x"), STRICT) is None
    assert base.compatible(requirements("gpu Exists"), STRICT) == "key gpu, gpu Exists not in gpu DoesNotExist"


def test_a_conflict_names_both_sides():
    base = requirements("zone In a b", "arch In arm64")
    assert base.intersects(requirements("zone In c", "arch In amd64", "other In x")) == (
        "key arch, arch In [amd64] not in arch In [arm64]; key zone, zone In [c] not in zone In [a b]"
    )
    assert base.intersects(requirements("zone In b c")) is None


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("zone", ' (typo of "topology.kubernetes.io/zone"?)'),
        ("topology.kubernetesio/zone", ' (typo of "topology.kubernetes.io/zone"?)'),
        ("example.com/te", ' (typo of "example.com/team"?)'),
        ("unlike", ""),
    ],
)
def test_an_unknown_label_comes_with_the_one_that_was_meant(key, hint):
    base = requirements("example.com/team In a")
    assert base.compatible(requirements(f"{key} In a"), LENIENT) == f'label "{key}" does not have known values{hint}'


def test_every_reason_is_given():
    base = requirements("zone In a")
    assert base.compatible(requirements("zone In b", "team In x"), STRICT) == (
        'label "team" does not have known values; key zone, zone In [b] not in zone In [a]'
    )


def test_adding_a_label_twice_intersects_and_leaves_the_first_set_alone():
    base = requirements("zone In a b")
    narrowed = base.add(requirements("zone In b c", "arch Exists"), requirements("zone NotIn c"))
    assert narrowed == requirements("zone In b", "arch Exists")
    assert base == requirements("zone In a b")
    assert base.add() is base


def test_a_missing_label_admits_everything():
    base = requirements()
    assert base.get("team") == Requirement.of("team", "Exists")
    assert "team" not in base
    assert len(base) == 0


def test_labels_become_requirements_and_settled_requirements_labels():
    base = Requirements.from_labels({"beta.kubernetes.io/arch": "arm64", "team": "x"})
    assert base.labels() == {labels.ARCH: "arm64", "team": "x"}
    assert base.get("beta.kubernetes.io/arch").values == {"arm64"}
    assert requirements("zone In a b", "arch NotIn c", "gpu DoesNotExist", "os In linux").labels() == {"os": "linux"}


def test_they_are_written_by_label():
    assert requirements("b Exists", "a In y x").to_wire() == [
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        {"key": "b", "operator": "Exists"},
    ]


def test_equal_sets_hash_alike_and_read_in_order():
    one, other = requirements("b Exists", "a In x"), requirements("a In x", "b Exists")
    assert len({one, other}) == 1
    assert str(one) == "a In [x], b Exists"


SETS = st.lists(
    st.builds(
        Requirement.of,
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        st.sets(st.sampled_from("xyz")),
    ),
    max_size=4,
).map(Requirements.of)


@given(SETS, SETS)
def test_order_of_adding_does_not_matter(a, b):
    assert a.add(b) == b.add(a)


@given(SETS, SETS)
def test_sets_that_do_not_intersect_have_an_empty_label_in_common(a, b):
    if a.intersects(b) is not None:
        assert any(each.is_empty for each in a.add(b).values())
    assert (a.intersects(b) is None) == (b.intersects(a) is None)


@given(SETS, st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from("xyz")))
def test_a_node_is_compatible_exactly_when_each_requirement_holds_for_its_labels(wanted, node):
    holds = all(each.has(node[key]) if key in node else each.tolerates_absence for key, each in wanted.items())
    assert (Requirements.from_labels(node).compatible(wanted, STRICT) is None) == holds
