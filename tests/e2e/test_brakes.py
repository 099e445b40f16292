"""What must not cost money without end, on a real cluster and in real time. Minutes: the limits are what they are."""

import json
import os
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from e2e.controlplane.api import eventually
from e2e.running import NODE_CLASS, NODE_POOL, apply, claims, controller, deployment, nodes, running, settled

LAUNCH_TIMEOUT = 300.0
MINUTES = float(os.environ.get("DOVETAIL_E2E_MINUTES", "0.5"))
"""How long a replacement that never initializes is watched; a command waits ten minutes for it, so 12 tell more."""
NO_NODES = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "no-nodes"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]}
            ]
        },
        "validations": [{"expression": "false", "message": "no nodes today"}],
    },
}
BOUND = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "no-nodes"},
    "spec": {"policyName": "no-nodes", "validationActions": ["Deny"]},
}


@contextmanager
def nodes_refused(cluster):
    """An admission policy refuses every Node."""
    for manifest in (NO_NODES, BOUND):
        apply(cluster, manifest)
    try:
        eventually(lambda: _is_refused(cluster), "the policy is in force", within=60)
        yield
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            cluster.kubectl("delete", kind, "no-nodes")


def _is_refused(cluster):
    probe = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "probe"}}
    answer = cluster.api.post("/api/v1/nodes?dryRun=All", probe)
    return answer.status == 422 or "no nodes today" in str(answer.body)


def _age(claim):
    created = datetime.fromisoformat(claim["metadata"]["creationTimestamp"])
    return (datetime.now(UTC) - created).total_seconds()


def _message(claim):
    conditions = claim.get("status", {}).get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "Launched"), "")


@pytest.mark.once("five minutes of waiting for a timeout that has nothing to do with CRDs")
def test_a_claim_whose_node_is_refused_is_given_up_after_five_minutes(prepared, namespace):
    cluster = prepared
    with controller(cluster):
        with nodes_refused(cluster):
            for manifest in (NODE_CLASS, NODE_POOL):
                apply(cluster, manifest)
            apply(cluster, deployment(1), namespace)
            [first] = eventually(lambda: claims(cluster), "a claim is made", within=30)
            name = first["metadata"]["name"]
            eventually(lambda: "no nodes today" in _message(claims(cluster)[0]), "the claim says why", within=30)
            most, last = 0, 0.0
            while name in (names := [claim["metadata"]["name"] for claim in claims(cluster)]):
                most, last = max(most, len(names)), _age(first)
                assert last < LAUNCH_TIMEOUT + 30, "the claim is still there"
                time.sleep(1)
            assert most == 1
            assert LAUNCH_TIMEOUT - 5 <= last <= LAUNCH_TIMEOUT + 20
        eventually(lambda: len(running(cluster, namespace)) == 1 and settled(cluster), "the pod runs", within=400)


def test_a_replacement_that_never_initializes_is_the_only_extra_node(prepared, namespace):
    cluster = prepared
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
    pool = {**NODE_POOL, "spec": {**NODE_POOL["spec"], "disruption": disruption}}
    with controller(cluster, DOVETAIL_DISRUPTION="on"):
        for manifest in (NODE_CLASS, pool):
            apply(cluster, manifest)
        apply(cluster, deployment(3), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 3 and settled(cluster), "pods run", within=90)
        before = len(claims(cluster))
        never_removed = [{"key": "example.com/agent-not-ready", "effect": "NoSchedule"}]
        patch = {"spec": {"template": {"spec": {"startupTaints": never_removed}}}}
        cluster.kubectl("patch", "nodepool", "default", "--type=merge", "-p", json.dumps(patch))
        eventually(lambda: len(nodes(cluster)) == before + 1, "a replacement is launched", within=60)
        until = time.monotonic() + 60 * MINUTES
        while time.monotonic() < until:
            assert len(claims(cluster)) == before + 1, "one more was launched, or the replacement is gone"
            assert len(running(cluster, namespace)) == 3
            time.sleep(2)
