"""The harness keeps its promises: what the other e2e tests build on is shown here once."""

import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.components import build
from e2e.controlplane.api import STRATEGIC, eventually
from e2e.controlplane.ports import LOOPBACK, Ports
from e2e.controlplane.slate import wipe
from e2e.spreading import APART, LONGEST

ALLOCATABLE = {"cpu": "3500m", "memory": "7Gi", "pods": "58", "ephemeral-storage": "15Gi"}


def kwok_node(name, annotations=(), taints=()):
    """A node as a provider makes it: pending, with a status of its own and the simulated kubelet's annotation."""
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},  # KWOK leaves a node without any label alone
            "annotations": {"kwok.x-k8s.io/node": "fake"} | dict(annotations),
        },
        "spec": {"providerID": f"kwok://{name}", "taints": list(taints)},
        "status": {"phase": "Pending", "capacity": ALLOCATABLE | {"cpu": "4"}, "allocatable": ALLOCATABLE},
    }


def deployment(name, replicas):
    labels = {"app": name}
    container = {"name": "main", "image": "example.invalid/app:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def add_node(cluster, name, **kwargs):
    cluster.api.post("/api/v1/nodes", kwok_node(name, **kwargs)).expect()


def get_node(cluster, name):
    return cluster.api.get(f"/api/v1/nodes/{name}").expect()


def condition(thing, kind):
    found = [entry for entry in thing["status"].get("conditions", []) if entry["type"] == kind]
    return found[0]["status"] if found else None


def ready_node(cluster, name, **kwargs):
    add_node(cluster, name, **kwargs)
    return eventually(
        lambda: condition(get_node(cluster, name), "Ready") == "True" and get_node(cluster, name), "Ready"
    )


def running_pods(cluster, namespace):
    pods = cluster.api.items(f"/api/v1/namespaces/{namespace}/pods")
    return [
        pod
        for pod in pods
        if pod["status"]["phase"] == "Running"
        and condition(pod, "Ready") == "True"
        and "deletionTimestamp" not in pod["metadata"]
    ]


def run_deployment(cluster, namespace, name, replicas):
    cluster.api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment(name, replicas)).expect()
    return eventually(
        lambda: len(pods := running_pods(cluster, namespace)) == replicas and pods, f"{replicas} pods run"
    )


def evict(cluster, pod):
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
    return cluster.api.post(path, {"metadata": {"name": meta["name"], "namespace": meta["namespace"]}})


def test_all_components_are_of_the_pinned_release(control_plane):
    versions = json.loads(control_plane.kubectl("version", "-o", "json"))
    assert versions["serverVersion"]["gitVersion"] == build.version()
    assert versions["clientVersion"]["gitVersion"] == build.version()


def test_node_becomes_ready_after_a_while_and_keeps_its_own_resources(cluster):
    taint = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
    began = time.monotonic()
    node = ready_node(cluster, "apple", taints=[taint])
    assert time.monotonic() - began > 0.7
    assert node["status"]["allocatable"] == ALLOCATABLE
    assert node["status"]["capacity"]["cpu"] == "4"
    assert taint in node["spec"]["taints"]
    not_ready_lifted = eventually(lambda: get_node(cluster, "apple")["spec"].get("taints") == [taint] or None, "taints")
    assert not_ready_lifted
    lease = cluster.api.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/apple").expect()
    assert lease["spec"]["renewTime"]


def test_node_without_the_annotation_is_nobodys(cluster):
    bare = kwok_node("bare")
    del bare["metadata"]["annotations"]
    cluster.api.post("/api/v1/nodes", bare).expect()
    ready_node(cluster, "apple")
    assert condition(get_node(cluster, "bare"), "Ready") is None


def test_node_can_be_made_to_never_become_ready(cluster):
    add_node(cluster, "stuck", annotations={"node-ready.stage.kwok.x-k8s.io/delay": "24h"})
    ready_node(cluster, "apple")
    assert condition(get_node(cluster, "stuck"), "Ready") is None


def test_condition_set_by_a_test_is_not_overwritten(cluster):
    ready_node(cluster, "apple")
    broken = {
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken", "message": "by a test"}]}
    }
    cluster.api.patch("/api/v1/nodes/apple/status", broken, STRATEGIC).expect()
    ready_node(cluster, "birch")  # a whole start-up later
    assert condition(get_node(cluster, "apple"), "Ready") == "False"


def test_pods_of_a_deployment_bind_and_run(cluster, namespace):
    ready_node(cluster, "apple")
    pods = run_deployment(cluster, namespace, "web", 5)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"apple"}
    eventually(
        lambda: (
            cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
            .expect()["status"]
            .get("availableReplicas")
            == 5
        ),
        "the deployment counts them",
    )


def test_pending_pod_runs_once_a_node_comes(cluster, namespace):
    cluster.api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", 1)).expect()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    eventually(
        lambda: [condition(pod, "PodScheduled") for pod in cluster.api.items(pods)] == ["False"], "unschedulable"
    )
    ready_node(cluster, "apple")
    eventually(lambda: len(running_pods(cluster, namespace)) == 1, "the pod runs")


