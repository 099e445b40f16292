"""Faults and warnings, all at once with path, value and remedy, and the objects of valid documents."""

import gzip
import json
from datetime import timedelta
from pathlib import Path

import pytest

from dovetail.manifest.codec import to_plain
from dovetail.manifest.documents import DocumentInvalid
from dovetail.manifest.validation import faults_of, read, validate_nodepool
from dovetail.model.budget import BudgetSpec
from dovetail.model.kinds import KWOK_NODE_CLASS, NODE_CLAIM, NODE_POOL
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.nodepool import (
    Disruption,
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodeClassRef,
    NodePool,
    NodePoolSpec,
    NodeRequirement,
)
from manifest.corpus import KWOK_REF, budgeted, claim, disrupted, node_class, pool, required, window


def problems(document):
    return {fault.path: fault.problem for fault in faults_of(document).faults}


def warnings(document):
    report = faults_of(document)
    assert report.faults == ()
    return [f"{each.path}: {each.problem}" for each in report.warnings]


def test_every_fault_of_a_document_is_reported_at_once():
    document = pool(
        weight=500,
        limits={"cpu": "lots"},
        disruption={"consolidateAfter": "soon", "budgets": [{"nodes": "1"}, {"nodes": "x", "duration": "5m"}]},
        template={"requirements": [{"key": "a", "operator": "In"}], "taints": [{"key": "b", "effect": "No"}]},
        metadata={"labels": {"karpenter.sh/x": "y"}},
    )
    assert set(problems(document)) == {
        "spec.weight",
        "spec.limits.cpu",
        "spec.disruption.consolidateAfter",
        "spec.disruption.budgets[1]",
        "spec.disruption.budgets[1].nodes",
        "spec.template.spec.requirements[0]",
        "spec.template.spec.taints[0].effect",
        "spec.template.metadata.labels",
    }


def test_a_fault_has_its_path_its_value_and_a_remedy():
    [fault] = faults_of(budgeted({"nodes": "1"}, window(duration="30s"))).faults
    assert fault.path == "spec.disruption.budgets[1].duration"
    assert fault.value == "30s"
    assert "hours and minutes such as" in fault.remedy


@pytest.mark.parametrize(
    ("document", "remedy"),
    [
        (budgeted({"reasons": ["drifted"]}), "did you mean Drifted?"),
        (disrupted(consolidationPolicy="WhenEmtpy"), "did you mean WhenEmpty?"),
        (disrupted(consolidationPolicy="WhenUnderutilized"), "write WhenEmptyOrUnderutilized"),
        (pool(metadata={"labels": {"a": True}}), 'put it in quotes: "true"'),
        (required("a", "Gt", 4), 'put it in quotes: "4"'),
        (pool(metadata={"labels": {"a": 1.5}}), "put it in quotes: at most 63"),
        ({**pool(), "kind": "Nodepool"}, "did you mean NodePool?"),
        (pool(template={"nodeClassRef": {**KWOK_REF, "name": "${NAME}"}}), "render the template first"),
        (disrupted(expireAfter="30d"), "a day is 24h"),
    ],
)
def test_remedies_say_what_to_write(document, remedy):
    assert remedy in "".join(fault.remedy for fault in faults_of(document).faults)


@pytest.mark.parametrize(
    ("document", "warning"),
    [
        (disrupted(consolidateAftr="1m"), "did you mean consolidateAfter?"),
        (disrupted(terminationGracePeriod="1h"), "it belongs in spec.template.spec"),
        (pool(requirements=[]), "it belongs in spec.template.spec"),
        (pool("v1beta1", template={"kubeletConfiguration": {}}), "did you mean kubelet?"),
        (budgeted({"reason": "Drifted"}), "did you mean reasons?"),
    ],
)
def test_unknown_fields_are_warned_of_with_a_guess(document, warning):
    report = faults_of(document)
    assert report.valid
    assert any(warning in each.remedy for each in report.warnings)


