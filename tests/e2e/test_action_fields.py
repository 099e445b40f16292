"""Budgets by action and controls by action: as fields on our CRDs, and as annotations on Karpenter's."""

import json

import pytest

from e2e.controlplane.api import eventually
from e2e.running import NODE_CLASS, apply, controller, deployment, nodes, running, settled, spelled
from e2e.test_reasons import ask, pool


def why_it_stays(cluster):
    """The code of what prevents the removal of the only node, which is empty; None while it is not planned at all."""
    left = json.loads(ask(cluster, "plan", "-o", "json"))["leftAlone"]
    return left[0]["why"]["emptiness"]["code"] if left else None


@pytest.mark.parametrize(
    ("disruption", "code"),
    [
        ({"budgets": [{"nodes": "100%"}, {"nodes": "0", "action": "Emptiness"}]}, "Budget"),
        ({"actionControls": {"Emptiness": {"disruptAfter": "Never"}}}, "Never"),
    ],
)
def test_an_empty_node_stays_as_long_as_the_action_is_not_allowed(prepared, crd_owner, namespace, disruption, code):
    cluster = prepared
    with controller(cluster, DOVETAIL_DISRUPTION="on"):
        for manifest in (NODE_CLASS, spelled(pool(**disruption), crd_owner)):
            apply(cluster, manifest)
        apply(cluster, deployment(1), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 1 and settled(cluster), "the pod runs", within=60)
        cluster.kubectl("scale", "deployment", "web", "-n", namespace, "--replicas=0")
        eventually(lambda: not running(cluster, namespace), "the pod is gone", within=60)
        eventually(lambda: why_it_stays(cluster) == code, f"plan says {code}", within=60, every=2)
        assert len(nodes(cluster)) == 1
        apply(cluster, spelled(pool(), crd_owner))
        eventually(lambda: not nodes(cluster), "once it is allowed, the node goes", within=120)
