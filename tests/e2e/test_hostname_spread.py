"""Hostname spread on an empty cluster, with the real scheduler: as many nodes as maxSkew asks for."""

import time
from collections import Counter

import pytest

from e2e.controlplane.api import eventually
from e2e.running import NODE_CLASS, NODE_POOL, apply, claims, controller, deployment, pods, running, settled

pytestmark = pytest.mark.once("where pods fit is decided by the solver")

QUIET = 20.0
REPLICAS = 6


def spread(skew):
    rule = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    made = deployment(REPLICAS, "100m")
    made["spec"]["template"]["spec"]["topologySpreadConstraints"] = [rule]
    return made


def pool():
    """Consolidation acts at once, so that nodes which were launched in vain would go, and their pods would move."""
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "minSavings": "0%"}
    return {**NODE_POOL, "spec": {**NODE_POOL["spec"], "disruption": {**disruption, "budgets": [{"nodes": "100%"}]}}}


@pytest.mark.parametrize(("skew", "nodes"), [(1, 6), (3, 2)])
def test_six_replicas_get_as_many_nodes_as_the_skew_asks_for(prepared, namespace, skew, nodes):
    cluster = prepared
    seen = set()

    def look():
        seen.update(claim["metadata"]["name"] for claim in claims(cluster))
        return len(running(cluster, namespace)) == REPLICAS and settled(cluster)

    with controller(cluster, DOVETAIL_DISRUPTION="on"):
        for manifest in (NODE_CLASS, pool()):
            apply(cluster, manifest)
        apply(cluster, spread(skew), namespace)
        eventually(look, "six pods run", within=90)
        until = time.monotonic() + QUIET
        while time.monotonic() < until:
            look()
            time.sleep(1)
        assert look()
        assert len(seen) == nodes, "no node in vain, and none replaced"
        on = Counter(pod["spec"]["nodeName"] for pod in pods(cluster, namespace))
        assert sorted(on.values()) == [skew] * nodes
