"""Merge patch: the table of RFC 7386, and its laws."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.sim.kubernetes.merge_patch import merge_patch

EXAMPLES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]

SCALARS = st.integers() | st.text(max_size=3) | st.booleans()
PLAIN = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), PLAIN, max_size=4)
PATCHES = st.recursive(
    SCALARS | st.none(), lambda inner: st.lists(SCALARS) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
)


@pytest.mark.parametrize(("target", "patch", "expected"), EXAMPLES)
def test_examples(target, patch, expected):
    assert merge_patch(target, patch) == expected


@given(OBJECTS, PATCHES)
def test_applying_a_patch_twice_changes_nothing_more(target, patch):
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@given(OBJECTS, PATCHES)
def test_the_original_is_left_alone(target, patch):
    before = copy.deepcopy(target)
    merge_patch(target, patch)
    assert target == before


@given(OBJECTS, OBJECTS)
def test_what_the_patch_names_is_there_and_the_rest_is_kept(target, patch):
    merged = merge_patch(target, patch)
    assert merged.keys() == target.keys() | patch.keys()
    assert all(merged[name] is target[name] for name in target.keys() - patch.keys())
