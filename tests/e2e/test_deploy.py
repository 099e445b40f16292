"""What `deploy/` installs on a real API server, and the controller under exactly the permissions it grants."""

import json
import os
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.api import eventually
from e2e.running import DOVETAIL, NODE_CLASS, apply, claims, deployment, install_crds, nodes, running, settled
from e2e.test_disruption import pool

DEPLOY = Path(__file__).parents[2] / "deploy"
READS = {"get", "list", "watch"}
JUSTIFIED = {
    ("update", "karpenter.sh", "nodepools/finalizers"),  # asked by an admission plugin that is off here
    ("update", "karpenter.sh", "nodeclaims/finalizers"),
    ("delete", "", "pods"),  # the end of a drain's time: test_termination has it
    ("get", "karpenter.sh", "nodeclaims"),  # a node class with a registration delay
    ("get", "karpenter.sh", "nodepools"),  # a failed launch is written down again after a conflict
    ("patch", "", "events"),  # the same again after two minutes
}
"""Granted, and not asked for in the story below."""
ELSEWHERE = {"karpenter.k8s.aws"}
"""Groups of the provider that does not run here."""


@pytest.fixture
def installed(cluster, request):
    """The cluster with one of the kustomizations applied, and gone again afterwards."""
    install_crds(cluster)  # Karpenter's may be there, and would be in conflict
    rendered = cluster.kustomize(DEPLOY / request.param)
    documents = list(yaml.safe_load_all(rendered))
    cluster.kubectl("apply", "--server-side", "-f", "-", input=rendered)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")
    eventually(lambda: cluster.has_service_account("dovetail"), "the namespace is ready")
    cluster.audit_log.write_text("") if cluster.audit_log.exists() else None
    yield cluster, documents
    leaving = [each for each in documents if each["kind"] not in {"CustomResourceDefinition", "Deployment"}]
    cluster.kubectl(
        "delete", "--wait=true", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": leaving})
    )


def granted(documents):
    """Every verb on every resource that any role of these manifests grants."""
    return {
        (verb, group, resource)
        for role in documents
        if role["kind"] in {"ClusterRole", "Role"}
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def asked(cluster):
    """Every verb on every resource that the service account asked for, and whether it was refused."""
    lines = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
    seen = set()
    for line in lines:
        about = line["objectRef"]
        resource = "/".join(filter(None, (about["resource"], about.get("subresource", ""))))
        refused = line.get("responseStatus", {}).get("code") == 403
        seen.add(((line["verb"], about.get("apiGroup", ""), resource), refused))
    return seen


def served_at(cluster, flow):
    """The priority levels at which the API server served the requests of a flow."""
    text = cluster.api.get("/metrics").expect()
    lines = [line for line in text.splitlines() if line.startswith("apiserver_flowcontrol_dispatched_requests_total{")]
    named = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]
    return {each["priority_level"] for each in named if each["flow_schema"] == flow}


@contextmanager
def as_deployed(cluster, documents, test):
    """The process as the Deployment starts it, with its service account's token."""
    made = next(each for each in documents if each["kind"] == "Deployment")
    container = made["spec"]["template"]["spec"]["containers"][0]
    token = cluster.service_account_token("dovetail", made["spec"]["template"]["spec"]["serviceAccountName"])
    access = cluster.token_kubeconfig(f"deployed-{test}", token)
    environment = {
        **os.environ,
        "DOVETAIL_LOG_FORMAT": "text",
        "METRICS_PORT": "0",
        "DOVETAIL_DASHBOARD_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        "DOVETAIL_LEDGER": "off",
        "LEADER_ELECTION_NAMESPACE": "dovetail",  # in a pod it is found
        "DOVETAIL_GARBAGE_COLLECTION_INTERVAL": "3s",
    }
    argv = [DOVETAIL, *container["args"], "--kubeconfig", str(access)]
    process = cluster.launch(f"deployed-{test}", *argv, env=environment)
    try:
        yield process
        assert process.exit_code is None, process.tail()
    finally:
        assert process.stop(20) == 0, process.tail()


@pytest.mark.parametrize("installed", ["acting"], indirect=True)
def test_acting_the_controller_scales_consolidates_and_pauses_under_exactly_its_role(installed, namespace):
    cluster, documents = installed
    with as_deployed(cluster, documents, namespace):
        for manifest in (NODE_CLASS, pool()):
            apply(cluster, manifest)
        apply(cluster, deployment(20), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 20 and settled(cluster), "pods run", within=90)
        large = {node["metadata"]["name"] for node in nodes(cluster)}
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=3")
        eventually(
            lambda: not large & {node["metadata"]["name"] for node in nodes(cluster)} and settled(cluster),
            "a smaller node carries what is left",
            within=180,
        )
        cluster.kubectl("create", "configmap", "dovetail", "-n", "dovetail")
        cluster.kubectl("annotate", "configmap", "dovetail", "-n", "dovetail", "dovetail.sh/pause=true")
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=0")
        eventually(lambda: "DisruptionPaused" in cluster.kubectl("get", "events", "-A"), "the pause is told", within=60)
        assert nodes(cluster)
        cluster.kubectl("annotate", "configmap", "dovetail", "-n", "dovetail", "dovetail.sh/pause-")
        eventually(lambda: not nodes(cluster) and not claims(cluster), "every node is gone", within=120)
    assert served_at(cluster, "dovetail-leading") == {"leader-election"}
    used = {action for action, _ in asked(cluster)}
    assert {action for action, refused in asked(cluster) if refused} == set()
    assert used <= granted(documents)
    idle = {(verb, group, resource) for verb, group, resource in granted(documents) - used if group not in ELSEWHERE}
    assert idle <= JUSTIFIED


@pytest.mark.parametrize("installed", ["base"], indirect=True)
def test_a_dry_run_needs_only_to_read_says_what_it_would_do_and_tries_no_write(installed, namespace):
    cluster, documents = installed
    assert {verb for verb, _, _ in granted(documents)} <= READS
    for manifest in (NODE_CLASS, pool()):
        apply(cluster, manifest)
    apply(cluster, deployment(5), namespace)
    with as_deployed(cluster, documents, namespace) as process:
        eventually(lambda: "would launch a node" in process.log.read_text(), "advice is given", within=30)
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=9")
        eventually(lambda: re.search(r'pods"?[=:] ?9\b', process.log.read_text()), "new advice is given", within=60)
        assert not claims(cluster)
    assert {verb for (verb, _, _), _ in asked(cluster)} <= READS
    assert {action for action, refused in asked(cluster) if refused} == set()
    assert {action for action, _ in asked(cluster)} <= granted(documents)


@pytest.mark.parametrize("installed", ["acting"], indirect=True)
def test_the_deployment_is_accepted_and_its_pods_pass_the_restricted_standard(installed):
    cluster, _ = installed
    made = eventually(
        lambda: cluster.api.items("/api/v1/namespaces/dovetail/pods"), "pods are made of the deployment", within=30
    )
    assert all(pod["spec"]["priority"] == 2000000000 for pod in made)
    eventually(
        lambda: (
            cluster.api.get("/apis/policy/v1/namespaces/dovetail/poddisruptionbudgets/dovetail")
            .expect()["status"]
            .get("expectedPods")
            == 2
        ),
        "the budget counts both replicas",
    )
