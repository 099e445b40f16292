"""Drains that hold up the very pods they wait for."""

import asyncio

from dovetail.sim.kinds import NODE_CLAIM
from stories import ACTING, FREELY, ON_DEMAND, budget, clean, deployment, live, node_class, node_pool

HOSTNAME = "kubernetes.io/hostname"


def selector(app):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}


def apart(replicas):
    """Pods of which no node takes two: so many nodes there are."""
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector("apart")]}}
    return deployment("apart", replicas=replicas, cpu="100m", memory="100Mi", affinity=far)


def spread():
    """Four pods, spread over the nodes there are, of which one at a time may be missing."""
    rule = {**selector("web"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return deployment(replicas=4, topologySpreadConstraints=[rule]), budget(maxUnavailable=1)


def eights(**disruption):
    """Nodes that hold everything there is in these stories, and of one size: nothing can be replaced by less."""
    size = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["8"]}
    return node_pool(template={"requirements": [*ON_DEMAND, size]}, disruption=disruption)


def spare(life):
    """The claim of a node that could be done without."""
    used = {pod.spec.node_name for pod in life.pods if pod.metadata.labels["app"] == "apart"}
    return next(claim for claim in life.claims if claim.status.node_name not in used)


def test_a_pod_that_waits_for_the_node_that_waits_for_it_gets_a_node():
    """One pod is left on a deleted node and must not go before the evicted one runs again, which may not run on the
    other node before the deleted one is gone.
    """

    async def story(life):
        await life.until(lambda: life.running(6) and life.settled())
        life.world.apply(apart(1))
        await life.until(lambda: life.running(5))
        first = spare(life)
        life.world.api.delete(NODE_CLAIM, first.key)
        await life.until(lambda: first.name not in [claim.name for claim in life.claims], within=600)
        await life.until(lambda: life.running(5) and life.settled(), within=120)
        return len(life.nodes)

    unmoved = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    assert live(story, node_class(), eights(**unmoved), apart(2), *spread()) == 2


def test_consolidation_does_not_begin_a_drain_that_would_not_end():
    """Everything would fit on one node. Getting there would take another node each time, which would go next."""

    async def story(life):
        await life.until(lambda: life.running(6) and life.settled())
        before = {claim.name for claim in life.claims}
        life.world.apply(apart(1))
        await life.until(lambda: life.running(5))
        kept = spare(life)
        await asyncio.sleep(3600)
        assert {claim.name for claim in life.claims} == before
        assert life.running(5)
        assert life.settled()
        assert clean(life)
        life.world.apply(budget(maxUnavailable=2))
        await life.until(lambda: len(life.nodes) == 1 and life.running(5) and life.settled(), within=600)
        return kept.name not in [claim.name for claim in life.claims]

    assert live(story, node_class(), eights(**FREELY), apart(2), *spread(), settings=ACTING)
