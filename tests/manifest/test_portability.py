"""What Karpenter v1.14 rejects, drops or reads differently is a fault, with a fix that removes it."""

import json

import pytest

from dovetail.manifest.portability import for_karpenter
from dovetail.manifest.validation import faults_of
from manifest.corpus import CASES, KWOK_REF, KWOK_REF_BETA, budgeted, claim, disrupted, node_class, pool
from manifest.ec2nodeclass_corpus import EC2_CASES, ec2_class
from manifest.karpenter_crds import FACTS
from manifest.seed_examples import EXAMPLES
from manifest.test_corrections import with_value

PROTECTED = "karpenter.sh/do-not-disrupt"


def faults(document):
    return {fault.path: fault for fault in for_karpenter(faults_of(document), document).faults}


def test_the_suggested_annotation_is_valid_even_if_the_budgets_are_not():
    document = budgeted({"nodes": 5}, {"nodes": "1", "action": "Drift"})
    remedy = faults(document)["spec.disruption.budgets[1].action"].remedy
    written = remedy.partition("dovetail.sh/budgets: '")[2].removesuffix("'")
    fixed = disrupted(consolidateAfter="0s")
    fixed["metadata"]["annotations"] = {"dovetail.sh/budgets": written}
    assert json.loads(written)[0] == {"nodes": "5"}
    assert faults(fixed) == {}


def pod(value):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": {PROTECTED: value}}}


