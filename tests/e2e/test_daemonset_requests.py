"""DaemonSets whose requests the real API server fills in: nodes are launched large enough for them."""

import time

import pytest

from e2e.controlplane.api import eventually
from e2e.running import NODE_CLASS, apply, claims, controller, deployment, pods, running, settled

pytestmark = pytest.mark.once("where pods fit is decided by the solver")

QUIET = 20.0
"""Seconds in which a loop of launches would show: pods that wait are looked at every ten."""
SIZES = [
    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
]
NODE_POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": SIZES,
                "expireAfter": "Never",
            }
        },
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        "limits": {"nodes": "40"},
    },
}


def daemon_set(resources):
    container = {"name": "agent", "image": "agent", "resources": resources}
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }


def limit_range(**item):
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults"},
        "spec": {"limits": [{"type": "Container", **item}]},
    }


@pytest.fixture
def agents(prepared, namespace):
    """A namespace for the DaemonSet, so that a LimitRange there leaves the other pods alone."""
    return prepared.create_namespace(f"{namespace}-agents")


def claims_for_three_pods(cluster, namespace, agents, *manifests):
    """Names of all NodeClaims there were until three pods of one and a half CPU run and nothing more happens."""
    seen = set()

    def look():
        seen.update(claim["metadata"]["name"] for claim in claims(cluster))
        return len(running(cluster, namespace)) == 3 and settled(cluster)

    with controller(cluster, DOVETAIL_CATALOG="generic"):
        for manifest in (NODE_CLASS, NODE_POOL):
            apply(cluster, manifest)
        for manifest in manifests:
            apply(cluster, manifest, agents)
        apply(cluster, deployment(3, "1500m"), namespace)
        eventually(look, "three pods run", within=90)
        until = time.monotonic() + QUIET
        while time.monotonic() < until:
            assert look()
            time.sleep(1)
    return seen


def test_limits_of_a_daemon_set_are_its_requests(prepared, namespace, agents):
    limited = daemon_set({"limits": {"cpu": "1", "memory": "100Mi"}})
    seen = claims_for_three_pods(prepared, namespace, agents, limited)
    made = pods(prepared, agents)
    assert {pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in made} == {"1"}
    assert len(seen) == len(running(prepared, agents)), "an agent on every node, and no node in vain"
    assert len(seen) <= 3


@pytest.mark.parametrize("field", ["defaultRequest", "default"])
def test_requests_from_a_limit_range_cost_no_more_than_the_first_round(prepared, namespace, agents, field):
    """What a LimitRange adds shows in the first pods of the DaemonSet, so the first nodes may be too small."""
    limits = limit_range(**{field: {"cpu": "1"}})
    seen = claims_for_three_pods(prepared, namespace, agents, limits, daemon_set({}))
    assert len(seen) <= 6