@pytest.mark.parametrize(
    ("document", "warning"),
    [
        (budgeted({"nodes": "0"}), "budgets[0]: allows no node to be disrupted as Drifted or Empty or Underutilized"),
        (
            budgeted({"nodes": "0%", "reasons": ["Drifted"]}, {}),
            "budgets[0]: allows no node to be disrupted as Drifted,",
        ),
        (budgeted(window("@hourly", "1h"), {}), "(its window never closes)"),
        (budgeted(window("* * * * *", "10m"), {}), "(its window never closes)"),
        (budgeted({"nodes": "1", "reasons": ["Empty"]}), "leaves Drifted or Underutilized without a limit"),
        (budgeted(window()), "limits Drifted or Empty or Underutilized only while its schedule is active"),
        (budgeted(), "is empty, so nothing limits"),
        (
            disrupted("v1beta1", budgets=[{"nodes": "1", "action": "Consolidation"}]),
            "leaves Drifted or Expired without",
        ),
        (
            pool(disruption={"expireAfter": "1h"}, template={"expireAfter": "2h"}),
            "is set in addition to spec.template.spec.expireAfter",
        ),
        (pool(repair={"policies": [{"conditionType": "Ready", "toleration": "1m"}] * 2}), "has 2 policies for Ready"),
        (
            pool(repair={"policies": [{"conditionType": "KernelReady", "toleration": "1m"}]}),
            "policies[0].conditionType: has no effect: the provider of karpenter.kwok.sh does not report",
        ),
        (pool(metadata={"annotations": {"karpenter.sh/do-not-disrupt": "4h"}}), 'on nodes only "true" counts'),
        (pool(replicas=1, disruption={"consolidateAfter": "1m"}), "has no effect on a static pool"),
        (budgeted({"nodes": 5}, version="v1beta1"), "budgets[0].nodes: is a number"),
        (pool(template={"kubelet": {}}), "is a v1beta1 field"),
        (
            required("karpenter.sh/capacity-type", "In", "spot", "ondemand"),
            "can never match: no node has this value of karpenter.sh/capacity-type",
        ),
        (
            pool(template={"requirements": [{"key": "a", "operator": "In", "values": [v]} for v in "bc"]}),
            "leave no value for a",
        ),
        ({**pool(), "metadata": {"name": "a", "namespace": "b"}}, "metadata.namespace: has no effect"),
    ],
)
def test_probable_mistakes_are_warned_about(document, warning):
    assert any(warning in each for each in warnings(document))


@pytest.mark.parametrize(
    "document",
    [
        pool(),
        pool("v1beta1"),
        budgeted({"nodes": "20%"}, window()),
        budgeted(window("0 9 * * mon-fri", "8h"), {"nodes": "1"}),
        disrupted(consolidateAfter="Never", budgets=[{"nodes": "1", "reasons": ["Drifted"]}]),
        disrupted(consolidationPolicy="WhenEmpty", budgets=[{"nodes": "1", "reasons": ["Drifted", "Empty"]}]),
    ],
)
def test_sound_pools_are_not_warned_of(document):
    assert warnings(document) == []


@pytest.mark.parametrize(
    ("api_version", "kind", "fault"),
    [
        ("karpenter.sh/v1alpha5", "Provisioner", "write a karpenter.sh/v1 NodePool"),
        ("karpenter.sh/v1alpha4", "Provisioner", "write a karpenter.sh/v1 NodePool"),
        ("karpenter.sh/v1alpha5", "Machine", "NodeClaims replace Machines"),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", "EC2NodeClass"),
        ("karpenter.sh/v1alpha5", "NodePool", "use karpenter.sh/v1"),
        ("karpenter.sh/v1beta1", "EC2NodeClass", "it belongs to karpenter.k8s.aws"),
        ("karpenter.k8s.aws/v1alpha1", "EC2NodeClass", "use karpenter.k8s.aws/v1"),
        ("karpenter.sh/v1", "NodePol", "has no kind NodePol"),
    ],
)
def test_removed_and_misplaced_kinds_are_rejected_with_a_remedy(api_version, kind, fault):
    report = faults_of({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})
    assert fault in str(report.faults[0])


@pytest.mark.parametrize(
    ("api_version", "kind", "note"),
    [
        ("apps/v1", "Deployment", "skipped"),
        ("karpenter.azure.com/v1beta1", "AKSNodeClass", "skipped"),
        ("dovetail.sh/v1alpha1", "Scenario", "is not a kind that dovetail validate checks; skipped"),
    ],
)
def test_other_kinds_are_skipped_with_a_note(api_version, kind, note):
    report = faults_of({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})
    assert report.valid
    assert note in report.note


