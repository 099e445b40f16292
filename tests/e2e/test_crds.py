"""The CRDs on a real API server: they install, and the server's verdict on every manifest is that of `validate`."""

from pathlib import Path

import pytest
import yaml

from dovetail.manifest.schema import KINDS
from dovetail.manifest.schema_check import RULES_BY_TEXT
from dovetail.manifest.validation import faults_of, scope_of
from e2e.controlplane.api import MERGE, eventually
from e2e.controlplane.slate import wipe
from e2e.running import install_crds
from manifest.corpus import CASES, KWOK_REF, TAINT, budgeted, claim, disrupted, named, node_class, pool, required
from manifest.ec2nodeclass_corpus import EC2_CASES, ec2_class
from manifest.seed_examples import EXAMPLES

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "deploy" / "crds"
MESSAGES = {rule.message for rule in RULES_BY_TEXT.values()}
POOLS = "/apis/karpenter.sh/{}/nodepools"


@pytest.fixture(scope="module")
def server(control_plane):
    """The API server with our CRDs, and no objects of earlier files."""
    wipe(control_plane.api)
    install_crds(control_plane)  # Karpenter's may be there
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(CRDS))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")
    for path in (
        "/apis/karpenter.sh/v1beta1/nodeclaims",
        POOLS.format("v1"),
        "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
        "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    ):
        eventually(lambda path=path: control_plane.api.get(path).ok, f"{path} is served")
    return control_plane


@pytest.fixture
def api(server, cluster):
    """A client, and no objects of earlier tests."""
    return cluster.api


def path_of(document):
    kind = KINDS[scope_of(document["apiVersion"], document["kind"])]
    return f"/apis/{document['apiVersion']}/{kind.plural}"


def make(api, document, **metadata):
    document = {**document, "metadata": {**document["metadata"], **metadata}}
    return api.post(path_of(document), document).expect()


@pytest.mark.parametrize("case", [*EXAMPLES, *CASES, *EC2_CASES], ids=str)
def test_the_server_agrees_with_validate(server, case):
    reply = server.api.post(f"{path_of(case.document)}?dryRun=All", case.document)
    if case.server_refuses:
        assert reply.status == 422, reply.body
    elif case.fault and not case.server_accepts:
        assert reply.status == 422, reply.body
        said = [message for message in MESSAGES if case.fault in message]
        assert not said or any(message in reply.body["message"] for message in said)
    else:
        reply.expect()


def test_kubectl_knows_names_categories_and_columns(api, server):
    make(api, node_class())
    make(api, pool(weight=7))
    assert "default" in server.kubectl("get", "kwoknc")
    assert "nodepool.karpenter.sh/default" in server.kubectl("get", "karpenter", "-o", "name")
    heading, row = server.kubectl("get", "nodepools", "-o", "wide").splitlines()
    assert heading.split() == ["NAME", "NODECLASS", "NODES", "READY", "AGE", "WEIGHT", "CPU", "MEMORY"]
    assert row.split()[-1] == "7"
    make(api, claim())
    columns = server.kubectl("get", "nodeclaims").splitlines()[0].split()
    assert columns == ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]
    assert "DESCRIPTION" in server.kubectl("explain", "nodepool.spec.disruption.budgets")


def test_a_node_class_is_ready_from_the_start(api):
    made = make(api, node_class())
    [condition] = api.get(f"{path_of(made)}/default").expect()["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")


DISRUPTION = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "0s",
    "budgets": [{"nodes": "10%"}],
}
"""What the API server fills in, under Karpenter's CRDs and under ours."""


