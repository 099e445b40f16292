"""Parts of a JSON text are found at any depth, and are what the decoder would have found."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.manifest.json_parts import identity, parts

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abcdefgh", max_size=5), values, max_size=5), st.sampled_from([None, 2]))
def test_law_members_are_those_of_the_object(value, indent):
    text = json.dumps(value, indent=indent).encode()
    assert {name.decode(): json.loads(part) for name, part in parts(text)} == value


@given(st.lists(values, max_size=6), st.sampled_from([None, 1]))
def test_law_elements_are_those_of_the_array(value, indent):
    found = list(parts(json.dumps(value, indent=indent).encode()))
    assert [json.loads(part) for _, part in found] == value
    assert not any(name for name, _ in found)


def test_depth_does_not_matter():
    deep = b"[" * 50_000 + b"]" * 50_000
    assert dict(parts(b'{"a":' + deep + b',"b":1}')) == {b"a": deep, b"b": b"1"}


@pytest.mark.parametrize("text", [b"", b"1", b"null", b'"{}"', b"{", b'{"a":[1,2}', b'{"a', b"[[]"])
def test_what_is_neither_object_nor_array_or_is_cut_is_refused(text):
    with pytest.raises(ValueError, match="is"):
        list(parts(text))


def test_the_identity_is_read_whatever_stands_beside_it():
    text = b'{"spec":{"a":"\xff"},"metadata":{"labels":[],"name":"a","namespace":"b","uid":"u","resourceVersion":"5"}}'
    found = identity(text)
    assert (found.name, found.namespace, found.uid, found.resource_version) == ("a", "b", "u", "5")


@pytest.mark.parametrize(
    "text", [b"{}", b'{"metadata":{}}', b'{"metadata":{"name":5}}', b'{"metadata":{"name":"\xff"}}']
)
def test_without_a_name_there_is_no_identity(text):
    with pytest.raises(ValueError, match=r".+"):
        identity(text)
