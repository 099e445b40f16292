"""Labels in the providers' domains: those that a provider defines, and the others, which no instance has."""

import pytest

from dovetail.cloud.aws.labels import INSTANCE_LABELS, OFFERING_LABELS
from dovetail.cloud.kwok.node import INSTANCE_LABELS as KWOK_LABELS
from dovetail.model.labels import (
    PROVIDER_LABELS,
    is_node_class_label,
    provider_domain,
    provider_label_remedy,
    unknown_provider_label,
)


@pytest.mark.parametrize("key", sorted(INSTANCE_LABELS | OFFERING_LABELS | KWOK_LABELS))
def test_every_label_that_an_instance_gets_is_known(key):
    assert unknown_provider_label(key) == ""


@pytest.mark.parametrize(
    "key", ["karpenter.k8s.aws/ec2nodeclass", "karpenter.kwok.sh/kwoknodeclass", "example.com/x", "plain", "a.b/c"]
)
def test_node_classes_and_other_domains_are_allowed(key):
    assert unknown_provider_label(key) == ""


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("karpenter.k8s.aws/instance-famly", "karpenter.k8s.aws/instance-family"),
        ("karpenter.k8s.aws/Instance-Category", "karpenter.k8s.aws/instance-category"),
        ("karpenter.kwok.sh/instance-cpus", "karpenter.kwok.sh/instance-cpu"),
        ("sub.karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-family"),
        ("karpenter.k8s.aws/instance-type", "node.kubernetes.io/instance-type"),
        ("karpenter.k8s.aws/zone", "topology.kubernetes.io/zone"),
        ("karpenter.kwok.sh/capacity-types", "karpenter.sh/capacity-type"),
    ],
)
def test_an_unknown_label_in_a_provider_domain_names_the_one_that_was_meant(key, meant):
    assert provider_domain(key) in PROVIDER_LABELS
    assert "does not define it" in unknown_provider_label(key)
    assert provider_label_remedy(key) == f"did you mean {meant}?"


def test_an_unknown_label_like_no_other_is_refused_without_a_guess():
    assert provider_label_remedy("karpenter.k8s.aws/zzz") == "use a label in another domain"


def test_a_domain_that_only_ends_alike_is_not_the_provider_domain():
    assert provider_domain("mykarpenter.k8s.aws/x") == ""


def test_node_class_labels():
    assert is_node_class_label("karpenter.k8s.aws/ec2nodeclass")
    assert not is_node_class_label("example.com/ec2nodeclass")
    assert not is_node_class_label("karpenter.k8s.aws/instance-family")
