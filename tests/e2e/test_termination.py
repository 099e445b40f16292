"""Nodes that leave slowly on a real cluster, with the waits of the stories cut down to seconds."""

import json
import time
from datetime import datetime, timedelta

import pytest

from e2e.controlplane.api import PATIENCE, eventually
from e2e.leaving import budget, calm, deployment, pool, stage, uids, untouched_by
from e2e.running import claims, condition, controller, nodes, pods

TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"


def only(things):
    (one,) = things
    return one


def instant(text):
    return datetime.fromisoformat(text)


def claim_named(cluster, name):
    return next((each for each in claims(cluster) if each["metadata"]["name"] == name), None)


def gone(cluster, node):
    return node not in {each["metadata"]["name"] for each in nodes(cluster)}


def events(cluster, reason):
    return cluster.api.items(f"/api/v1/events?fieldSelector=reason={reason}")


def draining(cluster, claim):
    found = claim_named(cluster, claim)
    return found is not None and condition({"status": {}, **found}, "Drained") == "Unknown"


def stopping(cluster, namespace, uid):
    """The metadata of a pod, once it was told to stop."""
    found = (pod["metadata"] for pod in pods(cluster, namespace) if pod["metadata"]["uid"] == uid)
    return next((metadata for metadata in found if "deletionTimestamp" in metadata), None)


