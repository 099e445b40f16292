"""A snapshot of a real cluster by somebody who may only get and list; nothing secret is in it."""

import json
import os
import subprocess

import pytest
import yaml

from docs.pages import ROOT, blocks
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.manifest.snapshot_file import read_snapshot_file
from e2e.controlplane.api import eventually
from e2e.controlplane.kubeconfig import write_kubeconfig
from e2e.running import DOVETAIL, NODE_CLASS, NODE_POOL, apply, install_crds

RULES = "/apis/rbac.authorization.k8s.io/v1"
SECRET = "correct-horse-battery"
GUIDE = ROOT / "docs" / "guides" / "snapshots.md"


def role_of_the_guide():
    documents = [
        yaml.safe_load(block.text) for block in blocks(GUIDE, "yaml") if not block.text.startswith("# excerpt")
    ]
    return next(each for each in documents if each["kind"] == "ClusterRole")


@pytest.fixture
def onlooker(cluster, tmp_path):
    """A kubeconfig of a service account with the role of the guide, on a cluster with the custom resources."""
    install_crds(cluster)
    token = cluster.service_account_token("default", "onlooker")
    role = role_of_the_guide()
    assert all(rule["verbs"] == ["get", "list"] for rule in role["rules"])
    name = role["metadata"]["name"]
    subject = {"kind": "ServiceAccount", "name": "onlooker", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
    cluster.api.post(f"{RULES}/clusterroles", role).expect()
    cluster.api.post(f"{RULES}/clusterrolebindings", binding).expect()
    yield write_kubeconfig(tmp_path / "config", cluster.url, cluster.ca_file, {"token": token})
    for kind in ("clusterrolebindings", "clusterroles"):
        cluster.api.delete(f"{RULES}/{kind}/{name}")


def secretive(namespace):
    """A pod with everything that must not get out, applied as people do, so that kubectl leaves its copy on it."""
    variables = [
        {"name": "PASSWORD", "value": SECRET},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "token"}}},
    ]
    container = {
        "name": "main",
        "image": "app",
        "args": [f"--password={SECRET}"],
        "env": variables,
        "resources": {"requests": {"cpu": "1"}},
    }
    metadata = {"name": "web", "namespace": namespace, "annotations": {"example.com/note": SECRET}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def snapshot(kubeconfig, *arguments):
    argv = [DOVETAIL, "snapshot", "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False, env=dict(os.environ))


def test_get_and_list_suffice_and_no_secret_gets_out(cluster, onlooker, namespace, tmp_path):
    for manifest in (NODE_CLASS, NODE_POOL):
        apply(cluster, manifest)
    vault = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vault"}, "stringData": {"token": SECRET}}
    apply(cluster, vault, namespace)
    apply(cluster, secretive(namespace), namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/web"
    eventually(lambda: "conditions" in cluster.api.get(path).expect()["status"], "the scheduler has looked", within=30)
    assert SECRET in json.dumps(cluster.api.get(path).expect()["metadata"]["annotations"])

    file = tmp_path / "cluster.json"
    ended = eventually(lambda: _taken(onlooker, file), "the role is in force", within=20)
    assert f"{file}: 0 nodes, 1 pods, 1 NodePools" in ended.stderr
    text = file.read_text()
    assert SECRET not in text
    assert "vault" not in text
    taken = read_snapshot_file(file)
    assert [pod.name for pod in taken.unbound_pods] == ["web"]
    assert taken.catalogs["default"]
    assert namespace in taken.namespaces
    assert len(plan_provisioning(taken).launches) + len(plan_provisioning(taken).refusals) > 0


def _taken(kubeconfig, file):
    ended = snapshot(kubeconfig, "-o", str(file))
    return ended if ended.returncode == 0 else None


def test_what_is_not_allowed_is_named(cluster, tmp_path):
    token = cluster.service_account_token("default", "nobody")
    kubeconfig = write_kubeconfig(tmp_path / "config", cluster.url, cluster.ca_file, {"token": token})
    ended = snapshot(kubeconfig)
    assert ended.returncode == 2
    assert "Error: " in ended.stderr
    assert "pods is forbidden" in ended.stderr
    assert ended.stdout == ""
