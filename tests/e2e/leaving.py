"""Nodes taken from a real cluster: the scene, the API server's own record of a budget, and what must not be left."""

import os
import subprocess
from contextlib import contextmanager

from e2e.controlplane.api import eventually
from e2e.running import DOVETAIL, NODE_CLASS, NODE_POOL, apply, claims, nodes, pods, running, settled

SMALL = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s-4x-amd64-linux"]}
QUIET = {"consolidateAfter": "Never"}


def pool(name="default", template=None, **spec):
    """A NodePool that sells nodes for three pods, and leaves them alone."""
    inner = {**NODE_POOL["spec"]["template"]["spec"], "requirements": [SMALL], **(template or {})}
    return {
        **NODE_POOL,
        "metadata": {"name": name},
        "spec": {**NODE_POOL["spec"], "template": {"spec": inner}, "disruption": QUIET, **spec},
    }


def budget(**spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def deployment(replicas, annotations=None, **pod_spec):
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": "web"}, "annotations": annotations or {}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {**template, "spec": {"containers": [container], **pod_spec}},
        },
    }


def stage(cluster, namespace, *manifests, replicas):
    """Apply a class, pools and a workload, and wait until all of it runs."""
    apply(cluster, NODE_CLASS)
    for manifest in manifests:
        apply(cluster, manifest, namespace)
    eventually(
        lambda: len(running(cluster, namespace)) == replicas and settled(cluster),
        "every pod runs on a settled node",
        within=90,
    )


@contextmanager
def budget_history(cluster, namespace):
    """Every status the API server tells of a budget while inside, as (healthy, wanted, allowed)."""
    columns = ("{.status.currentHealthy}", "{.status.desiredHealthy}", "{.status.disruptionsAllowed}")
    template = "jsonpath=" + " ".join(columns) + '{"\\n"}'
    kubectl = str(cluster._binaries / "kubectl")
    config = f"--kubeconfig={cluster.kubeconfig}"
    process = cluster.launch(
        f"pdb-{namespace}", kubectl, config, "get", "pdb", "web", "-n", namespace, "-w", "-o", template
    )
    history = []
    try:
        eventually(lambda: process.tail(1).strip(), "the watch has begun")
        yield history
    finally:
        process.stop()
        lines = process.log.read_text().splitlines()
        history.extend(tuple(map(int, line.split())) for line in lines if len(line.split()) == 3)


def kept(history):
    """Whether the budget was never broken, and was put to the test."""
    return bool(history) and all(healthy >= wanted for healthy, wanted, _ in history) and len(set(history)) > 1


def untouched_by(cluster, gone):
    """None of these nodes and claims, by uid, is there; nothing that is there is on its way out."""
    there = [*nodes(cluster), *claims(cluster)]
    return not gone & {each["metadata"]["uid"] for each in there} and not any(
        "deletionTimestamp" in each["metadata"] for each in there
    )


def uids(objects):
    return {each["metadata"]["uid"] for each in objects}


def calm(cluster, namespace, replicas):
    """Every pod runs, none is leaving, and every node is settled."""
    found = pods(cluster, namespace)
    return (
        len(found) == len(running(cluster, namespace)) == replicas
        and not any("deletionTimestamp" in pod["metadata"] for pod in found)
        and settled(cluster)
    )


def dovetail(cluster, *arguments, kubeconfig=None):
    argv = [DOVETAIL, *arguments, "--kubeconfig", str(kubeconfig or cluster.kubeconfig), "--catalog", "generic"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False, env=dict(os.environ))
