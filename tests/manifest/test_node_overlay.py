"""NodeOverlays are checked by the rules of Karpenter's CRD."""

import pytest

from dovetail.manifest.validation import faults_of

TYPE = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}


def overlay(requirements=(TYPE,), **spec):
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "a"},
        "spec": {"requirements": list(requirements), **spec},
    }


def need(key="example.com/a", operator="Exists", **more):
    return [{"key": key, "operator": operator, **more}]


@pytest.mark.parametrize(
    "document",
    [
        overlay(),
        overlay([]),
        overlay(price="0.25"),
        overlay(priceAdjustment="-10%"),
        overlay(priceAdjustment="+.5"),
        overlay(priceAdjustment="-100%"),
        overlay(capacity={"example.com/gpu": 1, "smarter-devices/fuse": "2"}, weight=10000),
        overlay(need("karpenter.sh/nodepool", "NotIn", values=["a"])),
        overlay(need("karpenter.k8s.aws/instance-cpu", "Gte", values=["4"])),
    ],
)
def test_a_valid_overlay_has_no_findings(document):
    report = faults_of(document)
    assert (report.faults, report.warnings, report.note) == ((), (), "")


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        (overlay(price=0.25), "spec.price", "must be text"),
        (overlay(price="-1"), "spec.price", "expected form"),
        (overlay(price="1", priceAdjustment="+1"), "spec.priceAdjustment", "together with price"),
        (overlay(priceAdjustment="10%"), "spec.priceAdjustment", "expected form"),
        (overlay(priceAdjustment="-101%"), "spec.priceAdjustment", "expected form"),
        (overlay(capacity={"cpu": "2"}), "spec.capacity.cpu", "standard resource"),
        (overlay(capacity={"example.com/gpu": "x"}), "spec.capacity[example.com/gpu]", "expected form"),
        (overlay(weight=0), "spec.weight", "at least 1"),
        (overlay(weight=10001), "spec.weight", "at most 10000"),
        (overlay([TYPE] * 101), "spec.requirements", "at most 100"),
        (overlay(need(operator="In")), "spec.requirements[0]", "needs values"),
        (overlay(need(operator="NotIn", values=[])), "spec.requirements[0]", "needs values"),
        (overlay(need(operator="Gt", values=["1", "2"])), "spec.requirements[0]", "one integer"),
        (overlay(need(operator="Lte", values=["x"])), "spec.requirements[0]", "one integer"),
        (overlay(need(operator="Between")), "spec.requirements[0].operator", "allowed values"),
        (overlay(need("kubernetes.io/hostname")), "spec.requirements[0].key", "restricted"),
        (overlay(need("karpenter.sh/x")), "spec.requirements[0].key", "restricted"),
        (overlay(need("mykarpenter.sh/x")), "spec.requirements[0].key", "restricted"),
        (overlay(need("karpenter.k8s.aws/instance-cpus")), "spec.requirements[0].key", "does not define it"),
        (overlay(need("karpenter.k8s.aws/capacity-reservation-id")), "spec.requirements[0].key", "instance types"),
        ({**overlay(), "spec": {}}, "spec.requirements", "is required"),
        ({**overlay(), "metadata": {"name": "A"}}, "metadata.name", "not a valid name"),
    ],
)
def test_a_fault_of_an_overlay_has_its_path(document, path, problem):
    [fault] = faults_of(document).faults
    assert fault.path == path
    assert problem in fault.problem
    assert fault.remedy or "at " in fault.problem


def test_an_unknown_field_is_a_warning():
    [warning] = faults_of(overlay(need(minValues=2))).warnings
    assert warning.path == "spec.requirements[0].minValues"


def test_another_version_is_a_fault_that_names_the_right_one():
    [fault] = faults_of({**overlay(), "apiVersion": "karpenter.sh/v1"}).faults
    assert "karpenter.sh/v1alpha1" in fault.remedy
