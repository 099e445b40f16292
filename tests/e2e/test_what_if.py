"""What a change or a later time would do, asked of a real cluster: what-if and the flags of plan."""

import json
import subprocess

from e2e.controlplane.api import eventually
from e2e.running import DOVETAIL, NODE_CLASS, NODE_POOL, apply, controller, deployment, running, settled

SLOW = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1h", "budgets": [{"nodes": "100%"}]}
POOL = {**NODE_POOL, "spec": {**NODE_POOL["spec"], "disruption": SLOW}}


def ask(cluster, *arguments):
    call = [DOVETAIL, *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def document(cluster, *arguments):
    return json.loads(ask(cluster, *arguments, "-o", "json"))


def test_an_empty_node_leaves_with_a_shorter_delay_at_a_later_time_and_in_the_end(prepared, namespace):
    cluster = prepared
    with controller(cluster):
        for manifest in (NODE_CLASS, POOL):
            apply(cluster, manifest)
        apply(cluster, deployment(1), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 1 and settled(cluster), "the pod runs", within=60)
        cluster.kubectl("delete", "deployment", "--all", "-n", namespace)
        eventually(lambda: not running(cluster, namespace), "the node is empty", within=60)

    before = cluster.api.get("/apis/karpenter.sh/v1/nodepools/default").expect()["metadata"]["resourceVersion"]
    summary = document(cluster, "plan", "--summary")
    (blocked,) = summary["blocked"]
    assert (blocked["by"], blocked["what"]) == ("delay", "consolidateAfter")
    (node,) = blocked["nodes"]

    (unblocked,) = document(cluster, "what-if", "--set", "spec.disruption.consolidateAfter=0s")["unblocked"]
    assert (unblocked["node"], unblocked["after"]) == (node, "delete (Empty)")
    assert "is already 1h" in ask(cluster, "what-if", "--set", "nodepool/default.spec.disruption.consolidateAfter=60m")

    assert [each["nodes"] for each in document(cluster, "plan", "--at", "+2h")["commands"]] == [[node]]
    end = document(cluster, "plan", "--until-stable")
    assert [(each["reason"], each["nodes"]) for each in end["moves"]] == [("Empty", [node])]
    assert (end["stable"], end["nodesAfter"], end["costPerHourAfter"]) == (True, 0, 0.0)
    assert end["costPerHourBefore"] == summary["costPerHour"] > 0
    after = cluster.api.get("/apis/karpenter.sh/v1/nodepools/default").expect()["metadata"]["resourceVersion"]
    assert after == before
