"""New nodes open with their pods, with a real kube-scheduler (docs/concepts/provisioning.md)."""

from copy import deepcopy

import pytest

from e2e.controlplane.api import eventually
from e2e.running import NODE_CLASS, NODE_POOL, apply, claims, controller, deployment, nodes, running, settled

CPUS = {"small": "1", "medium": "2", "large": "3"}
REPLICAS = 12
PODS = REPLICAS * len(CPUS)
AT_MOST_8_CPUS = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["9"]}


def workload(name, cpu):
    manifest = deployment(REPLICAS, cpu)
    manifest["metadata"]["name"] = name
    manifest["spec"]["selector"]["matchLabels"]["app"] = name
    manifest["spec"]["template"]["metadata"]["labels"]["app"] = name
    return manifest


def landed(cluster, namespace):
    """How many pods run on the node whose NodeClaim was launched for them."""
    planned = {
        (claim["status"]["nodeName"], uid)
        for claim in claims(cluster)
        for uid in claim["metadata"]["annotations"].get("dovetail.sh/planned-pods", "").split(",")
    }
    pods = running(cluster, namespace)
    return sum((pod["spec"]["nodeName"], pod["metadata"]["uid"]) in planned for pod in pods)


@pytest.mark.once("pods and nodes do not depend on the custom resource definitions")
def test_pods_run_on_the_nodes_that_were_launched_for_them_and_no_node_stays_closed(prepared, namespace):
    cluster, pool = prepared, deepcopy(NODE_POOL)
    pool["spec"]["template"]["spec"]["requirements"].append(AT_MOST_8_CPUS)
    apply(cluster, NODE_CLASS)
    for name, cpu in CPUS.items():
        apply(cluster, workload(name, cpu), namespace)
    with controller(cluster) as process:
        apply(cluster, pool)
        eventually(lambda: len(running(cluster, namespace)) == PODS, f"{PODS} pods run", within=90)
        eventually(lambda: settled(cluster), "every claim has its node", within=30)
        assert len(nodes(cluster)) > 1
        assert not [node for node in nodes(cluster) if "dovetail.sh/closed" in str(node["spec"].get("taints"))]
        # a busy machine may lose a nomination
        assert landed(cluster, namespace) >= 0.8 * PODS, process.tail()
        opened = [each for each in cluster.api.items("/api/v1/events") if each["reason"] == "Opened"]
        assert {each["involvedObject"]["kind"] for each in opened} == {"NodeClaim"}
