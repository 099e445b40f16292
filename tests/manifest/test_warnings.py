"""Labels and values that no node of a NodePool can have are warned about, by the provider of its node class."""

import pytest

from dovetail.cloud.aws.labels import INSTANCE_LABELS, OFFERING_LABELS
from dovetail.manifest.validation import faults_of
from dovetail.model.labels import PROVIDER_LABELS, is_node_class_label
from manifest.corpus import pool

EC2 = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
KWOK = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


def impossible(ref, key, *values, operator="In"):
    requirement = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    report = faults_of(pool(template={"nodeClassRef": ref, "requirements": [requirement]}))
    assert report.faults == ()
    return [(each.path.rpartition(".")[2], each.remedy) for each in report.warnings]


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("karpenter.k8s.aws/instance-cpu", "four", "write a whole number"),
        ("karpenter.k8s.aws/instance-memory", "8Gi", "write a whole number"),
        ("node.kubernetes.io/instance-type", "m5", "write an instance type such as m5.large"),
        ("topology.kubernetes.io/zone", "us-east-1", "write a zone of this region, such as us-east-1a"),
    ],
)
def test_a_value_that_no_ec2_instance_has_is_warned_about(key, value, remedy):
    assert impossible(EC2, key, value) == [("values", remedy)]
    assert impossible(EC2, key, value, operator="NotIn") == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("karpenter.k8s.aws/instance-cpu", "16"),
        ("node.kubernetes.io/instance-type", "u-6tb1.112xlarge"),
        ("topology.kubernetes.io/zone", "us-east-1-wl1-bos-wlz-1"),
        ("topology.kubernetes.io/zone", "us-gov-west-1a"),
        ("example.com/zone", "us-east-1"),
    ],
)
def test_values_that_ec2_instances_have_are_not_warned_about(key, value):
    assert impossible(EC2, key, value) == []


def test_instance_types_of_other_providers_have_other_names():
    assert impossible(KWOK, "node.kubernetes.io/instance-type", "c-4x-amd64-linux") == []


def test_a_label_of_another_provider_than_that_of_the_node_class_is_warned_about():
    theirs, ours = "karpenter.kwok.sh/instance-cpu", "karpenter.k8s.aws/instance-cpu"
    assert impossible(EC2, theirs, "4") == [("key", f"did you mean {ours}?")]
    assert impossible(KWOK, ours, operator="Exists") == [("key", f"did you mean {theirs}?")]
    assert impossible(KWOK, "karpenter.k8s.aws/instance-gpu-name", "t4") == [("key", "leave it out")]
    assert impossible(KWOK, ours, operator="DoesNotExist") == []
    labeled = faults_of(pool(template={"nodeClassRef": EC2}, metadata={"labels": {theirs: "4"}}))
    assert [each.path for each in labeled.warnings] == [f"spec.template.metadata.labels[{theirs}]"]
    other = {"group": "example.com", "kind": "RackNodeClass", "name": "default"}
    assert impossible(other, theirs, "4") == []


DEFINED = {f"{EC2['group']}/{name}" for name in PROVIDER_LABELS[EC2["group"]]}


@pytest.mark.parametrize("key", sorted(DEFINED - INSTANCE_LABELS - OFFERING_LABELS))
def test_a_label_that_karpenter_defines_and_no_instance_here_has_is_warned_about(key):
    expected = [] if is_node_class_label(key) else [("key", "leave it out")]
    assert impossible(EC2, key, operator="Exists") == expected


@pytest.mark.parametrize("key", sorted(DEFINED & (INSTANCE_LABELS | OFFERING_LABELS)))
def test_a_label_that_instances_have_is_not_warned_about(key):
    assert impossible(EC2, key, operator="Exists") == []


def test_a_faulty_requirement_hides_no_warning_about_another_one():
    typo = {"key": f"{EC2['group']}/instance-famly", "operator": "In", "values": ["m5"]}
    mistaken = {"key": "kubernetes.io/arch", "operator": "In", "values": ["x86_64"]}
    report = faults_of(pool(template={"nodeClassRef": EC2, "requirements": [typo, mistaken]}))
    assert [each.path for each in report.faults] == ["spec.template.spec.requirements[0].key"]
    assert [each.path for each in report.warnings] == ["spec.template.spec.requirements[1].values"]