def test_verdicts_are_those_of_karpenters_runtime_validation():
    """2,000 random templates. The CRD refuses more: taints with an empty effect or value, domains by their end."""
    lines = gzip.decompress((Path(__file__).parents[1] / "data/nodepool_runtime/verdicts.jsonl.gz").read_bytes())
    accepted, refused = [], []
    for row in map(json.loads, lines.splitlines()):
        document = pool()
        document["spec"]["template"] = row["template"]
        faults = faults_of(document).faults
        refused += [row] if row["error"] and not faults else []
        by_crd = [each for each in faults if each.value == "" or "restricted" in each.problem]
        accepted += [row] if not row["error"] and len(by_crd) < len(faults) else []
    assert (accepted, refused) == ([], [])


def test_fewer_capacity_types_than_min_values_are_a_fault_as_for_karpenter():
    [fault] = faults_of(required("karpenter.sh/capacity-type", "In", "spot", "x", minValues=2)).faults
    assert "names fewer capacity types than minValues (2)" in fault.problem


def test_a_value_that_is_listed_twice_is_found_in_a_long_list():
    reasons = [f"r{index}" for index in range(3_000)] + ["r7"]
    problems = [fault.problem for fault in faults_of(budgeted({"nodes": "1", "reasons": reasons})).faults]
    assert problems.count("is listed twice") == 1


def test_warnings_are_shown_beside_faults():
    report = faults_of(disrupted(consolidateAfter=30, budgets=[{"nodes": "0"}]))
    assert [fault.path for fault in report.faults] == ["spec.disruption.consolidateAfter"]
    assert "allows no node to be disrupted" in report.warnings[0].problem


def test_a_faulty_budget_hides_only_what_depends_on_it():
    report = faults_of(disrupted(budgets=[{"nodes": "x"}, {"nodes": "0"}]))
    assert [each.path for each in report.faults] == ["spec.disruption.budgets[0].nodes"]
    assert [each.path for each in report.warnings] == ["spec.disruption.budgets[1]"]
    nightly = {"nodes": "1", "schedule": "@daily", "duration": "1h"}
    assert faults_of(disrupted(budgets=[{"nodes": "x"}, nightly])).warnings == ()  # the first may limit the day


def test_kinds_of_kubernetes_are_decoded():
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}}
    assert faults_of({**budget, "spec": {"maxUnavailable": "50%"}}).valid
    [fault] = faults_of({**budget, "spec": {"maxUnavailable": [1]}}).faults
    assert fault.path == "spec.maxUnavailable"


