"""The page on a real cluster: built into the controller, and beside it by somebody who may only read."""

import json

import pytest
import yaml

from browser.serving import fetch, free_port, serving, settled, told
from cli.terminal import terminal
from docs.pages import ROOT, blocks
from e2e.controlplane.api import eventually
from e2e.controlplane.kubeconfig import write_kubeconfig
from e2e.running import NODE_CLASS, apply, controller, deployment, nodes, running
from e2e.running import settled as quiet
from e2e.test_disruption import pool
from e2e.test_leadership import leads, replica
from e2e.test_snapshot import RULES

pytestmark = pytest.mark.once("the page reads objects only")

GUIDE = ROOT / "docs" / "guides" / "dashboard.md"


@pytest.fixture
def onlooker(prepared, tmp_path):
    """A kubeconfig of a service account with the role of the guide."""
    token = prepared.service_account_token("default", "page")
    manifests = [yaml.safe_load(block.text) for block in blocks(GUIDE, "yaml")]
    (role,) = [each for each in manifests if each.get("kind") == "ClusterRole"]
    assert all(rule["verbs"] == ["get", "list", "watch"] for rule in role["rules"])
    name = role["metadata"]["name"]
    subject = {"kind": "ServiceAccount", "name": "page", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
    prepared.api.post(f"{RULES}/clusterroles", role).expect()
    prepared.api.post(f"{RULES}/clusterrolebindings", binding).expect()
    yield write_kubeconfig(tmp_path / "config", prepared.url, prepared.ca_file, {"token": token})
    for kind in ("clusterrolebindings", "clusterroles"):
        prepared.api.delete(f"{RULES}/{kind}/{name}")


def test_the_page_follows_a_real_cluster_from_inside_and_from_beside(prepared, onlooker, namespace, tmp_path):
    cluster, inside = prepared, free_port()
    for manifest in (NODE_CLASS, pool()):
        apply(cluster, manifest)
    apply(cluster, deployment(3), namespace)
    look = ["dashboard", "--kubeconfig", onlooker, "--dashboard-port", free_port()]
    with (
        controller(cluster, DOVETAIL_DASHBOARD_PORT=str(inside)),
        serving(tmp_path, *look) as beside,
    ):
        eventually(lambda: len(running(cluster, namespace)) == 3 and quiet(cluster), "pods run", within=60)
        names = sorted(each["metadata"]["name"] for each in nodes(cluster))
        for address in (f"http://127.0.0.1:{inside}/", beside):
            eventually(lambda address=address: shown(address) == names, "the page shows the nodes", within=30)
            settled(address)
            explained = fetch(address, f"api/explain/node/{names[0]}")
            printed = told(tmp_path, "explain", "node", names[0], "--kubeconfig", onlooker)
            assert [each["method"] for each in explained["methods"]] == [each["method"] for each in printed["methods"]]
            assert explained.keys() == printed.keys()
            listed = told(tmp_path, "top", "--once", "--kubeconfig", onlooker)
            assert sorted(node["name"] for node in listed["nodes"]) == names
            assert {node["state"] for node in listed["nodes"]} == {"Ready"}
            cost = fetch(address, "api/cluster")["summary"]["costPerHour"]
            assert listed["summary"]["costPerHour"] == pytest.approx(cost) != 0
            assert "env" not in json.dumps(fetch(address, f"api/node/{names[0]}")["pods"])
        with terminal("top", "--kubeconfig", onlooker, columns=200) as screen:
            for name in names:
                screen.until(name.encode())
            apply(cluster, deployment(8), namespace)
            screen.until(b" 8 pods", within=120)
            screen.press(b"q")
        assert screen.exit_code == 0


def shown(address):
    return [node["name"] for node in fetch(address, "api/cluster")["nodes"]]


def test_either_of_two_replicas_shows_the_cluster(prepared, namespace):
    """The one that stands by looks for itself while somebody looks at it; behind a service nobody chooses."""
    cluster, ports = prepared, (free_port(), free_port())
    for manifest in (NODE_CLASS, pool()):
        apply(cluster, manifest)
    apply(cluster, deployment(2), namespace)
    first = replica(cluster, f"leading-{namespace}", DOVETAIL_DASHBOARD_PORT=str(ports[0]), DOVETAIL_LEDGER="off")
    second = None
    try:
        eventually(lambda: leads(first), "the first leads", within=60)
        second = replica(cluster, f"standing-{namespace}", DOVETAIL_DASHBOARD_PORT=str(ports[1]), DOVETAIL_LEDGER="off")
        eventually(lambda: "waiting to lead" in second.log.read_text(), "the second stands by", within=60)
        eventually(lambda: len(running(cluster, namespace)) == 2 and quiet(cluster), "pods run", within=120)
        names = sorted(each["metadata"]["name"] for each in nodes(cluster))
        for port in ports:
            address = f"http://127.0.0.1:{port}/"
            eventually(lambda address=address: shown(address) == names, "the page shows the nodes", within=60)
        assert not leads(second)
    finally:
        for process in filter(None, (second, first)):
            process.stop(30)
