"""The readable fields of an object that does not fit its model, and the lost ones."""

import msgspec
import pytest

from dovetail.manifest.codec import decode, from_plain, to_plain
from dovetail.model.kinds import NODE, NODE_CLAIM, POD, POD_DISRUPTION_BUDGET
from dovetail.model.kube_object import KubeObject, UnreadableObject
from dovetail.model.node import Node

META = {"name": "x", "namespace": "default", "uid": "u", "labels": {"a": "b"}}


def test_one_bad_field_loses_that_field_alone():
    container = {"name": "main", "resources": {"requests": {"cpu": "about-two", "memory": "1Gi"}}}
    bad = from_plain(POD, {"metadata": META, "spec": {"nodeName": "n", "containers": [container]}})
    assert isinstance(bad, UnreadableObject)
    assert bad.partial.spec.node_name == "n"
    assert set(bad.partial.spec.containers[0].resources.requests) == {"memory"}
    assert bad.lost == ("spec.containers[0].resources.requests.cpu",)
    assert bad.knows("spec.nodeName")
    assert not bad.knows("spec.containers[0].resources.requests.cpu")
    assert "about-two" in bad.problem


@pytest.mark.parametrize(
    ("data", "lost"),
    [
        ({"metadata": META, "spec": {"nodeName": 5}}, "spec.nodeName"),
        ({"metadata": META, "spec": 5}, "spec"),
        ({"metadata": META, "spec": {"tolerations": [{"key": "a"}, 5]}}, "spec.tolerations[1]"),
        ({"metadata": {**META, "labels": {"a": 5, "b": "c"}}}, "metadata.labels.a"),
        ({"metadata": {**META, "creationTimestamp": "2026-01-05T00:00:00"}}, "metadata.creationTimestamp"),
        ({"metadata": 7}, "metadata"),
        ([], ""),
        (5, ""),
    ],
)
def test_what_is_lost_is_known(data, lost):
    bad = from_plain(POD, data)
    assert isinstance(bad, UnreadableObject)
    assert bad.lost == (lost,)
    assert bad.knows("spec.nodeName") is (not "spec.nodeName".startswith(lost))


def test_the_same_is_known_of_bytes():
    plain = {"metadata": META, "spec": {"providerID": "i-1", "taints": 5}}
    bad = decode(NODE, msgspec.json.encode(plain))
    assert bad == from_plain(NODE, plain)
    assert isinstance(bad.partial, Node)
    assert bad.partial.provider_id == "i-1"


def test_an_entry_that_contradicts_itself_is_lost_alone():
    good, odd = {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Near"}
    bad = from_plain(NODE_CLAIM, {"metadata": META, "spec": {"requirements": [good, odd]}})
    assert [each.key for each in bad.partial.spec.requirements] == ["a"]
    assert "'Near'" in bad.problem
    assert bad.faults[0].path == "spec.requirements[1]"


def test_a_selector_with_an_unknown_operator_cannot_be_read():
    selector = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    bad = from_plain(POD_DISRUPTION_BUDGET, {"metadata": META, "spec": {"selector": selector}})
    assert isinstance(bad, UnreadableObject)
    assert "use one of In, NotIn, Exists, DoesNotExist" in bad.problem


def test_what_can_be_read_is_read_whole():
    plain = {"metadata": META, "spec": {"nodeName": "n"}}
    assert isinstance(from_plain(POD, plain), KubeObject)
    assert to_plain(POD, from_plain(POD, plain))["spec"] == plain["spec"]
