"""`dovetail history` from another machine: a real API server, its RBAC, and port forwarding through a kubelet.

The kubelet is KWOK, which serves port forwarding with the library of real kubelets. The leader is a process on this
host that listens on loopback, as in its pod; the Pod object has its host name.
"""

import json
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname

import pytest
import yaml

from browser.serving import free_port
from e2e.components import build
from e2e.controlplane.api import eventually
from e2e.running import DOVETAIL, NODE_CLASS, apply, controller, deployment, nodes, running
from e2e.test_disruption import pool

pytestmark = pytest.mark.once("history is read through the API server, whosever CRDs it has")

DEPLOY = Path(__file__).parents[2] / "deploy"
INSTALLED = {"Namespace", "ServiceAccount", "Role", "PersistentVolumeClaim"}
HOST = "controller-host"
NO_STAGE = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "none"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Node"},
        "selector": {"matchLabels": {"no": "node"}},
        "next": {},
    },
}
"""KWOK does not start without a stage; this one is for no node."""


@pytest.fixture
def deployed(prepared, tmp_path):
    """The base with both components: accepted as a whole by the API server, and installed but for the pods."""
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    place = Path(os.path.relpath(DEPLOY, overlay))
    components = [str(place / "overlays" / name) for name in ("ledger", "history")]
    (overlay / "kustomization.yaml").write_text(
        yaml.safe_dump({"resources": [str(place / "base")], "components": components})
    )
    documents = list(yaml.safe_load_all(prepared.kustomize(overlay)))
    kept = {"apiVersion": "v1", "kind": "List", "items": [each for each in documents if each["kind"] in INSTALLED]}
    prepared.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(kept))
    eventually(lambda: prepared.has_service_account("dovetail"), "the namespace is ready")
    made = next(each for each in documents if each["kind"] == "Deployment")
    prepared.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", input=json.dumps(made))
    yield prepared, made
    prepared.kubectl("delete", "--wait=true", "--ignore-not-found", "-f", "-", input=json.dumps(kept))


@contextmanager
def pod_of_the_leader(cluster, made, tmp_path, port):
    """A node with a kubelet that forwards this port, and on it the Deployment's Pod, with the name of this host."""
    kubelet_port = free_port()
    forward = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "PortForward",
        "metadata": {"name": gethostname(), "namespace": "dovetail"},
        "spec": {"forwards": [{"ports": [port], "target": {"address": "127.0.0.1", "port": port}}]},
    }
    (tmp_path / "kwok.yaml").write_text(yaml.safe_dump_all([forward, NO_STAGE]))
    kubelet = cluster.launch(
        "kubelet",
        str(build.binaries_dir(build.CONTROL_PLANE) / "kwok"),
        f"--kubeconfig={cluster.kubeconfig}",
        f"--config={tmp_path / 'kwok.yaml'}",
        f"--server-address=127.0.0.1:{kubelet_port}",
        "--manage-single-node=none",
        env={"HOME": str(tmp_path), "PATH": ""},
    )
    apply(cluster, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": HOST}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
    }
    cluster.kubectl("patch", "node", HOST, "--subresource=status", "-p", json.dumps({"status": status}))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": gethostname()}}
    apply(cluster, {**pod, "spec": {**made["spec"]["template"]["spec"], "nodeName": HOST}}, "dovetail")
    try:
        yield
    finally:
        kubelet.stop(10)
        cluster.kubectl("delete", "pod", "-n", "dovetail", "--force", "--grace-period=0", gethostname())
        cluster.kubectl("delete", "node", HOST)


def dovetail(cluster, user, *arguments):
    """The command on another machine: a home and credentials of its own."""
    access = cluster.token_kubeconfig(f"history-{user[-8:]}", user)
    environment = {**os.environ, "HOME": str(access.parent / "nowhere"), "DOVETAIL_LEDGER": "", "XDG_STATE_HOME": ""}
    return subprocess.run(
        [DOVETAIL, *arguments, "--kubeconfig", str(access)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def answers(cluster, user, *arguments):
    result = dovetail(cluster, user, *arguments)
    assert result.returncode == 0, result.stderr
    return True


def test_whoever_may_forward_ports_reads_the_history_of_the_leader(deployed, namespace, tmp_path):
    cluster, made = deployed
    assert made["spec"]["replicas"] == 1
    port = free_port()
    variables = {
        "DOVETAIL_DASHBOARD_PORT": str(port),
        "DOVETAIL_LEDGER": str(tmp_path / "volume" / "ledger.db"),
        "LEADER_ELECTION_NAMESPACE": "dovetail",
        "DOVETAIL_DISRUPTION": "on",
    }
    dana, eve = (cluster.service_account_token(namespace, name) for name in ("dana", "eve"))
    subject = f"--serviceaccount={namespace}:dana"
    cluster.kubectl("create", "rolebinding", "dana", "-n", "dovetail", "--role=dovetail-history", subject)
    asked = ("history", "--dashboard-port", str(port))
    for manifest in (NODE_CLASS, pool()):
        apply(cluster, manifest)
    apply(cluster, deployment(3), namespace)
    with pod_of_the_leader(cluster, made, tmp_path, port):
        with controller(cluster, **variables):
            eventually(lambda: len(running(cluster, namespace)) == 3, "pods run", within=90)
            gone = next(each["metadata"]["name"] for each in nodes(cluster) if each["metadata"]["name"] != HOST)
            cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=0")
            eventually(
                lambda: [each["metadata"]["name"] for each in nodes(cluster)] == [HOST], "it is empty", within=120
            )
        with controller(cluster, **variables):  # the pod restarts, the volume stays
            eventually(lambda: answers(cluster, dana, *asked), "the next leader answers", within=60)
            found = json.loads(dovetail(cluster, dana, *asked, "-o", "json").stdout)
            about = {(each["act"], each["outcome"]) for each in found["decisions"] if gone in json.dumps(each)}
            assert about == {("launch", "done"), ("disrupt", "done")}
            one = dovetail(cluster, dana, *asked, found["decisions"][0]["id"][:12])
            assert "Left alone" in one.stdout, one

            refused = dovetail(cluster, eve, *asked)
            assert refused.returncode == 2
            assert "may not read the Lease dovetail/karpenter-leader-election; grant get on leases" in refused.stderr
            named = dovetail(cluster, eve, *asked, "--pod", gethostname())
            assert named.returncode == 2
            assert "grant get and create on pods/portforward in namespace dovetail" in named.stderr
            closed = dovetail(cluster, dana, "history", "--dashboard-port", str(free_port()))
            assert closed.returncode == 2
            assert "does not answer on port" in closed.stderr

            explained = dovetail(cluster, cluster.token, "explain", f"node/{gone}", "--dashboard-port", str(port))
            assert explained.returncode == 0, explained
            assert f"Node {gone}: Removed" in explained.stdout
            assert ": Empty, by emptiness" in explained.stdout