def test_a_v1beta1_pool_read_as_v1_keeps_its_soft_expiration(api):
    make(api, pool("v1beta1"))
    spec = api.get(POOLS.format("v1") + "/default").expect()["spec"]
    old = {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"}
    assert spec["disruption"] == {**DISRUPTION, **old}
    assert spec["template"]["spec"]["expireAfter"] == "Never"


@pytest.mark.parametrize(
    "document", [pool(), disrupted(consolidateAfter="30s"), disrupted()], ids=["no block", "block", "empty"]
)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_v1_pool_gains_the_defaults_of_karpenter_and_no_soft_expiration(api, document, version):
    make(api, document)
    spec = api.get(POOLS.format(version) + "/default").expect()["spec"]
    assert spec["template"]["spec"]["expireAfter"] == "720h"
    assert spec["disruption"] == {**DISRUPTION, **document["spec"].get("disruption", {})}


def test_other_kinds_gain_the_defaults_of_karpenter(api):
    made = make(api, claim())
    assert made["spec"]["expireAfter"] == "720h"
    assert make(api, claim("v1beta1"), name="old")["spec"]["expireAfter"] == "Never"
    options = {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpTokens": "required"}
    assert make(api, ec2_class())["spec"]["metadataOptions"] == {**options, "httpPutResponseHopLimit": 1}
    old = make(api, ec2_class("v1beta1"), name="old")
    assert old["spec"]["metadataOptions"] == {**options, "httpPutResponseHopLimit": 2}


@pytest.mark.parametrize(
    "document",
    [
        pool("v1beta1"),
        pool("v1beta1", template={"nodeClassRef": {"name": "default"}}),
        disrupted("v1beta1", consolidationPolicy="WhenEmpty", consolidateAfter="30s"),
        pool("v1beta1", template={"kubelet": {"maxPods": 20}}),
    ],
    ids=["plain", "class by name", "when empty", "kubelet"],
)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_v1beta1_pool_can_be_updated_through_either_version(api, document, version):
    made = make(api, document)
    path = POOLS.format(version) + "/default"
    api.patch(path, {"metadata": {"annotations": {"example.com/a": "b"}}}).expect()
    api.patch(f"{path}/status", {"status": {"nodes": 3}}).expect()
    api.patch(path, {"spec": {"weight": 9}}).expect()
    spec = api.get(POOLS.format("v1beta1") + "/default").expect()["spec"]
    filled = {"consolidateAfter": "0s", "budgets": DISRUPTION["budgets"], **made["spec"]["disruption"]}
    assert spec == {**made["spec"], "disruption": filled, "weight": 9}


def test_a_v1_pool_with_a_wait_survives_an_edit_through_v1beta1(api):
    make(api, disrupted(consolidationPolicy="WhenEmptyOrUnderutilized", consolidateAfter="30s"))
    api.patch(POOLS.format("v1beta1") + "/default", {"spec": {"weight": 9}}).expect()


def test_fields_of_both_generations_survive_storage(api):
    document = pool(
        "v1beta1",
        disruption={
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "1m",
            "consolidationGracePeriod": "30m",
            "expireAfter": "Never",
            "budgets": [{"nodes": "5", "action": "Drift"}, {"nodes": "10%", "reasons": ["Expired"]}],
            "actionControls": {"Drift": {"disruptAfter": "1h", "budgets": [{"nodes": "1"}]}},
        },
        repair={"policies": [{"conditionType": "Ready", "toleration": "45m"}]},
        template={"kubelet": {"maxPods": 20}, "terminationGracePeriod": "1h", "expireAfter": "Never"},
    )
    make(api, document)
    assert api.get(POOLS.format("v1") + "/default").expect()["spec"] == document["spec"]


CHANGES = [
    (pool(), pool(replicas=1), "Cannot transition NodePool between static"),
    (pool(replicas=1), pool(replicas=2), ""),
    (pool(), pool(template={"nodeClassRef": {**KWOK_REF, "group": "a.b"}}), "nodeClassRef.group is immutable"),
    (pool(), pool(template={"nodeClassRef": {**KWOK_REF, "kind": "Other"}}), "nodeClassRef.kind is immutable"),
    (pool(), pool(template={"nodeClassRef": {**KWOK_REF, "name": "other"}}), ""),
    (pool("v1beta1"), pool(), ""),
    (claim(), claim(taints=[TAINT]), "spec is immutable"),
    (claim(), claim(expireAfter="1h"), "spec is immutable"),
    (claim(taints=[TAINT]), claim(taints=[TAINT]), ""),
    (claim("v1beta1"), claim("v1beta1", taints=[TAINT]), ""),
    (budgeted({"nodes": "1"}), required("example.com/a", "Exists"), ""),
]


@pytest.mark.parametrize(("before", "after", "refusal"), CHANGES)
def test_what_may_change_is_agreed_on(api, before, after, refusal):
    report = faults_of(after, before)
    assert refusal in "\n".join(map(str, report.faults)) if refusal else report.valid
    made = make(api, before)
    version = made["metadata"]["resourceVersion"]
    changed = {**after, "metadata": {**after["metadata"], "resourceVersion": version}}
    reply = api.request("PUT", f"{path_of(after)}/{after['metadata']['name']}", changed)
    if refusal:
        assert reply.status == 422
        assert refusal in reply.body["message"]
    else:
        reply.expect()


def test_scale_changes_a_static_pool(api):
    make(api, pool(replicas=1))
    path = POOLS.format("v1") + "/default"
    api.patch(f"{path}/scale", {"spec": {"replicas": 4}}, MERGE).expect()
    assert api.get(path).expect()["spec"]["replicas"] == 4


def test_unknown_fields_are_dropped_silently(api):
    document = named(pool(), "odd")
    document["spec"]["disruption"] = {"consolidateAfterr": "1m"}
    make(api, document)
    assert api.get(POOLS.format("v1") + "/odd").expect()["spec"]["disruption"] == DISRUPTION


def test_our_examples_are_accepted_by_kubectl_at_its_strictest(api, server):
    examples = ROOT / "examples" / "nodepools"
    written = [each for path in examples.glob("*.yaml") for each in yaml.safe_load_all(path.read_text())]
    server.kubectl("apply", "--validate=strict", "-f", str(examples))
    names = {each["metadata"]["name"] for each in written if each["kind"] == "NodePool"}
    assert names
    assert names <= {each["metadata"]["name"] for each in api.items(POOLS.format("v1"))}
