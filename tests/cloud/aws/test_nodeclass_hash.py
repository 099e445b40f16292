"""The hash of a node class: fields that shape instances change it, resolved fields do not."""

import pytest

from dovetail.cloud.aws.nodeclass_hash import class_hash
from dovetail.manifest.validation import read
from dovetail.model.ec2nodeclass import EC2NodeClassSpec
from manifest.ec2nodeclass_corpus import TAGGED, ec2_class

VOLUME = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}


def fingerprint(version="v1", **spec):
    _, value = read(ec2_class(version, **spec))
    return class_hash(value)


COUNTED = (
    {"role": "other"},
    {"role": None, "instanceProfile": "mine"},
    {"userData": "echo"},
    {"tags": {"team": "a"}},
    {"kubelet": {"maxPods": 20}},
    {"blockDeviceMappings": [VOLUME]},
    {"instanceStorePolicy": "RAID0"},
    {"detailedMonitoring": True},
    {"detailedMonitoring": False},
    {"associatePublicIPAddress": False},
    {"metadataOptions": {"httpTokens": "optional"}},
    {"networkInterfaces": [{"deviceIndex": 1}]},
    {"context": "a"},
    {"cpuOptions": {"coreCount": 1}},
    {"placementGroupSelector": {"name": "a"}},
    {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
    {"amiFamily": "Custom"},
    {"connectionTracking": {"udpTimeout": "30s"}},
)
NOT_COUNTED = (
    {"subnetSelectorTerms": [{"id": "subnet-1"}]},
    {"securityGroupSelectorTerms": [{"name": "a"}, *TAGGED]},
    {"amiSelectorTerms": [{"alias": "al2023@v20240703"}]},
    {"amiFamily": "AL2023"},
    {"capacityReservationSelectorTerms": [{"id": "cr-1"}]},
    {"ipPrefixCount": 3},
    {"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1}},
    {"tags": {}},
    {"blockDeviceMappings": []},
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


def test_order_of_keys_does_not_matter():
    one, two = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}
    assert fingerprint(tags=one, kubelet={"kubeReserved": {"cpu": "1", "memory": "1Gi"}}) == fingerprint(
        tags=two, kubelet={"kubeReserved": {"memory": "1Gi", "cpu": "1"}}
    )


def test_an_alias_is_as_good_as_its_family():
    by_family = {"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "AL2023"}
    assert fingerprint(**by_family) == fingerprint()
