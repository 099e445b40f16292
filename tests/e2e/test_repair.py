"""Repair, interruption and clean-up by a real controller process on a real cluster, staged with kubectl."""

import json
from datetime import UTC, datetime

import pytest

from e2e.controlplane.api import eventually
from e2e.running import NODE_CLASS, NODE_POOL, apply, claims, controller, deployment, nodes, running, settled


def pool(**spec):
    return {**NODE_POOL, "spec": {**NODE_POOL["spec"], **spec}}


def pdb():
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}


def names(cluster):
    return {node["metadata"]["name"] for node in nodes(cluster)}


def started(cluster, namespace, pods, *manifests):
    """The name of the only node, once so many pods run on it."""
    for manifest in (NODE_CLASS, *manifests):
        apply(cluster, manifest)
    apply(cluster, deployment(pods), namespace)
    eventually(lambda: len(running(cluster, namespace)) == pods and settled(cluster), "pods run", within=90)
    (name,) = names(cluster)
    return name


def replaced(cluster, namespace, pods, old):
    return old not in names(cluster) and len(running(cluster, namespace)) == pods and settled(cluster)


def turn(cluster, node, condition, status):
    """A condition of a node turns, as node-problem-detector would report it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    reported = {"type": condition, "status": status, "reason": "Staged", "lastTransitionTime": now}
    patch = json.dumps({"status": {"conditions": [reported]}})
    cluster.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", patch)


def reasons(cluster):
    return {event["reason"] for event in cluster.api.items("/api/v1/events")}


NO_REPAIR = pytest.mark.needs_own_crds("Karpenter's NodePool has no spec.repair")


@NO_REPAIR
def test_an_unhealthy_node_is_replaced_by_force_whatever_protects_its_pods(prepared, namespace):
    cluster = prepared
    repair = {"policies": [{"conditionType": "KernelDeadlock", "toleration": "5s"}]}
    with controller(cluster):
        apply(cluster, pdb(), namespace)
        old = started(cluster, namespace, 2, pool(repair=repair))
        for pod in running(cluster, namespace):
            name = pod["metadata"]["name"]
            cluster.kubectl("annotate", "pod", name, "-n", namespace, "karpenter.sh/do-not-disrupt=true")
        turn(cluster, old, "KernelDeadlock", "True")
        eventually(lambda: replaced(cluster, namespace, 2, old), "the node is replaced", within=90)
        assert "NodeRepair" in reasons(cluster)


@NO_REPAIR
def test_a_pool_without_a_repair_block_keeps_its_nodes(prepared, namespace):
    cluster = prepared
    with controller(cluster):
        old = started(cluster, namespace, 1, pool())
        turn(cluster, old, "KernelDeadlock", "True")
        cluster.kubectl("patch", "nodepool", "default", "--type=merge", "-p", '{"spec":{"weight":7}}')
        assert names(cluster) == {old}
        repair = json.dumps({"spec": {"repair": {"defaultTolerationDuration": "1s"}}})
        cluster.kubectl("patch", "nodepool", "default", "--type=merge", "-p", repair)
        eventually(lambda: replaced(cluster, namespace, 1, old), "the pool asks for repair, and gets it", within=60)


def test_a_staged_spot_warning_moves_the_pods(prepared, namespace):
    cluster = prepared
    with controller(cluster):
        old = started(cluster, namespace, 3, pool())
        cluster.kubectl("label", "node", old, "dovetail.sh/interrupt=spot_interrupted")
        eventually(lambda: replaced(cluster, namespace, 3, old), "the node is replaced", within=90)
        assert {"SpotInterrupted", "TerminatingOnInterruption"} <= reasons(cluster)
        (node,) = nodes(cluster)
        cluster.kubectl("label", "node", node["metadata"]["name"], "dovetail.sh/interrupt=nonsense")
        eventually(
            lambda: "dovetail.sh/interrupt" not in nodes(cluster)[0]["metadata"]["labels"],
            "what nobody understands is set aside",
            within=30,
        )
        assert names(cluster) == {node["metadata"]["name"]}


def test_a_node_whose_claim_was_forced_away_is_cleaned_up_and_its_pods_run_elsewhere(prepared, namespace):
    cluster = prepared
    with controller(cluster):
        old = started(cluster, namespace, 1, pool())
        (claim,) = (each["metadata"]["name"] for each in claims(cluster))
        bare = json.dumps({"metadata": {"finalizers": None}})
        cluster.kubectl("delete", "nodeclaim", claim, "--wait=false")
        cluster.kubectl("patch", "nodeclaim", claim, "--type=merge", "-p", bare)
        eventually(lambda: replaced(cluster, namespace, 1, old), "nothing is left over", within=120)
