"""Repair, interruption and clean-up by a real controller process on a real cluster, staged with kubectl."""

import json
from datetime import UTC, datetime

from e2e.controlplane.api import eventually
from e2e.running import (
    KARPENTER,
    NODE_CLASS,
    NODE_POOL,
    apply,
    claims,
    controller,
    deployment,
    nodes,
    running,
    settled,
    spelled,
)


def pool(**spec):
    return {**NODE_POOL, "spec": {**NODE_POOL["spec"], **spec}}


def pdb():
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}


def names(cluster):
    return {node["metadata"]["name"] for node in nodes(cluster)}


def conditions(cluster):
    (found,) = cluster.api.items("/apis/karpenter.sh/v1/nodepools")
    return found.get("status", {}).get("conditions", [])


def ready(cluster):
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions(cluster))


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


def test_an_unhealthy_node_is_replaced_by_force_whatever_protects_its_pods(prepared, crd_owner, namespace):
    cluster = prepared
    repair = {"policies": [{"conditionType": "KernelDeadlock", "toleration": "5s"}]}
    with controller(cluster):
        apply(cluster, pdb(), namespace)
        old = started(cluster, namespace, 2, spelled(pool(repair=repair), crd_owner))
        for pod in running(cluster, namespace):
            name = pod["metadata"]["name"]
            cluster.kubectl("annotate", "pod", name, "-n", namespace, "karpenter.sh/do-not-disrupt=true")
        turn(cluster, old, "KernelDeadlock", "True")
        eventually(lambda: replaced(cluster, namespace, 2, old), "the node is replaced", within=90)
        assert "NodeRepair" in reasons(cluster)


def test_a_pool_without_a_repair_block_keeps_its_nodes(prepared, crd_owner, namespace):
    cluster = prepared
    with controller(cluster):
        old = started(cluster, namespace, 1, pool())
        turn(cluster, old, "KernelDeadlock", "True")
        cluster.kubectl("patch", "nodepool", "default", "--type=merge", "-p", '{"spec":{"weight":7}}')
        assert names(cluster) == {old}
        repair = spelled({"metadata": {}, "spec": {"repair": {"defaultTolerationDuration": "1s"}}}, crd_owner)
        cluster.kubectl("patch", "nodepool", "default", "--type=merge", "-p", json.dumps(repair))
        eventually(lambda: replaced(cluster, namespace, 1, old), "the pool asks for repair, and gets it", within=60)


def lacks_fields(process):
    of_this_process = process.log.read_text().rpartition("dovetail starts")[2]
    return "lacks fields of Dovetail" in of_this_process


def test_a_field_that_the_crds_dropped_is_named_with_the_annotation_that_works(prepared, crd_owner):
    cluster = prepared
    lost = json.dumps(pool(repair={"defaultTolerationDuration": "1s"}))
    with controller(cluster) as process:
        apply(cluster, NODE_CLASS)
        cluster.kubectl("apply", "--validate=false", "-f", "-", input=lost)
        eventually(lambda: ready(cluster), "the pool is ready", within=60)
        if crd_owner == KARPENTER:
            eventually(lambda: "FieldDropped" in reasons(cluster), "an event names the field", within=30)
            eventually(lambda: lacks_fields(process), "the log names the fields that the CRD lacks", within=30)
        else:
            assert not lacks_fields(process)
        (message,) = [each["message"] for each in conditions(cluster) if each["type"] == "ValidationSucceeded"]
        assert ("dovetail.sh/repair" in message) == (crd_owner == KARPENTER)


def test_an_annotation_that_differs_from_its_field_stops_the_pool_and_is_named(prepared, crd_owner):
    cluster = prepared
    budgets = {"consolidateAfter": "1s", "budgets": [{"nodes": "1"}]}
    with controller(cluster):
        apply(cluster, NODE_CLASS)
        apply(cluster, pool(disruption=budgets))
        eventually(lambda: ready(cluster), "the pool is ready", within=60)
        cluster.kubectl("annotate", "nodepool", "default", 'dovetail.sh/budgets=[{"nodes": "2"}]')
        eventually(lambda: not ready(cluster), "the pool is not ready", within=60)
        (message,) = [each["message"] for each in conditions(cluster) if each["type"] == "ValidationSucceeded"]
        assert "metadata.annotations[dovetail.sh/budgets]: differs from spec.disruption.budgets" in message
        cluster.kubectl("annotate", "nodepool", "default", "dovetail.sh/budgets-")
        eventually(lambda: ready(cluster), "the pool is ready again", within=60)


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
