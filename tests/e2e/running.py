"""The controller as its own process on a real cluster, and what a test wants to know of that cluster."""

import functools
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import yaml

from e2e.components import build

DOVETAIL = str(Path(sys.executable).parent / "dovetail")
NODE_CLASS = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
    "spec": {},
}
NODE_POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
                "expireAfter": "Never",
            }
        },
        "limits": {"cpu": "1000"},
    },
}


def deployment(replicas, cpu="1"):
    requests = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "main", "image": "app", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


OWN, KARPENTER, KARPENTER_AWS = "own", "karpenter", "karpenter-aws"
"""Whose custom resource definitions a cluster has: ours, or those of Karpenter's kwok or AWS provider."""


@functools.cache
def crds(whose=OWN):
    """The custom resource definitions: ours as the command prints them, Karpenter's as its module has them."""
    if whose == OWN:
        return subprocess.run([DOVETAIL, "crds"], check=True, capture_output=True, text=True).stdout
    recipe = build.DECODER if whose == KARPENTER_AWS else build.KARPENTER
    found = (build.binaries_dir(recipe) / "crds").glob("*.yaml")
    return "\n---\n".join(path.read_text() for path in sorted(found))


def install_crds(cluster, whose=OWN):
    """Leave these custom resource definitions and no others in a cluster without custom objects."""
    wanted = {each["metadata"]["name"] for each in yaml.safe_load_all(crds(whose)) if each}
    installed = cluster.api.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    names = {each["metadata"]["name"] for each in installed}
    if names - wanted:  # of the other kind: nothing of it may stay, no version and no field
        cluster.kubectl("delete", "crd", "--wait=true", *sorted(names))
    cluster.kubectl("apply", "-f", "-", input=crds(whose))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")


def spelled(pool, whose):
    """A NodePool with the fields that Karpenter's custom resource definitions drop as annotations, if it has to be."""
    if whose == OWN:
        return pool
    spec, annotations = {**pool["spec"]}, {}
    disruption = {**spec.get("disruption", {})}
    for holder, field, annotation in (
        (spec, "repair", "dovetail.sh/repair"),
        (disruption, "consolidationGracePeriod", "dovetail.sh/consolidation-grace-period"),
        (disruption, "minSavings", "dovetail.sh/min-savings"),
        (disruption, "expireAfter", "dovetail.sh/soft-expire-after"),
        (disruption, "actionControls", "dovetail.sh/action-controls"),
        (disruption, "genericPerActionControls", "dovetail.sh/action-controls"),
        (disruption, "budgets", "dovetail.sh/budgets"),
    ):
        if field in holder and (field != "budgets" or any("action" in each for each in holder[field])):
            value = holder.pop(field)
            annotations[annotation] = value if isinstance(value, str) else json.dumps(value)
    kept = {"disruption": disruption} if "disruption" in spec else {}
    return {**pool, "metadata": {**pool["metadata"], "annotations": annotations}, "spec": {**spec, **kept}}


ALONE = {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0", "DOVETAIL_DASHBOARD_PORT": "0", "DOVETAIL_LEDGER": "off"}
"""Several controllers share the machine: none takes a port or a file that another would."""


@contextmanager
def controller(cluster, **variables):
    """`dovetail run` against the cluster, stopped at the end as a pod would be."""
    environment = {
        **os.environ,
        **ALONE,
        "DOVETAIL_LOG_FORMAT": "text",
        "DOVETAIL_GARBAGE_COLLECTION_INTERVAL": "3s",
        **variables,
    }
    process = cluster.launch(
        "dovetail", DOVETAIL, "run", "--kubeconfig", str(cluster.kubeconfig), "--provider", "kwok", env=environment
    )
    try:
        yield process
        assert process.exit_code is None, process.tail()
    finally:
        process.stop(10)


def apply(cluster, manifest, namespace="default"):
    cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(manifest))


def pods(cluster, namespace):
    return cluster.api.items(f"/api/v1/namespaces/{namespace}/pods")


def running(cluster, namespace):
    return [pod for pod in pods(cluster, namespace) if pod["status"].get("phase") == "Running"]


def claims(cluster):
    return cluster.api.items("/apis/karpenter.sh/v1/nodeclaims")


def nodes(cluster):
    return cluster.api.items("/api/v1/nodes")


def condition(thing, kind):
    return next((each["status"] for each in thing["status"].get("conditions", []) if each["type"] == kind), None)


def settled(cluster):
    made, joined = claims(cluster), nodes(cluster)
    return (
        made
        and len(made) == len(joined)
        and all(condition(claim, "Ready") == "True" for claim in made)
        and {claim["status"].get("providerID") for claim in made} == {node["spec"].get("providerID") for node in joined}
    )


def nodepool(cluster):
    return cluster.api.get("/apis/karpenter.sh/v1/nodepools/default").expect()
