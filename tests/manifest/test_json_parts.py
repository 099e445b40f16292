"""Splitting JSON texts at any depth, in agreement with the decoder."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.manifest.codec import UNDECODED, decode, loose, parts
from dovetail.model.kinds import POD
from dovetail.model.kube_object import UnreadableObject

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


def test_readable_parts_are_decoded_beside_unreadable_ones():
    text = b'{"spec":{"a":"\xff","nodeName":"n"},"metadata":{"labels":[],"name":"a","namespace":"b","uid":"u"}}'
    assert loose(text) == {
        "spec": {"a": UNDECODED, "nodeName": "n"},
        "metadata": {"labels": [], "name": "a", "namespace": "b", "uid": "u"},
    }


@pytest.mark.parametrize("bad", [b'"\xff"', b"[" * 5_000 + b"]" * 5_000], ids=["no UTF-8", "deep"])
def test_an_object_that_cannot_be_decoded_keeps_its_identity_and_its_node(bad):
    metadata = b'{"name":"a","namespace":"b","uid":"u","resourceVersion":"5","annotations":{"x":' + bad + b"}}"
    found = decode(POD, b'{"metadata":' + metadata + b',"spec":{"nodeName":"n"}}')
    assert isinstance(found, UnreadableObject)
    known = found.metadata
    assert (known.name, known.namespace, known.uid, known.resource_version) == ("a", "b", "u", "5")
    assert found.partial.spec.node_name == "n"
    assert found.knows("spec.nodeName")
    assert not found.knows("metadata.annotations.x")


@pytest.mark.parametrize(
    "text", [b"{}", b'{"metadata":{}}', b'{"metadata":{"name":5}}', b'{"metadata":{"name":"\xff"}}']
)
def test_without_a_name_that_can_be_read_there_is_no_object(text):
    with pytest.raises(ValueError, match=r".+"):
        decode(POD, text.replace(b"{", b'{"spec":5,', 1).replace(b",}", b"}"))
