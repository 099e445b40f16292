"""What is taken over from the version before is what would have been read."""

import pytest

from dovetail.manifest import codec
from dovetail.model import kinds
from dovetail.model.kube_object import UnreadableObject
from dovetail.sim.kubernetes.decode_cache import DecodeCache, PreviousVersion
from dovetail.sim.kubernetes.merge_patch import merge_patch

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "x", "resourceVersion": "1", "labels": {"app": "a"}, "annotations": {}},
    "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}], "nodeName": ""},
    "status": {"phase": "Pending"},
}
PATCHES = [
    {"metadata": {"resourceVersion": "2"}, "status": {"phase": "Running"}},
    {"metadata": {"resourceVersion": "2", "labels": {"app": None}}},
    {"metadata": {"resourceVersion": "2", "labels": {"app": "b"}, "annotations": {"k": "v"}}},
    {"metadata": {"resourceVersion": "2", "deletionTimestamp": "2026-01-05T00:00:00Z"}},
    {"metadata": {"resourceVersion": "2"}, "spec": {"nodeName": "n", "priority": 3}},
    {"metadata": {"resourceVersion": "2"}, "spec": {"nodeName": "n"}},
    {"metadata": {"resourceVersion": "2"}, "spec": {"nodeName": None}},
    {"metadata": {"resourceVersion": "2"}, "status": None},
]


@pytest.mark.parametrize("patch", PATCHES)
def test_decoding_with_a_previous_version_equals_decoding_alone(patch):
    cache = DecodeCache()
    before = cache.read(kinds.POD, POD, None)
    after = merge_patch(POD, patch)
    read = cache.read(kinds.POD, after, PreviousVersion(POD, {kinds.POD.model: before}))
    assert read == codec.from_plain(kinds.POD, after)


def test_unchanged_parts_are_the_identical_values():
    cache = DecodeCache()
    before = cache.read(kinds.POD, POD, None)
    after = merge_patch(POD, {"metadata": {"resourceVersion": "2"}, "status": {"phase": "Running"}})
    read = cache.read(kinds.POD, after, PreviousVersion(POD, {kinds.POD.model: before}))
    assert read.spec is before.spec
    assert read.metadata.labels is before.metadata.labels
    assert (read.metadata.resource_version, before.metadata.resource_version) == ("2", "1")


def test_binding_a_pod_keeps_the_other_parts_of_its_spec():
    cache = DecodeCache()
    before = cache.read(kinds.POD, POD, None)
    after = merge_patch(POD, {"metadata": {"resourceVersion": "2"}, "spec": {"nodeName": "n"}})
    read = cache.read(kinds.POD, after, PreviousVersion(POD, {kinds.POD.model: before}))
    assert read.node_name == "n"
    assert read.spec.containers is before.spec.containers


def test_an_undecodable_version_has_a_path_and_the_next_one_is_decoded_in_full():
    cache = DecodeCache()
    before = cache.read(kinds.POD, POD, None)
    odd = merge_patch(POD, {"spec": {"priority": "high"}})
    bad = cache.read(kinds.POD, odd, PreviousVersion(POD, {kinds.POD.model: before}))
    assert isinstance(bad, UnreadableObject)
    assert bad.faults[0].path == "spec.priority"
    assert cache.read(kinds.POD, POD, PreviousVersion(odd, {kinds.POD.model: bad})) == before
