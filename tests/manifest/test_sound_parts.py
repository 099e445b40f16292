"""No fault hides a warning, or another fault: every finding of a document is shown at once."""

from copy import deepcopy
from itertools import combinations

import pytest

from dovetail.manifest.sound_parts import sound_parts
from dovetail.manifest.validation import faults_of
from dovetail.model.kube_object import ObjectMeta, UnreadableObject

REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TEMPLATE = "spec.template.spec"


def requirement(key, *values, operator="In"):
    return {"key": key, "operator": operator, "values": list(values)}


def odd_pool(version):
    """A NodePool without faults, with a warning of every kind in each of its parts."""
    template = {
        "metadata": {
            "labels": {"kubernetes.io/arch": "x64", "team": "a"},
            "annotations": {"karpenter.sh/do-not-disrupt": "yes", "dovetail.sh/repair": "{}"},
        },
        "spec": {
            "nodeClassRef": REF,
            "requirements": [
                requirement("kubernetes.io/os", "linnux"),
                requirement("kubernetes.io/arch", "x86_64"),
                requirement("topology.kubernetes.io/zone", "us-east-1"),
            ],
        },
    }
    if version == "v1":
        template["spec"] |= {"expireAfter": "100h", "kubelet": {"maxPods": 3}}
    policy = {"conditionType": "Ready", "toleration": "5m"}
    return {
        "apiVersion": f"karpenter.sh/{version}",
        "kind": "NodePool",
        "metadata": {"name": "a", "namespace": "x", "annotations": {"dovetail.sh/consolidation-grace-perio": "5m"}},
        "spec": {
            "template": template,
            "limits": {"cpu": 5},
            "repair": {"policies": [policy, policy]},
            "disruption": {
                "consolidateAfter": "30s",
                "consolidationPolicy": "WhenEmpty",
                "expireAfter": "50h",
                "budgets": [{"nodes": "0"}, {"nodes": "5%"}],
            },
            "bogus": 1,
        },
    }


def put(path, value):
    """Set a field."""

    def change(document):
        *parents, name = path
        for step in parents:
            document = document[step]
        if isinstance(document, list):
            document.insert(name, value)
        else:
            document[name] = value

    return change


REQUIREMENTS = ("spec", "template", "spec", "requirements", 0)
BUDGETS = ("spec", "disruption", "budgets", 0)
FAULTS = {
    "an invalid key": put(REQUIREMENTS, requirement("bad key!", "a")),
    "no operator": put(REQUIREMENTS, {"key": "a"}),
    "no values": put(REQUIREMENTS, requirement("a")),
    "a number as value": put(REQUIREMENTS, requirement("a", 1)),
    "text as requirement": put(REQUIREMENTS, "x"),
    "an unknown label of a provider": put(REQUIREMENTS, requirement("karpenter.k8s.aws/x", "a")),
    "a restricted label": put(("spec", "template", "metadata", "labels", "karpenter.sh/nodepool"), "x"),
    "a number as label": put(("spec", "template", "metadata", "labels", "a"), 5),
    "a number as annotation": put(("metadata", "annotations", "a"), 5),
    "a number as annotation of nodes": put(("spec", "template", "metadata", "annotations", "a"), 5),
    "an annotation that is no JSON": put(("metadata", "annotations", "dovetail.sh/action-controls"), "{"),
    "more than all nodes": put(BUDGETS, {"nodes": "150%"}),
    "a schedule without duration": put(BUDGETS, {"nodes": "5", "schedule": "@daily"}),
    "a schedule that is none": put(BUDGETS, {"nodes": "5", "schedule": "61 * * * *", "duration": "1h"}),
    "a taint without effect": put(("spec", "template", "spec", "taints"), [{"key": "a"}]),
    "a grace period without unit": put(("spec", "template", "spec", "terminationGracePeriod"), "30"),
    "limits and replicas": put(("spec", "replicas"), 3),
    "a limit in words": put(("spec", "limits"), {"memory": "ten"}),
    "a weight out of range": put(("spec", "weight"), 500),
    "a name in capitals": put(("metadata", "name"), "A"),
}
CHANGES_REASONS = {"limits and replicas"}
"""Consolidation does not exist there, so the warning about the budget names other reasons."""


def findings(version, *changes):
    document = odd_pool(version)
    for change in changes:
        change(document)
    report = faults_of(document)
    return [{(each.problem, str(each.value)) for each in found} for found in (report.faults, report.warnings)]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - CHANGES_REASONS))
def test_a_fault_hides_no_warning(version, fault):
    _, warnings = findings(version)
    faults, shown = findings(version, FAULTS[fault])
    assert faults
    assert warnings <= shown


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_fault_hides_no_other_fault(version):
    alone = {name: findings(version, change)[0] for name, change in FAULTS.items()}
    for first, second in combinations(FAULTS, 2):
        if {first, second} != {"limits and replicas", "a limit in words"}:  # the second replaces the limits
            both, _ = findings(version, FAULTS[first], FAULTS[second])
            assert alone[first] | alone[second] <= both, (first, second)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_fault_is_the_only_one(version):
    """What is left out because of a fault does not look like another fault."""
    for name, change in FAULTS.items():
        document = odd_pool(version)
        change(document)
        assert len(faults_of(document).faults) == 1, name


def test_warnings_have_the_positions_of_the_manifest():
    document = odd_pool("v1")
    for name in ("an invalid key", "more than all nodes"):
        FAULTS[name](document)
    paths = {each.path for each in faults_of(document).warnings}
    assert {f"{TEMPLATE}.requirements[{index}].values" for index in (1, 2, 3)} <= paths
    assert "spec.disruption.budgets[1]" in paths


def test_without_a_node_class_the_other_warnings_are_shown():
    document = odd_pool("v1")
    del document["spec"]["template"]["spec"]["nodeClassRef"]
    report = faults_of(document)
    assert [each.path for each in report.faults] == [f"{TEMPLATE}.nodeClassRef"]
    assert f"{TEMPLATE}.requirements[0].values" in {each.path for each in report.warnings}


def test_what_depends_on_a_faulty_field_is_not_judged():
    """A policy with a typo is not the default policy, with which v1beta1 does not allow consolidateAfter."""
    document = odd_pool("v1beta1")
    document["spec"]["disruption"]["consolidationPolicy"] = "WhenEmtpy"
    assert [each.path for each in faults_of(document).faults] == ["spec.disruption.consolidationPolicy"]


def test_a_document_that_stays_unreadable_loses_whole_fields():
    document = {"spec": {"a": {"b": 1}}}
    bad = UnreadableObject(metadata=ObjectMeta(), faults=())
    tried = []

    def decode(rest):
        tried.append(deepcopy(rest))
        return bad

    faults = [each._replace(path="spec.a") for each in faults_of({}).faults[:1]]
    assert sound_parts(document, faults, decode).removed == ("spec.a",)
    assert tried == [document, {"spec": {}}]
