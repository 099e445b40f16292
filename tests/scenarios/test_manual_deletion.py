"""Deleting a node by hand: what that means for protected pods, and for a node whose NodeClaim is gone."""

import asyncio
from dataclasses import replace

import pytest

from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL
from dovetail.sim.kubernetes.kinds import NODE_CLAIM as CLAIM_RESOURCE
from stories import GENERIC, budget, deployment, live, node_class, node_pool

PROTECTED = {"karpenter.sh/do-not-disrupt": "true"}


def protected(replicas=2):
    manifest = deployment(replicas=replicas)
    manifest["spec"]["template"]["metadata"]["annotations"] = PROTECTED
    return manifest


def pool(**template):
    return node_pool(template=template, disruption={"consolidateAfter": "Never"})


def on(kind, life):
    return {NODE: life.nodes, NODE_CLAIM: life.claims, NODE_POOL: [life.pool()]}[kind][0]


@pytest.mark.parametrize(
    ("rule", "kind", "evicted"),
    [
        ("by-kind", NODE, True),
        ("by-kind", NODE_CLAIM, False),
        ("by-kind", NODE_POOL, False),
        ("evict", NODE, True),
        ("evict", NODE_CLAIM, True),
        ("evict", NODE_POOL, True),
        ("wait", NODE, False),
        ("wait", NODE_CLAIM, False),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
def test_protected_pods_are_evicted_or_waited_for(rule, kind, evicted, restart):
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        (node,) = life.nodes
        await life.world.delete(kind, on(kind, life).key)
        if restart:
            await asyncio.sleep(1)
            await life.restart()
        await asyncio.sleep(600)
        assert (node.name not in [each.name for each in life.nodes]) == evicted

    live(story, node_class(), pool(), protected(), settings=replace(GENERIC, manual_deletion=rule))


def test_a_pdb_holds_a_protected_pod_of_a_node_deleted_by_hand():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        (node,) = life.nodes
        life.world.apply(budget(maxUnavailable=0))
        await asyncio.sleep(5)
        await life.world.delete(NODE, node.key)
        await asyncio.sleep(1800)
        assert node.name in [each.name for each in life.nodes]
        assert life.running(2)

    live(story, node_class(), pool(), protected())


def test_with_a_termination_grace_period_protected_pods_are_waited_for_until_the_deadline():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        (node,) = life.nodes
        await life.world.delete(NODE, node.key)
        await asyncio.sleep(1700)
        assert node.name in [each.name for each in life.nodes]
        await life.until(lambda: node.name not in [each.name for each in life.nodes], within=200)

    live(story, node_class(), pool(terminationGracePeriod="30m"), protected())


def test_a_claim_that_expires_waits_for_protected_pods_whatever_manual_deletion_says():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        (node,) = life.nodes
        await asyncio.sleep(7200)
        assert node.name in [each.name for each in life.nodes]

    settings = replace(GENERIC, manual_deletion="evict")
    live(story, node_class(), pool(expireAfter="1h"), protected(), settings=settings)


def test_a_node_whose_claim_is_gone_while_its_drain_waits_loses_its_finalizer():
    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        (node,), (claim,) = life.nodes, life.claims
        life.world.apply(budget(maxUnavailable=0))
        await asyncio.sleep(5)
        await life.world.delete(NODE, node.key)
        await asyncio.sleep(300)
        assert node.name in [each.name for each in life.nodes], "the PDB holds the drain"
        record = life.world.store.find(CLAIM_RESOURCE, claim.key)
        life.world.api.update(record, {**record.plain, "metadata": {**record.meta, "finalizers": []}})
        await life.until(lambda: node.name not in [each.name for each in life.nodes], within=60)

    live(story, node_class(), pool(), deployment(replicas=2))
