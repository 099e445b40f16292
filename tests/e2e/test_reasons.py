"""Why nodes stay, asked of a real cluster: plan, explain, budgets, events and conditions, with a budget gone wrong."""

import json
import subprocess

import pytest
import yaml

from e2e.controlplane.api import eventually
from e2e.running import (
    DOVETAIL,
    NODE_CLASS,
    NODE_POOL,
    apply,
    controller,
    crds,
    deployment,
    running,
    settled,
    spelled,
)

FREELY = {"consolidateAfter": "0s", "minSavings": "0%", "budgets": [{"nodes": "100%"}]}
BAD = {"consolidateAfter": "0s", "budgets": [{"nodes": "5", "action": "Boredom"}]}


def pool(**disruption):
    return {**NODE_POOL, "spec": {**NODE_POOL["spec"], "disruption": {**FREELY, **disruption}}}


def budget(namespace):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }


def ask(cluster, *arguments):
    call = [DOVETAIL, *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def events(cluster, reason):
    found = cluster.api.items("/api/v1/namespaces/default/events")
    return [(each["involvedObject"]["kind"], each["message"]) for each in found if each["reason"] == reason]


def prevented(cluster):
    return [each for each in events(cluster, "DisruptionBlocked") if "Pdb prevents" in each[1]]


def condition(cluster, kind="ValidationSucceeded"):
    found = cluster.api.get("/apis/karpenter.sh/v1/nodepools/default").expect()
    return next((each for each in found["status"]["conditions"] if each["type"] == kind), {})


@pytest.fixture
def unvalidated(prepared):
    """A cluster whose schema lets anything pass under `spec.disruption`, as one from another program may."""
    wanted = list(yaml.safe_load_all(crds()))
    loose = next(each for each in wanted if each["metadata"]["name"] == "nodepools.karpenter.sh")
    for version in loose["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec.pop("x-kubernetes-validations", None)
        spec["properties"]["disruption"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    prepared.kubectl("replace", "-f", "-", input=json.dumps(loose))
    yield prepared
    prepared.kubectl("delete", "nodepools", "--all", "--wait=false")
    prepared.kubectl("replace", "-f", "-", input=crds())


def test_one_replica_that_must_stay_is_told_as_permanent_by_plan_explain_and_event(prepared, crd_owner, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_DISRUPTION="on"):
        for manifest in (NODE_CLASS, spelled(pool(), crd_owner)):
            apply(cluster, manifest)
        apply(cluster, budget(namespace), namespace)
        apply(cluster, deployment(1), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 1 and settled(cluster), "the pod runs", within=60)
        eventually(
            lambda: {kind for kind, _ in prevented(cluster)} == {"Node", "NodeClaim"}, "both are told", within=60
        )
        assert all("permanent: needs a manual change" in message for _, message in prevented(cluster))

    (left,) = json.loads(ask(cluster, "plan", "-o", "json"))["leftAlone"]
    assert left["permanent"]
    assert left["code"] == "PodDisruptionBudget"
    blocked = f"PDB {namespace}/web never allows an eviction (pod {namespace}/{pod(cluster)})"
    assert left["because"].startswith(blocked)
    assert ask(cluster, "explain", "node", left["node"]).startswith(f"Stays: {blocked}")
    told = ask(cluster, "explain", "node", left["node"], "--full")
    assert "(permanent: needs a manual change)" in told
    assert [line.split()[0] for line in told.splitlines()[3:] if line and not line.startswith(" ")] == [
        "expiration",
        "drift",
        "emptiness",
        "multi-node",
        "single-node",
    ]
    assert "allows 0 evictions now, and never will" in ask(cluster, "explain", "pod", f"{namespace}/{pod(cluster)}")
    assert "in force" in ask(cluster, "explain", "nodepool", "default")
    assert "how many of 1 node may be disrupted at once" in ask(cluster, "budgets", "default", "--days", "1")


def pod(cluster):
    found = cluster.api.items("/api/v1/pods")
    return next(each["metadata"]["name"] for each in found if each["metadata"]["labels"].get("app") == "web")


NO_ACTION = pytest.mark.needs_own_crds("Karpenter's NodePool has no disruption.budgets[].action")


@NO_ACTION
def test_a_bad_budget_is_refused_by_the_api_server(prepared):
    with pytest.raises(Exception, match="Boredom"):
        apply(prepared, {**NODE_POOL, "spec": {**NODE_POOL["spec"], "disruption": BAD}})


@NO_ACTION
def test_a_bad_budget_that_gets_through_blocks_the_pool_and_says_where_until_it_is_mended(unvalidated, namespace):
    cluster = unvalidated
    with controller(cluster, DOVETAIL_DISRUPTION="on"):
        for manifest in (NODE_CLASS, pool()):
            apply(cluster, manifest)
        apply(cluster, deployment(1), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 1 and settled(cluster), "the pod runs", within=60)
        cluster.kubectl("patch", "nodepool", "default", "--type=merge", "-p", json.dumps({"spec": {"disruption": BAD}}))
        eventually(lambda: condition(cluster)["status"] == "False", "the condition says so", within=30)
        assert "spec.disruption.budgets[0].action" in condition(cluster)["message"]
        assert "hoose from All, Consolidation" in condition(cluster)["message"]
        eventually(
            lambda: any(
                kind == "NodePool" and "spec.disruption.budgets[0]" in message
                for kind, message in events(cluster, "DisruptionBlocked")
            ),
            "an event says so",
            within=60,
        )
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=0")
        eventually(lambda: not running(cluster, namespace), "the pod is gone", within=60)
        assert settled(cluster), "its node stays"
        cluster.kubectl(
            "patch",
            "nodepool",
            "default",
            "--type=merge",
            "-p",
            json.dumps({"spec": {"disruption": {"budgets": FREELY["budgets"]}}}),
        )
        eventually(lambda: condition(cluster)["status"] == "True", "the condition is gone", within=60)
        eventually(lambda: not cluster.api.items("/api/v1/nodes"), "the empty node goes", within=120)
