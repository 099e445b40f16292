"""Late and silent watches: nothing irreversible happens on what the caches say alone."""

import asyncio

import pytest

from dovetail.model.kinds import NODE, NODE_CLAIM, POD
from stories import ACTING, clean, deployment, live, node_class, pool
from watches import SilentWatches, Terminations


@pytest.fixture
def watches(monkeypatch):
    return SilentWatches(monkeypatch)


def test_an_empty_node_that_gets_pods_while_the_pod_watch_is_late_is_kept(watches):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        ended = Terminations(life.world)
        (node,) = life.nodes
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.pods)
        await asyncio.sleep(2)
        watches.silence(POD, 40)
        life.world.apply(deployment(replicas=3))
        await life.until(lambda: life.running(3), within=30)
        await asyncio.sleep(300)
        assert ended.killed_pods == []
        assert [each.name for each in life.nodes] == [node.name]
        assert life.running(3)
        assert clean(life)

    live(story, node_class(), pool(), deployment(replicas=3), settings=ACTING)


@pytest.mark.parametrize("silent_for", [12, 600])
@pytest.mark.parametrize("kind", [NODE, NODE_CLAIM])
def test_a_deleted_node_evicts_the_pods_the_cache_does_not_know_before_its_instance_ends(watches, silent_for, kind):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        ended = Terminations(life.world)
        deleted = (life.nodes if kind is NODE else life.claims)[0]
        life.world.apply(deployment(replicas=0))
        await life.until(lambda: not life.pods)
        await asyncio.sleep(2)
        watches.silence(POD, silent_for)
        life.world.apply(deployment(replicas=3))
        await life.until(lambda: len([pod for pod in life.pods if pod.node_name]) == 3, within=30)
        await asyncio.sleep(2)
        await life.world.delete(kind, deleted.key)
        await life.until(lambda: ended.nodes, within=silent_for + 300)
        assert ended.killed_pods == []
        await life.until(lambda: life.running(3) and life.settled(), within=silent_for + 600)

    live(story, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3), settings=ACTING)


def test_a_claim_does_not_end_an_instance_whose_node_the_cache_does_not_know(watches):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        ended = Terminations(life.world)
        (claim,) = life.claims
        life.parts.manager.state.nodes.items.clear()
        life.parts.manager.state._nodes_by_provider_id.clear()
        watches.silence(NODE, 60)
        await life.world.delete(NODE_CLAIM, claim.key)
        await life.until(lambda: ended.nodes, within=300)
        assert ended.killed_pods == []

    live(story, node_class(), pool(consolidateAfter="Never"), deployment(replicas=3), settings=ACTING)


def test_only_the_empty_nodes_that_got_no_pod_are_deleted(watches):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        assert len(life.nodes) == 3
        ended = Terminations(life.world)
        life.world.apply(one_a_node(0))
        await life.until(lambda: not life.pods)
        await asyncio.sleep(2)
        watches.silence(POD, 40)
        life.world.apply(one_a_node(1))
        await life.until(lambda: len(life.nodes) == 1 and life.settled(), within=60)
        assert ended.killed_pods == []
        await life.until(lambda: life.running(1) and clean(life), within=60)

    live(story, node_class(), pool(), one_a_node(3), settings=ACTING)


def one_a_node(replicas):
    rule = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    return deployment(replicas=replicas, affinity=affinity)
