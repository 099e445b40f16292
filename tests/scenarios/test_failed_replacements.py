"""A replacement that never initializes: the node it was bought for stays, and no other one is bought beside it."""

import asyncio

import pytest

from dovetail.model.kinds import NODE, NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import resource_of
from stories import ACTING, FREELY, clean, deployment, live, node_class, node_pool, pool

HALF_AN_HOUR = 1800
NEVER_REMOVED = {"key": "example.com/agent-not-ready", "effect": "NoSchedule"}


def _drift(life, **template):
    spec = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}, "spec": template}}}
    life.world.api.patch(resource_of(NODE_POOL), Key("", "default"), Patch(spec))


async def _most_claims(life, seconds, restart_every=None):
    most = 0
    for second in range(seconds):
        await asyncio.sleep(1)
        most = max(most, len(life.claims))
        if restart_every and second % restart_every == restart_every - 1:
            await life.restart()
    return most


@pytest.mark.parametrize("restart_every", [None, 47, 400], ids=str)
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_replacement_that_never_initializes_is_not_bought_again_beside_it(replicas, restart_every):
    async def story(life):
        await life.until(lambda: life.running(replicas) and life.settled())
        before = len(life.claims)
        _drift(life, startupTaints=[NEVER_REMOVED])
        most = await _most_claims(life, HALF_AN_HOUR, restart_every)
        assert life.running(replicas)
        return most - before

    assert live(story, node_class(), pool(), deployment(replicas=replicas), settings=ACTING) == 1


def test_nor_where_the_replacement_could_not_take_the_pods_anyway():
    """Somebody cordons the replacement: the simulation finds no room on it, and still no other one is bought."""

    async def story(life):
        await life.until(lambda: life.running(2) and life.settled())
        before, old = len(life.claims), {node.name for node in life.nodes}
        _drift(life, startupTaints=[NEVER_REMOVED])
        await life.until(lambda: {node.name for node in life.nodes} - old)
        (new,) = {node.name for node in life.nodes} - old
        life.world.api.patch(resource_of(NODE), Key("", new), Patch({"spec": {"unschedulable": True}}))
        return await _most_claims(life, HALF_AN_HOUR) - before

    assert live(story, node_class(), pool(), deployment(replicas=2), settings=ACTING) == 1


def test_the_refusal_names_the_node_that_is_waited_for():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        _drift(life, startupTaints=[NEVER_REMOVED])
        await life.until(lambda: len(life.nodes) == 2)
        old, new = sorted(life.nodes, key=lambda node: node.metadata.creation_timestamp)
        await asyncio.sleep(900)
        said = [event.message for event in life.events("DisruptionBlocked") if event.involved_object.name == old.name]
        return new.name, said

    new, said = live(story, node_class(), pool(), deployment(replicas=1), settings=ACTING)
    assert any(new in message and "not initialized" in message for message in said)


def test_a_late_replacement_is_used_once_it_initializes():
    async def story(life):
        await life.until(lambda: life.running(1) and life.settled())
        (old,) = [node.name for node in life.nodes]
        _drift(life, startupTaints=[NEVER_REMOVED])
        await asyncio.sleep(1200)  # the command has been rolled back long ago
        (new,) = [node.name for node in life.nodes if node.name != old]
        life.world.api.patch(resource_of(NODE), Key("", new), Patch({"spec": {"taints": []}}))
        await life.until(lambda: {node.name for node in life.nodes} == {new} and life.running(1) and clean(life))

    live(story, node_class(), pool(), deployment(replicas=1), settings=ACTING)


def test_consolidation_does_not_buy_beside_a_replacement_that_never_initializes():
    """A large node with little on it: a cheaper one is bought once, and not again while that one does not start."""

    async def story(life):
        await life.until(lambda: life.running(8) and life.settled())
        before = len(life.claims)
        life.world.apply(deployment(replicas=1))
        _label(life)
        return await _most_claims(life, HALF_AN_HOUR) - before

    def _label(life):
        spec = {"spec": {"template": {"spec": {"startupTaints": [NEVER_REMOVED]}}}}
        life.world.api.patch(resource_of(NODE_POOL), Key("", "default"), Patch(spec))

    template = {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}
    frozen = {**FREELY, "budgets": [{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "100%"}]}
    chosen = node_pool(template=template, disruption=frozen)
    assert live(story, node_class(), chosen, deployment(replicas=8), settings=ACTING) == 1
