"""The hash of an EC2NodeClass is Karpenter's, and settings that Karpenter does not have are hashed apart."""

import gzip
import json
from pathlib import Path

import pytest

from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION, OWN_CLASS_HASH
from dovetail.cloud.aws.nodeclass_hash import (
    HASH_VERSION,
    class_hash,
    hash_annotations,
    own_hash,
    recorded_hashes,
    stamped,
)
from dovetail.manifest import codec
from dovetail.manifest.validation import read
from dovetail.model.ec2nodeclass import EC2NodeClassSpec
from dovetail.model.kinds import EC2_NODE_CLASS
from manifest.ec2nodeclass_corpus import TAGGED, ec2_class

VECTORS = Path(__file__).parents[2] / "data/ec2nodeclass_hashes/hashes.jsonl.gz"
VOLUME = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}


def test_2500_hashes_are_those_of_karpenter():
    """Made with Karpenter's AWS provider v1.14.1 from random classes, empty lists, maps and texts among them."""
    rows = [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]
    wrong = [each for each in rows if class_hash(decoded(each["spec"]), each["caBundle"]) != each["hash"]]
    assert len(rows) == 2500
    assert wrong == []
    assert not any(own_hash(decoded(each["spec"])) for each in rows)


def decoded(spec):
    return codec.from_plain(EC2_NODE_CLASS, {"metadata": {"name": "c"}, "spec": spec})


def fingerprint(version="v1", **spec):
    _, value = read(ec2_class(version, **spec))
    return class_hash(value, "")


COUNTED = (
    {"role": "other"},
    {"role": None, "instanceProfile": "mine"},
    {"userData": "echo"},
    {"userData": ""},
    {"tags": {"team": "a"}},
    {"tags": {}},
    {"kubelet": {"maxPods": 20}},
    {"kubelet": {}},
    {"blockDeviceMappings": [VOLUME]},
    {"blockDeviceMappings": []},
    {"instanceStorePolicy": "RAID0"},
    {"detailedMonitoring": True},
    {"detailedMonitoring": False},
    {"associatePublicIPAddress": False},
    {"metadataOptions": {"httpTokens": "optional"}},
    {"networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]},
    {"context": "a"},
    {"cpuOptions": {"nestedVirtualization": "enabled"}},
    {"placementGroupSelector": {"name": "a"}},
    {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
    {"amiFamily": "Custom"},
    {"connectionTracking": {"udpTimeout": 30}},
)
NOT_COUNTED = (
    {"subnetSelectorTerms": [{"id": "subnet-1"}]},
    {"securityGroupSelectorTerms": [{"name": "a"}, *TAGGED]},
    {"amiSelectorTerms": [{"alias": "al2023@v20240703"}]},
    {"amiFamily": "AL2023"},
    {"capacityReservationSelectorTerms": [{"id": "cr-1"}]},
    {"ipPrefixCount": 3},
    {"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1}},
)


def test_every_field_is_spoken_of_here():
    spoken_of = {name for spec in (*COUNTED, *NOT_COUNTED) for name in spec}
    assert spoken_of == set(EC2NodeClassSpec.__struct_encode_fields__)


@pytest.mark.parametrize("spec", COUNTED, ids=str)
def test_what_makes_an_instance_changes_it(spec):
    assert fingerprint(**spec) != fingerprint()


@pytest.mark.parametrize("spec", NOT_COUNTED, ids=str)
def test_resolved_fields_and_defaults_do_not_change_the_hash(spec):
    assert fingerprint(**spec) == fingerprint()


def test_an_empty_value_is_not_an_absent_one_after_writing_and_reading():
    for spec in ({"tags": {}}, {"blockDeviceMappings": []}, {"networkInterfaces": []}, {"userData": ""}):
        value = decoded(spec)
        again = codec.from_plain(EC2_NODE_CLASS, codec.to_plain(EC2_NODE_CLASS, value))
        assert class_hash(again, "") == class_hash(value, "") != class_hash(decoded({}), "")


def test_an_alias_is_as_good_as_its_family():
    by_family = {"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "AL2023"}
    assert fingerprint(**by_family) == fingerprint()


OWN = (
    {"kubelet": {"containerLogMaxSize": "10Mi"}},
    {"kubelet": {"maxPods": "20"}},
    {"kubelet": {"evictionSoftGracePeriod": {"memory.available": "soon"}}},
    {"kubelet": {"maxPods": 2**40}},
    {"cpuOptions": {"coreCount": 1}},
    {"connectionTracking": {"udpTimeout": "30s"}},
)


@pytest.mark.parametrize("spec", OWN, ids=str)
def test_settings_that_karpenter_does_not_have_change_our_own_hash_alone(spec):
    own, (name,) = decoded(spec), spec
    assert class_hash(own, "") == class_hash(decoded({name: {}}), "")
    assert own_hash(own) not in ("", own_hash(decoded({name: {"other": 1}})))
    assert hash_annotations(own, "")[OWN_CLASS_HASH] == own_hash(own)
    assert OWN_CLASS_HASH not in hash_annotations(decoded({}), "")


def test_the_ca_bundle_is_part_of_the_hash():
    assert class_hash(decoded({}), "Q0E=") != class_hash(decoded({}), "")


def test_hashes_of_another_version_are_not_taken_over():
    foreign = {CLASS_HASH: "1", CLASS_HASH_VERSION: "v6", OWN_CLASS_HASH: "2", "team": "a"}
    assert recorded_hashes(foreign) == {}
    node_class = codec.from_plain(EC2_NODE_CLASS, {"metadata": {"name": "c", "annotations": foreign}, "spec": {}})
    written = stamped(node_class, "").metadata.annotations
    assert written == {"team": "a", **hash_annotations(node_class, "")}
    assert recorded_hashes(written) == {CLASS_HASH: class_hash(node_class, ""), CLASS_HASH_VERSION: HASH_VERSION}
