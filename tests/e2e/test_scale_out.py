"""The controller as its own process on a real cluster: pending pods become nodes, lost instances are noticed."""

import os
import subprocess

from e2e.controlplane.api import MERGE, eventually
from e2e.controlplane.stack import ControlPlane
from e2e.running import (
    ALONE,
    DOVETAIL,
    NODE_CLASS,
    NODE_POOL,
    apply,
    claims,
    condition,
    controller,
    deployment,
    nodepool,
    nodes,
    pods,
    running,
    settled,
)


def test_fifty_pods_that_fit_nowhere_get_nodes_and_run(prepared, namespace):
    cluster = prepared
    with controller(cluster):
        for manifest in (NODE_CLASS, NODE_POOL):
            apply(cluster, manifest)
        apply(cluster, deployment(50), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 50, "50 pods run", within=90)
        eventually(lambda: settled(cluster), "every claim has its node", within=30)
        pool = cluster.api.get("/apis/karpenter.sh/v1/nodepools/default").expect()
        eventually(lambda: nodepool(cluster)["status"].get("nodes") == len(nodes(cluster)), "the pool counts its nodes")
        assert condition(pool, "Ready") == "True"
        for node in nodes(cluster):
            assert "karpenter.sh/termination" in node["metadata"]["finalizers"]
            assert node["metadata"]["labels"]["karpenter.sh/initialized"] == "true"
            assert all(taint["key"] != "karpenter.sh/unregistered" for taint in node["spec"].get("taints", []))
        table = cluster.kubectl("get", "nodeclaims")
        assert "True" in table


def test_an_instance_deleted_behind_our_back_is_noticed_and_cleaned_up(prepared, namespace):
    cluster = prepared
    with controller(cluster):
        for manifest in (NODE_CLASS, NODE_POOL):
            apply(cluster, manifest)
        apply(cluster, deployment(3), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run", within=60)
        lost = nodes(cluster)[0]["metadata"]["name"]
        orphan = claims(cluster)[0]["metadata"]["name"]
        cluster.api.patch(f"/api/v1/nodes/{lost}", {"metadata": {"finalizers": None}}, MERGE).expect()
        cluster.kubectl("delete", "node", lost)
        eventually(
            lambda: orphan not in [claim["metadata"]["name"] for claim in claims(cluster)], "the claim goes", within=60
        )
        for pod in pods(cluster, namespace):  # what podgc does a minute later
            if pod["spec"].get("nodeName") == lost:
                cluster.kubectl(
                    "delete", "pod", "-n", namespace, pod["metadata"]["name"], "--force", "--grace-period=0"
                )
        eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run again", within=60)


def test_deleting_a_node_drains_it_and_takes_its_claim_along(prepared, namespace):
    cluster = prepared
    with controller(cluster):
        for manifest in (NODE_CLASS, NODE_POOL):
            apply(cluster, manifest)
        apply(cluster, deployment(4), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 4 and settled(cluster), "pods run", within=60)
        old = nodes(cluster)[0]["metadata"]["name"]
        orphan = claims(cluster)[0]["metadata"]["name"]
        cluster.kubectl("delete", "node", old, "--timeout=180s")
        eventually(
            lambda: orphan not in [claim["metadata"]["name"] for claim in claims(cluster)], "the claim goes", within=60
        )
        eventually(lambda: len(running(cluster, namespace)) == 4 and settled(cluster), "pods run again", within=60)


def test_a_restarted_controller_goes_on_where_the_last_one_was_killed(prepared, namespace):
    cluster = prepared
    for manifest in (NODE_CLASS, NODE_POOL):
        apply(cluster, manifest)
    apply(cluster, deployment(5), namespace)
    environment = {**os.environ, **ALONE, "DOVETAIL_LOG_FORMAT": "text"}
    first = cluster.launch("first", DOVETAIL, "run", "--kubeconfig", str(cluster.kubeconfig), env=environment)
    eventually(lambda: claims(cluster), "a claim is made", within=30)
    first.kill()
    with controller(cluster):
        eventually(lambda: len(running(cluster, namespace)) == 5 and settled(cluster), "pods run", within=60)
        assert len(claims(cluster)) == 1


def test_without_the_custom_resources_the_controller_says_what_to_do(control_plane, tmp_path):
    with ControlPlane(tmp_path) as empty:
        argv = [DOVETAIL, "run", "--kubeconfig", str(empty.kubeconfig)]
        ended = subprocess.run(
            argv, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, **ALONE}
        )
    assert ended.returncode == 2
    assert "dovetail crds | kubectl apply --server-side -f -" in ended.stderr