def test_eviction_is_refused_while_a_budget_is_spent(cluster, namespace):
    ready_node(cluster, "apple")
    first, second = run_deployment(cluster, namespace, "web", 2)
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    cluster.api.post(budgets, {"metadata": {"name": "web"}, "spec": spec}).expect()
    eventually(lambda: cluster.api.get(f"{budgets}/web").expect()["status"].get("disruptionsAllowed") == 1, "observed")

    assert evict(cluster, first).status == 201
    refused = evict(cluster, second)
    assert refused.status == 429
    assert refused.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    eventually(lambda: evict(cluster, second).status == 201, "allowed once the replacement runs")


def test_pod_takes_time_to_stop(cluster, namespace):
    ready_node(cluster, "apple")
    (pod,) = run_deployment(cluster, namespace, "web", 1)
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
    began = time.monotonic()
    assert cluster.api.delete(path).ok
    eventually(lambda: cluster.api.get(path).status == 404, "the pod is gone")
    assert 0.5 < time.monotonic() - began < 25


def test_job_completes(cluster, namespace):
    ready_node(cluster, "apple")
    template = deployment("unused", 1)["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    cluster.api.post(jobs, {"metadata": {"name": "sum"}, "spec": {"template": template}}).expect()
    eventually(lambda: condition(cluster.api.get(f"{jobs}/sum").expect(), "Complete") == "True", "the job is complete")


def test_client_certificate_and_token_are_both_admin(control_plane):
    for kubeconfig in (control_plane.kubeconfig, control_plane.client_cert_kubeconfig):
        answer = control_plane.kubectl(f"--kubeconfig={kubeconfig}", "auth", "can-i", "*", "*")
        assert answer.strip() == "yes"


def test_service_account_may_do_nothing_until_rbac_says_so(cluster, namespace):
    service_account = cluster.api_as(cluster.service_account_token(namespace, "reader"))
    assert service_account.get("/api/v1/nodes").status == 403
    cluster.kubectl(
        "create", "clusterrolebinding", "reader", "--clusterrole=system:node-problem-detector",
        f"--serviceaccount={namespace}:reader",
    )  # fmt: skip
    try:
        eventually(lambda: service_account.get("/api/v1/nodes/none").status == 404, "the binding holds")
    finally:
        cluster.kubectl("delete", "clusterrolebinding", "reader")


def test_watch_from_before_a_restart_is_gone_and_the_cluster_goes_on(cluster, namespace):
    ready_node(cluster, "apple")
    old = cluster.api.get("/api/v1/nodes").expect()["metadata"]["resourceVersion"]
    run_deployment(cluster, namespace, "web", 2)
    cluster.restart_apiserver()
    event = cluster.api.get(f"/api/v1/nodes?watch=1&timeoutSeconds=1&resourceVersion={old}").body
    assert event["object"]["code"] == 410
    ready_node(cluster, "birch")
    cluster.kubectl("scale", "deployment", "web", "--replicas=3", f"--namespace={namespace}")
    eventually(lambda: len(running_pods(cluster, namespace)) == 3, "the third pod runs")


def test_wiping_leaves_nothing_that_a_test_made(cluster, namespace):
    ready_node(cluster, "apple")
    run_deployment(cluster, namespace, "web", 3)
    held = {"metadata": {"finalizers": ["karpenter.sh/termination"]}}
    cluster.api.patch("/api/v1/nodes/apple", held).expect()
    wipe(cluster.api)
    assert cluster.api.items("/api/v1/nodes") == []
    assert cluster.api.items("/api/v1/pods") == []


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux")
def test_programs_do_not_outlive_their_parent(tmp_path):
    script = (
        "import os, pathlib, sys; from e2e.controlplane.process import Process; "
        f"p = Process('sleep', ['/bin/sleep', '600'], pathlib.Path({str(tmp_path / 'log')!r})).start(); "
        "print(p.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    pid = int(parent.stdout)

    def is_gone():
        try:
            with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - a file of the kernel
                return stat.read().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    eventually(is_gone, "the program ended with its parent")


def test_a_port_is_held_from_others_and_open_to_its_own_listener():
    with ExitStack() as held:
        number = Ports.reserve(held).apiserver
        with socket.create_server((LOOPBACK, number)):
            pass
        with socket.socket(type=socket.SOCK_DGRAM) as other, pytest.raises(OSError, match="in use"):
            other.bind((LOOPBACK, number))
    with socket.socket(type=socket.SOCK_DGRAM) as other:
        other.bind((LOOPBACK, number))


def test_tests_that_are_taken_apart_share_no_fixture_of_their_module():
    here = Path(__file__).parent
    assert {name for name in {*APART, *LONGEST} if not (here / name).exists()} == set()
    assert {name for name in APART if 'scope="module"' in (here / name).read_text()} == set()