def deployment(value):
    template = {"metadata": {"annotations": {PROTECTED: value}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": template}}


@pytest.mark.parametrize(
    "document",
    [
        pool(),
        disrupted(
            consolidateAfter="1m", consolidationPolicy="Balanced", budgets=[{"nodes": "5", "reasons": ["Empty"]}]
        ),
        claim(),
        node_class(),
        ec2_class(),
        pod("true"),
        pod("false"),
        deployment("true"),
    ],
)
def test_what_karpenter_accepts_has_no_faults(document):
    assert faults(document) == {}


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        (budgeted({"nodes": 5}), "spec.disruption.budgets[0].nodes", "in quotes"),
        (pool(template={"requirements": None}), "spec.template.spec.requirements", "requirements: []"),
        (pool(template={"nodeClassRef": KWOK_REF_BETA}), "spec.template.spec.nodeClassRef.apiVersion", "write group"),
        (pool(template={"nodeClassRef": {**KWOK_REF, "group": ""}}), "spec.template.spec.nodeClassRef", "group"),
        (pool(template={"kubelet": {"maxPods": 5}}), "spec.template.spec.kubelet", "EC2NodeClass"),
        (pool(repair={}), "spec.repair", "NodeRepair"),
        (ec2_class(kubelet={"containerLogMaxSize": "10Mi"}), "spec.kubelet.containerLogMaxSize", "userData"),
        (ec2_class(cpuOptions={"coreCount": 1}), "spec.cpuOptions.coreCount", "leave it out"),
        (disrupted(expireAfter="24h"), "spec.disruption.expireAfter", "spec.template.spec.expireAfter: 24h"),
        (disrupted(consolidationGracePeriod="1h"), "spec.disruption.consolidationGracePeriod", "leave it out"),
        (disrupted(minSavings="60%"), "spec.disruption.minSavings", "leave it out"),
        (disrupted(actionControls={"Drift": {}}), "spec.disruption.actionControls", "leave it out"),
        (disrupted(genericPerActionControls={}), "spec.disruption.genericPerActionControls", "leave it out"),
        (disrupted(consolidationPolicy="WhenEmpty"), "spec.disruption.consolidateAfter", "write 0s"),
        (disrupted(consolidationPolicy="WhenUnderutilized"), "spec.disruption.consolidationPolicy", "WhenEmptyOr"),
        (budgeted({"nodes": "1", "action": "Drift"}), "spec.disruption.budgets[0].action", "write reasons"),
        (budgeted({"nodes": "1", "reasons": ["Expired"]}), "spec.disruption.budgets[0].reasons[0]", "leave it out"),
        (pool("v1beta1"), "apiVersion", "karpenter.sh/v1"),
        (pool("v1beta1"), "spec.template.spec.nodeClassRef.apiVersion", "group: karpenter.kwok.sh"),
        (claim("v1beta1"), "apiVersion", "karpenter.sh/v1"),
        (ec2_class("v1beta1"), "apiVersion", "karpenter.k8s.aws/v1"),
        (ec2_class(cpuOptions={"coreCount": 2}), "spec.cpuOptions.coreCount", "leave it out"),
        (pod("4h"), f"metadata.annotations[{PROTECTED}]", 'write "true"'),
        (deployment("4h"), f"spec.template.metadata.annotations[{PROTECTED}]", 'write "true"'),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_difference_is_a_fault_with_its_path_and_remedy(document, path, words):
    found = {place: fault for place, fault in faults(document).items() if place.startswith(path)}
    assert words in next(iter(found.values())).remedy


@pytest.mark.parametrize(
    "document",
    [
        budgeted({"nodes": 5}),
        pool(template={"requirements": None}),
        disrupted(consolidationPolicy="WhenEmpty"),
        disrupted(consolidationPolicy="WhenUnderutilized"),
        pod("4h"),
    ],
)
def test_a_fix_removes_its_fault(document):
    found = faults(document)
    fixes = {path: fault.fix for path, fault in found.items() if fault.fix is not None}
    assert fixes
    for path, fix in fixes.items():
        assert faults(with_value(document, path, fix)).keys() == found.keys() - {path}


def test_a_fault_takes_the_place_of_a_warning_about_the_same_field():
    document = pool(template={"kubelet": {"maxPods": 5}})
    report = for_karpenter(faults_of(document), document)
    assert "spec.template.spec.kubelet" in {fault.path for fault in report.faults}
    assert "spec.template.spec.kubelet" not in {warning.path for warning in report.warnings}


def test_what_is_no_object_has_the_faults_that_it_has():
    report = faults_of([1])
    assert for_karpenter(report, [1]) == report


@pytest.mark.parametrize(
    ("document", "annotation"),
    [
        (pool(repair={}), "dovetail.sh/repair: '{}'"),
        (disrupted(consolidateAfter="1m", expireAfter="24h"), "dovetail.sh/soft-expire-after: '24h'"),
        (budgeted({"nodes": "1", "action": "Drift"}), """dovetail.sh/budgets: '[{"nodes": "1", "action": "Drift"}]'"""),
    ],
)
def test_a_field_that_is_dropped_has_an_annotation_in_its_remedy(document, annotation):
    assert any(annotation in fault.remedy for fault in faults(document).values())


def refused_by(facts, value, path=""):
    """Yield the paths that Karpenter's CRD drops or refuses, by fields, required fields, types and enumerations."""
    known = facts[path]
    if isinstance(value, dict) and not known.get("x-kubernetes-preserve-unknown-fields"):
        defaulted = {name for name in known.get("required", ()) if "default" in facts.get(f"{path}.{name}", {})}
        yield from (f"{path}.{name}" for name in known.get("required", ()) if name not in value.keys() | defaulted)
        for name, each in value.items():
            inner = next((place for place in (f"{path}.{name}".strip("."), f"{path}{{}}") if place in facts), None)
            if inner is not None:
                yield from refused_by(facts, each, inner) if each is not None else ()
            elif path != "metadata":
                yield f"{path}.{name}"
    elif isinstance(value, list):
        for each in value:
            yield from refused_by(facts, each, f"{path}[]")
    elif (known.get("type") == "string" and not isinstance(value, str)) or value not in known.get("enum", (value,)):
        yield path


@pytest.mark.parametrize("case", [case for case in (*EXAMPLES, *CASES, *EC2_CASES) if not case.fault], ids=str)
def test_karpenters_crds_refuse_or_drop_exactly_what_is_reported(case):
    """Of the manifests that Dovetail accepts, those with a fault for Karpenter are those that its CRDs do not keep."""
    facts = json.loads(FACTS.read_text(encoding="utf-8")).get(case.document["kind"])
    if facts is None:
        pytest.skip("not a kind of Karpenter's CRDs")
    old = case.document["apiVersion"].endswith("v1beta1")
    refused = sorted(refused_by(facts, case.document))
    assert bool(faults(case.document)) == (old or bool(refused)), refused
