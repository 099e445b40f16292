"""Voluntary disruption by a real controller process on a real cluster."""

import json

from e2e.controlplane.api import eventually
from e2e.running import NODE_CLASS, NODE_POOL, apply, claims, controller, deployment, nodes, running, settled

FREELY = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


def pool(**disruption):
    requirements = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
    template = {**NODE_POOL["spec"]["template"]["spec"], "requirements": requirements}
    spec = {**NODE_POOL["spec"], "template": {"spec": template}, "disruption": {**FREELY, **disruption}}
    return {**NODE_POOL, "spec": spec}


def untouched(cluster):
    """Nothing of a disruption is left on what stays."""
    marks = [claim for claim in claims(cluster) if "dovetail.sh/command" in claim["metadata"].get("annotations", {})]
    taints = [taint for node in nodes(cluster) for taint in node["spec"].get("taints", [])]
    return not marks and not any(taint["key"].startswith("karpenter.sh/disrupt") for taint in taints)


def test_a_cluster_that_is_scaled_in_becomes_cheaper_and_then_empty(prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_DISRUPTION="on"):
        for manifest in (NODE_CLASS, pool()):
            apply(cluster, manifest)
        apply(cluster, deployment(40), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 40 and settled(cluster), "pods run", within=90)
        large = {node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in nodes(cluster)}
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=4")
        eventually(
            lambda: (
                not large & {node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in nodes(cluster)}
                and len(running(cluster, namespace)) == 4
                and settled(cluster)
                and untouched(cluster)
            ),
            "a smaller node carries what is left, after the cool-down of the default minSavings",
            within=300,
        )
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=0")
        eventually(lambda: not nodes(cluster) and not claims(cluster), "every node is gone", within=120)


def test_a_changed_template_is_rolled_out_node_by_node(prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_DISRUPTION="on"):
        for manifest in (NODE_CLASS, pool(consolidateAfter="Never")):
            apply(cluster, manifest)
        apply(cluster, deployment(3), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run", within=60)
        old = nodes(cluster)[0]["metadata"]["name"]
        patch = json.dumps({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})
        cluster.kubectl("patch", "nodepool", "default", "--type=merge", "-p", patch)
        eventually(
            lambda: (
                old not in [node["metadata"]["name"] for node in nodes(cluster)]
                and len(running(cluster, namespace)) == 3
                and settled(cluster)
                and untouched(cluster)
            ),
            "the drifted node is replaced",
            within=120,
        )
        assert all(node["metadata"]["labels"]["team"] == "a" for node in nodes(cluster))
