"""Drains that hold up the very pods they wait for."""

import asyncio
from collections import Counter

import pytest

from dovetail.model.labels import ZONE
from dovetail.sim.kubernetes.kinds import NODE_CLAIM
from stories import ACTING, FREELY, ON_DEMAND, budget, clean, deployment, live, node_class, node_pool

HOSTNAME = "kubernetes.io/hostname"


def selector(app):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}


def spread(**fields):
    """Four pods, at most one a node, of which one at a time may be missing."""
    rule = {**selector("web"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **fields}
    return deployment(replicas=4, topologySpreadConstraints=[rule]), budget(maxUnavailable=1)


def eights(name="default", zones=("a", "b", "c"), **disruption):
    """Nodes of one size: nothing can be replaced by less."""
    size = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["8"]}
    there = {"key": ZONE, "operator": "In", "values": [f"test-zone-{each}" for each in zones]}
    return node_pool(name, template={"requirements": [*ON_DEMAND, size, there]}, disruption=disruption)


def bare(name, zone, cpu, app="web"):
    """A pod that nothing makes again."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
    spec = {"containers": [container], "nodeSelector": {ZONE: f"test-zone-{zone}"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def pods_to_reschedule():
    """Two pods of the web application, spread over zones, of which one at a time may be missing."""
    rule = {**selector("web"), "topologyKey": ZONE, "maxSkew": 3, "whenUnsatisfiable": "DoNotSchedule"}
    pods = deployment("web", replicas=2, topologySpreadConstraints=[rule])
    pods["spec"]["template"]["metadata"]["labels"]["moves"] = "yes"
    guard = budget(maxUnavailable=1)
    guard["spec"]["selector"] = {"matchLabels": {"moves": "yes"}}
    return pods, guard


def test_a_pod_that_waits_for_the_node_that_waits_for_it_gets_a_node():
    """The node of two pods is deleted in a zone where none is sold any more. Four pods are in the zone with room, three
    in another that is full. While the old zone counts, the evicted pod may only run in the full one; the second pod
    stays until the first runs.
    """

    async def story(life):
        standing = [bare(f"a{n}", "a", "1") for n in range(4)] + [bare(f"b{n}", "b", "2500m") for n in range(3)]
        for each in (eights("side", ("c",)), bare("other", "c", "1", app="other"), *standing):
            life.world.apply(each)
        await life.until(lambda: life.running(8) and life.settled())
        for each in pods_to_reschedule():
            life.world.apply(each)
        await life.until(lambda: life.running(10) and life.settled())
        first = next(claim for claim in life.claims if claim.nodepool_name == "side")
        life.world.apply(eights("side", ("a",)))
        life.world.api.delete(NODE_CLAIM, first.key)
        await asyncio.sleep(90)
        assert len(life.claims) == 3, "nothing is bought before patience is over"
        await life.until(lambda: first.name not in [claim.name for claim in life.claims], within=600)
        await life.until(lambda: life.running(9) and life.settled(), within=120)
        return len(life.nodes)

    assert live(story, node_class(), eights(zones=("a", "b"))) == 3


def webs(life):
    """How many pods of the web application each node has, most first."""
    counts = Counter(pod.spec.node_name for pod in life.pods if pod.metadata.labels["app"] == "web")
    return sorted(counts.values(), reverse=True)


def test_a_drain_of_pods_spread_over_hosts_ends_soon_although_a_budget_lets_go_of_one_at_a_time():
    async def story(life):
        await life.until(lambda: life.running(4) and life.settled())
        assert webs(life) == [1, 1, 1, 1]
        first = life.claims[0]
        life.world.api.delete(NODE_CLAIM, first.key)
        await life.until(lambda: first.name not in [claim.name for claim in life.claims], within=120)
        await life.until(lambda: life.running(4) and life.settled(), within=120)
        return webs(life), len(life.nodes)

    unmoved = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    assert live(story, node_class(), eights(**unmoved), *spread()) == ([1, 1, 1, 1], 4)


@pytest.mark.parametrize(("skew", "nodes"), [(1, 4), (2, 2), (3, 2), (4, 1)])
def test_consolidation_leaves_pods_that_are_spread_over_hosts_where_they_are(skew, nodes):
    """Everything would fit on one node, and the scheduler would put it there. For an hour nothing moves."""

    async def story(life):
        await life.until(lambda: life.running(4) and life.settled())
        before = {claim.name for claim in life.claims}
        await asyncio.sleep(3600)
        assert {claim.name for claim in life.claims} == before
        assert life.running(4)
        assert clean(life)
        return len(life.nodes)

    manifests = eights(**FREELY), *spread(maxSkew=skew)
    assert live(story, node_class(), *manifests, settings=ACTING) == nodes