@pytest.mark.parametrize("value", ["soon", "-4h", "0s", ""])
def test_an_invalid_do_not_disrupt_value_is_warned_about(value):
    job = {"template": {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}}}
    report = faults_of({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": job})
    assert "protected forever" in report.warnings[0].problem


@pytest.mark.parametrize("document", [None, [], "text", 3, {}, {"kind": "NodePool"}, {"apiVersion": 1, "kind": 2}])
def test_what_is_no_object_is_a_fault(document):
    assert faults_of(document).faults


def test_a_v1beta1_pool_is_read_with_its_soft_expiration():
    kind, value = read(pool("v1beta1"))
    assert kind is NODE_POOL
    assert value.spec.disruption.expire_after.span == timedelta(hours=720)
    assert value.hard_expire_after.never


def test_a_v1_pool_gains_no_soft_expiration():
    _, value = read(disrupted(consolidateAfter="30s"))
    assert value.spec.disruption.expire_after is None
    assert value.hard_expire_after.span == timedelta(hours=720)


def test_a_v1beta1_pool_may_opt_out_of_expiration():
    _, value = read(disrupted("v1beta1", expireAfter="Never"))
    assert value.spec.disruption.expire_after.never


def test_a_node_class_is_read_as_ready():
    kind, value = read(node_class())
    assert kind is KWOK_NODE_CLASS
    assert value.status.conditions[0].status == "True"


@pytest.mark.parametrize(
    "document",
    [pool(), pool("v1beta1"), budgeted({"nodes": 5}, version="v1beta1"), disrupted(consolidateAfter="60s")],
)
def test_reading_what_was_read_gives_the_same_pool(document):
    _, value = read(document)
    again = {**to_plain(NODE_POOL, value), "apiVersion": document["apiVersion"]}
    assert read(again) == (NODE_POOL, value)


def test_reading_what_was_read_gives_the_same_claim():
    _, value = read(claim(resources={"requests": {"cpu": "1500m"}}, expireAfter="720h"))
    assert read(to_plain(NODE_CLAIM, value)) == (NODE_CLAIM, value)


def test_a_status_is_not_judged_because_the_api_server_ignores_it():
    written = {"conditions": [{"type": "Ready", "status": "True"}], "surprise": 1}
    for document in (pool(), claim(), pool("v1beta1")):
        report = faults_of({**document, "status": written})
        assert (report.faults, report.warnings) == ((), faults_of(document).warnings)


def test_reading_an_invalid_document_raises_with_the_report():
    with pytest.raises(DocumentInvalid, match="is required") as raised:
        read(pool(template={"nodeClassRef": None}))
    assert raised.value.report.faults


def made(disruption, ref):
    template = NodeClaimTemplate(spec=NodeClaimTemplateSpec(node_class_ref=ref))
    return NodePool(metadata=ObjectMeta(name="a"), spec=NodePoolSpec(template=template, disruption=disruption))


REF = NodeClassRef(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")


def test_a_pool_from_the_server_is_validated_as_a_value():
    assert validate_nodepool(made(Disruption(), REF)) == ()
    never = BudgetSpec(schedule="0 0 30 2 *", duration=read(budgeted(window()))[1].budget_specs[0].duration)
    [fault] = validate_nodepool(made(Disruption(budgets=(never,)), REF))
    assert "never fires" in fault.problem


def test_a_pool_written_as_v1beta1_is_not_held_to_the_rules_of_v1():
    assert validate_nodepool(made(Disruption(), NodeClassRef(name="default"))) == ()
    assert validate_nodepool(read(pool("v1beta1"))[1]) == ()


@pytest.mark.parametrize(
    ("group", "condition", "warned"),
    [
        ("karpenter.k8s.aws", "KernelReady", False),
        ("karpenter.k8s.aws", "Ready", False),
        ("karpenter.k8s.aws", "Cozy", True),
        ("karpenter.kwok.sh", "KernelDeadlock", False),
        ("karpenter.kwok.sh", "Cozy", True),
        ("example.com", "Cozy", False),
    ],
)
def test_a_repair_policy_is_held_against_the_provider_of_its_node_class(group, condition, warned):
    ref = {"group": group, "kind": "EC2NodeClass", "name": "default"}
    policies = [{"conditionType": condition, "toleration": "1m"}]
    document = pool(repair={"policies": policies}, template={"nodeClassRef": ref})
    assert any("does not report this condition" in each for each in warnings(document)) is warned


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        ("kubernetes.io/arch", "x86_64", "amd64"),
        ("kubernetes.io/arch", "aarch64", "arm64"),
        ("kubernetes.io/os", "Linux", "linux"),
        ("karpenter.k8s.aws/instance-tenancy", "Dedicated", "dedicated"),
    ],
)
def test_a_value_that_no_node_has_is_warned_about_with_the_value_that_was_meant(key, value, meant):
    for document in (required(key, "In", value), pool(metadata={"labels": {key: value}})):
        report = faults_of(document)
        assert report.faults == ()
        (found,) = [each for each in report.warnings if "can never match" in each.problem]
        assert (found.value, found.remedy.partition("?")[0]) == (value, f"did you mean {meant}")


def test_capacity_types_that_do_not_exist_are_warned_about_beside_known_ones():
    report = faults_of(required("karpenter.sh/capacity-type", "In", "spot", "ondemand"))
    assert [each.remedy.partition("?")[0] for each in report.warnings] == ["did you mean on-demand"]


@pytest.mark.parametrize("key", ["karpenter.k8s.aws/instance-famly", "karpenter.kwok.sh/instance-famly"])
def test_an_unknown_label_in_the_domain_of_a_provider_is_refused_with_the_one_that_was_meant(key):
    domain = key.partition("/")[0]
    documents = [required(key, "In", "a"), pool(metadata={"labels": {key: "a"}})]
    documents.append(claim(requirements=[{"key": key, "operator": "Exists"}]))
    for document in documents:
        (fault,) = faults_of(document).faults
        assert fault.remedy == f"did you mean {domain}/instance-family?"
    spec = NodePoolSpec(
        template=NodeClaimTemplate(
            spec=NodeClaimTemplateSpec(
                requirements=(NodeRequirement(key=key, operator="Exists"),),
                node_class_ref=NodeClassRef(**KWOK_REF),
            )
        )
    )
    (fault,) = validate_nodepool(NodePool(metadata=ObjectMeta(name="default"), spec=spec))
    assert fault.remedy == f"did you mean {domain}/instance-family?"
