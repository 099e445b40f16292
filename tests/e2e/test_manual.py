"""Nodes taken away by hand on a real cluster, with kubectl as people type it, and by `dovetail drain`."""

import json
import re

import pytest

from e2e.controlplane.api import eventually
from e2e.leaving import budget, budget_history, calm, deployment, dovetail, kept, pool, stage, uids, untouched_by
from e2e.running import claims, controller, nodes, pods

REPLICAS = 6


def name(things):
    return things[0]["metadata"]["name"]


WAYS = {
    "a specific nodeclaim": lambda cluster: ("nodeclaim", name(claims(cluster))),
    "a specific node": lambda cluster: ("node", name(nodes(cluster))),
    "all nodeclaims": lambda _: ("nodeclaims", "--all"),
    "all nodes owned by any nodepool": lambda _: ("nodes", "-l", "karpenter.sh/nodepool"),
    "all nodeclaims of a nodepool": lambda _: ("nodeclaims", "-l", "karpenter.sh/nodepool=default"),
    "a nodepool": lambda _: ("nodepool", "default"),
}
ONE = ("a specific nodeclaim", "a specific node")


@pytest.mark.parametrize("way", WAYS)
def test_kubectl_delete_ends_with_nothing_left_and_every_pod_elsewhere(way, prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        pools = (pool(weight=10), pool("spare"))
        stage(cluster, namespace, *pools, deployment(REPLICAS), budget(maxUnavailable=2), replicas=REPLICAS)
        command = WAYS[way](cluster)
        old_nodes, old_claims = nodes(cluster), claims(cluster)
        if way in ONE:
            one = next(each for each in old_nodes + old_claims if each["metadata"]["name"] == command[1])
            instance = one["spec"].get("providerID") or one["status"]["providerID"]
            old_nodes = [each for each in old_nodes if each["spec"]["providerID"] == instance]
            old_claims = [each for each in old_claims if each["status"]["providerID"] == instance]
        names = {each["metadata"]["name"] for each in old_nodes}
        pods_to_reschedule = [pod for pod in pods(cluster, namespace) if pod["spec"].get("nodeName") in names]
        assert pods_to_reschedule
        with budget_history(cluster, namespace) as history:
            cluster.kubectl("delete", *command)
            eventually(
                lambda: (
                    untouched_by(cluster, uids(old_nodes) | uids(old_claims)) and calm(cluster, namespace, REPLICAS)
                ),
                "everything that was deleted is gone, and every pod runs elsewhere",
                within=120,
            )
        assert kept(history), history
        assert not uids(pods_to_reschedule) & uids(pods(cluster, namespace))
        instances = {claim["status"]["providerID"] for claim in claims(cluster)}
        assert instances == {node["spec"]["providerID"] for node in nodes(cluster)}
        if way == "a nodepool":
            assert {node["metadata"]["labels"]["karpenter.sh/nodepool"] for node in nodes(cluster)} == {"spare"}


def test_dovetail_drain_looks_without_touching_asks_and_follows(prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        stage(cluster, namespace, pool(), deployment(4), budget(maxUnavailable=1), replicas=4)
        target, before = name(nodes(cluster)), uids(nodes(cluster))
        seen = dovetail(cluster, "drain", target, "--dry-run", "-o", "json")
        assert seen.returncode == 0, seen.stderr
        document = json.loads(seen.stdout)
        assert {each["state"] for each in document["pods"]} <= {"evicted next", "blocked"}
        assert all(home["node"] or home["nodepool"] for home in document["homes"])
        assert document["homes"]
        assert uids(nodes(cluster)) == before
        assert not any("deletionTimestamp" in node["metadata"] for node in nodes(cluster))

        unasked = dovetail(cluster, "drain", target)
        assert unasked.returncode == 2
        assert "add --yes" in unasked.stderr

        done = dovetail(cluster, "drain", target, "--yes", "--timeout", "2m", "-o", "json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["gone"] is True
        assert re.search(r"\d pods? left", done.stderr)
        assert target not in {node["metadata"]["name"] for node in nodes(cluster)}
        eventually(lambda: calm(cluster, namespace, 4), "every pod runs elsewhere", within=60)


def test_a_stuck_drain_is_told_as_stuck_and_the_time_limit_ends_the_following_only(prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        stage(cluster, namespace, pool(), deployment(1), budget(maxUnavailable=0), replicas=1)
        target = name(nodes(cluster))
        assert dovetail(cluster, "drain", target, "--dry-run").returncode == 1
        ended = dovetail(cluster, "drain", target, "--yes", "--timeout", "8s", "-o", "json")
        assert ended.returncode == 1
        said = json.loads(ended.stdout)
        assert (said["gone"], said["draining"]["verdict"]) == (False, "stuck")
        assert f"{namespace}/web" in said["draining"]["pods"][0]["why"]
        told = dovetail(cluster, "explain", "node", target)
        assert "stuck, it cannot finish without a manual change" in told.stdout
        events = cluster.kubectl("get", "events", "-A", "--field-selector=reason=FailedDraining")
        assert "violates a PDB" in events
        assert "permanent" in events
        assert len(pods(cluster, namespace)) == 1
        cluster.kubectl("delete", "pdb", "web", "-n", namespace)
        eventually(lambda: target not in {node["metadata"]["name"] for node in nodes(cluster)}, "it goes", within=60)
        eventually(lambda: calm(cluster, namespace, 1), "its pod runs elsewhere", within=60)