def test_a_pod_that_stops_slowly_is_waited_for(prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        slow = deployment(1, {"pod-delete.stage.kwok.x-k8s.io/delay": "12s"}, terminationGracePeriodSeconds=20)
        stage(cluster, namespace, pool(), slow, replicas=1)
        node, claim = only(nodes(cluster))["metadata"]["name"], only(claims(cluster))["metadata"]["name"]
        uid = only(pods(cluster, namespace))["metadata"]["uid"]
        cluster.kubectl("delete", "node", node, "--wait=false")
        eventually(
            lambda: any("deletionTimestamp" in pod["metadata"] for pod in pods(cluster, namespace)),
            "it is told to stop",
        )
        eventually(lambda: condition(claim_named(cluster, claim), "Drained") == "Unknown", "the drain is under way")
        eventually(
            lambda: uid not in [pod["metadata"]["uid"] for pod in pods(cluster, namespace)], "it ends", within=25
        )
        eventually(lambda: gone(cluster, node), "then the node goes", within=15)
        eventually(lambda: calm(cluster, namespace, 1), "the pod runs elsewhere", within=60)


def test_the_grace_period_of_a_claim_ends_what_a_budget_would_hold(prepared, namespace):
    """25 s from the deletion on, of which the pod keeps its 10: deleted by force, with events that say so."""
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        bounded = pool(template={"terminationGracePeriod": "25s"})
        held = deployment(1, {"karpenter.sh/do-not-disrupt": "true"}, terminationGracePeriodSeconds=10)
        stage(cluster, namespace, bounded, held, budget(maxUnavailable=0), replicas=1)
        node, claim = only(nodes(cluster))["metadata"]["name"], only(claims(cluster))["metadata"]["name"]
        uid = only(pods(cluster, namespace))["metadata"]["uid"]
        cluster.kubectl("delete", "nodeclaim", claim, "--wait=false")
        written = eventually(
            lambda: claim_named(cluster, claim)["metadata"].get("annotations", {}).get(TIMESTAMP), "the deadline stands"
        )
        deleted_at = instant(claim_named(cluster, claim)["metadata"]["deletionTimestamp"])
        assert instant(written) == deleted_at + timedelta(seconds=25)
        forced = eventually(
            lambda: stopping(cluster, namespace, uid),
            "the pod is deleted by force",
            within=25,
            every=0.01,
        )
        assert forced["deletionGracePeriodSeconds"] == 10
        assert instant(forced["deletionTimestamp"]) <= instant(written)
        eventually(lambda: gone(cluster, node), "the node goes", within=20)
        told = eventually(lambda: events(cluster, "Disrupted"), "the pod is told")
        assert "bypasses the PDB" in told[0]["message"]
        assert eventually(lambda: events(cluster, "TerminationGracePeriodExpiring"), "the deadline is told")


def test_a_protected_pod_is_evicted_when_its_time_is_over(prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        stage(cluster, namespace, pool(), deployment(1, {"karpenter.sh/do-not-disrupt": "25s"}), replicas=1)
        node, pod = only(nodes(cluster))["metadata"]["name"], only(pods(cluster, namespace))["metadata"]
        until = instant(pod["creationTimestamp"]) + timedelta(seconds=25)
        cluster.kubectl("delete", "nodeclaim", only(claims(cluster))["metadata"]["name"], "--wait=false")
        told = eventually(
            lambda: stopping(cluster, namespace, pod["uid"]),
            "it is evicted",
            within=40,
            every=0.02,
        )
        asked_at = instant(told["deletionTimestamp"]) - timedelta(seconds=told["deletionGracePeriodSeconds"])
        assert timedelta() <= asked_at - until <= timedelta(seconds=2 * PATIENCE)
        eventually(lambda: gone(cluster, node), "the node goes", within=20)


def test_deleting_a_node_by_hand_evicts_a_protected_pod_and_deleting_its_claim_waits(prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        stage(cluster, namespace, pool(), deployment(1, {"karpenter.sh/do-not-disrupt": "true"}), replicas=1)
        node, claim = only(nodes(cluster))["metadata"]["name"], only(claims(cluster))["metadata"]["name"]
        cluster.kubectl("delete", "node", node, "--wait=false")
        eventually(lambda: gone(cluster, node), "the node goes", within=40)
        eventually(lambda: calm(cluster, namespace, 1), "the pod runs elsewhere", within=60)
        node, claim = only(nodes(cluster))["metadata"]["name"], only(claims(cluster))["metadata"]["name"]
        cluster.kubectl("delete", "nodeclaim", claim, "--wait=false")
        eventually(lambda: events(cluster, "FailedDraining"), "the drain waits for the protected pod", within=40)
        assert not gone(cluster, node)
        cluster.kubectl("annotate", "pod", "-n", namespace, "--all", "karpenter.sh/do-not-disrupt-")
        eventually(lambda: gone(cluster, node), "then the node goes", within=40)


def test_a_volume_that_is_still_attached_holds_the_node(prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        stage(cluster, namespace, pool(), deployment(1), replicas=1)
        node, claim = only(nodes(cluster))["metadata"]["name"], only(claims(cluster))["metadata"]["name"]
        attachments = "/apis/storage.k8s.io/v1/volumeattachments"
        spec = {"attacher": "disk.example.com", "nodeName": node, "source": {"persistentVolumeName": "disk"}}
        cluster.api.post(attachments, {"metadata": {"name": "late"}, "spec": spec}).expect()
        cluster.kubectl("delete", "node", node, "--wait=false")
        eventually(
            lambda: condition(claim_named(cluster, claim), "VolumesDetached") == "Unknown",
            "it is waited for",
            within=30,
        )
        assert condition(claim_named(cluster, claim), "Drained") == "True"
        told = eventually(lambda: events(cluster, "AwaitingVolumeDetachment"), "it is told")
        assert "(late)" in told[0]["message"]
        assert not gone(cluster, node)
        cluster.api.delete(f"{attachments}/late").expect()
        eventually(lambda: gone(cluster, node), "the node goes", within=20)
        eventually(lambda: calm(cluster, namespace, 1), "the pod runs elsewhere", within=60)


def silence(cluster, node):
    """The kubelet was not heard of for too long, as the node lifecycle controller would say it a day from now."""
    conditions = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    patch = json.dumps({"status": {"conditions": conditions}})
    cluster.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", patch)


HELD = {
    "by a budget that never opens": (deployment(2), budget(maxUnavailable=0)),
    "by pods that do not stop": (
        deployment(2, {"pod-delete.stage.kwok.x-k8s.io/delay": "24h"}, terminationGracePeriodSeconds=3600),
    ),
}


@pytest.mark.parametrize("workload", HELD.values(), ids=HELD.keys())
def test_an_instance_that_is_lost_ends_the_drain_the_instant_its_node_falls_silent(prepared, namespace, workload):
    """Until then the node says Ready and is drained as any other; afterwards nothing is waited for."""
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        stage(cluster, namespace, pool(), *workload, replicas=2)
        node, claim = only(nodes(cluster))["metadata"], only(claims(cluster))["metadata"]
        old = uids(pods(cluster, namespace))
        cluster.kubectl("delete", "node", node["name"], "--wait=false")
        eventually(lambda: draining(cluster, claim["name"]), "the drain is under way", within=60)
        cluster.kubectl("label", "node", node["name"], "dovetail.sh/instance=lost")
        time.sleep(3)  # the provider's word alone ends nothing
        assert not gone(cluster, node["name"])
        assert old <= uids(pods(cluster, namespace))
        silence(cluster, node["name"])
        eventually(lambda: untouched_by(cluster, {node["uid"], claim["uid"]}), "node and claim go at once", within=25)
        eventually(lambda: not old & uids(pods(cluster, namespace)), "the cluster collects its pods", within=180)
        eventually(lambda: calm(cluster, namespace, 2), "they run elsewhere", within=120)
        assert events(cluster, "Disrupted") == []


def test_an_expired_claim_is_deleted_when_it_is_due(prepared, namespace):
    cluster = prepared
    with controller(cluster, DOVETAIL_CATALOG="generic"):
        stage(cluster, namespace, pool(template={"expireAfter": "20s"}), deployment(1), replicas=1)
        claim = only(claims(cluster))["metadata"]
        going = eventually(
            lambda: (claim_named(cluster, claim["name"]) or {}).get("metadata", {}).get("deletionTimestamp"),
            "it is deleted",
            within=30,
            every=0.02,
        )
        age = instant(going) - instant(claim["creationTimestamp"])
        assert timedelta(seconds=20) <= age <= timedelta(seconds=20 + 2 * PATIENCE)
