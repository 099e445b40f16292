"""Karpenter itself runs on our CRDs, on NodePools that use fields which only ours have.

It lists, watches and writes them as on its own CRDs, and what it does not know stays as it is.
"""

import pytest

from e2e.components import build
from e2e.conftest import require_binaries
from e2e.controlplane.api import eventually
from e2e.leaving import pool
from e2e.peer import karpenter
from e2e.running import NODE_CLASS, apply, claims, condition, deployment, install_crds, nodepool, running, settled

POOLS = "/apis/karpenter.sh/v1/nodepools"
OURS = {
    "repair": {"defaultTolerationDuration": "30m"},
    "disruption": {
        "consolidateAfter": "0s",
        "consolidationGracePeriod": "1s",
        "expireAfter": "336h",
        "budgets": [{"nodes": "100%", "action": "Consolidation"}, {"nodes": "1", "reasons": ["Expired"]}],
        "actionControls": {"Drift": {"disruptAfter": "1h", "budgets": [{"nodes": "1"}]}},
    },
}
OLD = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodePool",
    "metadata": {"name": "old"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "apiVersion": "karpenter.kwok.sh/v1alpha1",
                    "kind": "KWOKNodeClass",
                    "name": "default",
                },
                "kubelet": {"maxPods": 20},
            }
        },
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "5"}]},
    },
}


@pytest.fixture
def cluster_with_our_fields(cluster):
    """A cluster with our CRDs, a NodePool with our fields, and one written as v1beta1."""
    require_binaries(build.KARPENTER)
    install_crds(cluster)
    for each in (NODE_CLASS, pool(**OURS), OLD):
        apply(cluster, each)
    return cluster


def test_karpenter_scales_out_and_in_and_leaves_our_fields_alone(cluster_with_our_fields, namespace):
    cluster = cluster_with_our_fields
    before = {each["metadata"]["name"]: each["spec"] for each in cluster.api.items(POOLS)}
    with karpenter(cluster):
        apply(cluster, deployment(4), namespace)
        eventually(lambda: len(running(cluster, namespace)) == 4 and settled(cluster), "the pods run", within=120)
        assert {claim["metadata"]["labels"]["karpenter.sh/nodepool"] for claim in claims(cluster)} == {"default"}
        assert condition(nodepool(cluster), "Ready") == "True"
        apply(cluster, deployment(0), namespace)
        eventually(lambda: not claims(cluster), "empty nodes are removed", within=180)
    assert {each["metadata"]["name"]: each["spec"] for each in cluster.api.items(POOLS)} == before
