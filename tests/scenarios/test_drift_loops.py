"""Drift that replacements show as well: each node is replaced at most once, and only again when something changes."""

import asyncio

import pytest

from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.ports.cloud import NodeClassState
from dovetail.ports.cluster import Patch
from dovetail.sim.kubernetes.kinds import resource_of
from stories import ACTING, deployment, live, node_class, node_pool

HALF_AN_HOUR = 1800
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


def always_drifted(life, reason="AMIDrift"):
    """Whatever is launched is drifted from the start."""
    market = life.parts.provider.market

    async def drift(_claim):
        return reason

    market.can_drift, market.drift = True, drift


def two_nodes():
    """Two pods that cannot share a node, in a pool that replaces all nodes at once."""
    pool = node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    return node_class(), pool, deployment(replicas=2, affinity=APART)


class Created:
    """Names of all claims there ever were."""

    def __init__(self, life):
        self.life, self.names = life, set()

    async def over(self, seconds, restart_every=None):
        for second in range(seconds):
            await asyncio.sleep(1)
            self.names.update(claim.name for claim in self.life.claims)
            if restart_every and second % restart_every == restart_every - 1:
                await self.life.restart()
                always_drifted(self.life)
        return len(self.names)


@pytest.mark.parametrize("restart_every", [None, 110], ids=str)
def test_a_node_is_not_replaced_for_a_drift_that_its_replacement_shows_again(restart_every):
    async def story(life):
        always_drifted(life)
        created = Created(life)
        await life.until(lambda: life.running(2) and len(life.nodes) == 2)
        number = await created.over(HALF_AN_HOUR, restart_every)
        assert life.running(2)
        return number

    assert live(story, *two_nodes(), settings=ACTING) <= 4  # each of the two was replaced once


def test_a_change_of_the_pool_gives_drift_another_try():
    async def story(life):
        always_drifted(life)
        created = Created(life)
        await life.until(lambda: life.running(2) and len(life.nodes) == 2)
        before = await created.over(HALF_AN_HOUR)
        changed = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
        life.world.api.patch(resource_of(NODE_POOL), Key("", "default"), Patch(changed))
        return before, await created.over(HALF_AN_HOUR)

    before, after = live(story, *two_nodes(), settings=ACTING)
    assert before < after <= before + 4  # for the version that they are, and for what they still show


def test_it_is_told_on_the_pool_and_the_nodes_and_shown_in_a_metric():
    async def story(life):
        always_drifted(life)
        await Created(life).over(300)
        told = [event for event in life.events("DisruptionBlocked") if "AMIDrift is stopped" in event.message]
        names = {node.name for node in life.nodes}
        assert {event.involved_object.name for event in told if event.involved_object.kind == "Node"} == names
        assert [event.type for event in told if event.involved_object.kind == "NodePool"] == ["Warning"]
        shown = life.parts.metrics.render().decode()
        assert 'dovetail_nodepools_drift_stopped{nodepool="default",reason="AMIDrift"} 1.0' in shown

    live(story, *two_nodes(), settings=ACTING)


def test_a_new_image_shortly_after_a_new_image_is_no_loop():
    """Replacements of the first release are drifted by the second, and replaced: what the class resolves to differs."""

    async def story(life):
        provider = life.parts.provider
        desired, made = {"image": "1"}, {}
        launch, known = provider.launch, provider.node_class

        async def stamped(claim):
            made.setdefault(claim.metadata.uid, desired["image"])
            return await launch(claim)

        async def drift(claim):
            return "" if made[claim.metadata.uid] == desired["image"] else "AMIDrift"

        async def state(ref):
            found = await known(ref)
            return NodeClassState(found.name, found.generation, found.deleting, found.ready, desired["image"])

        provider.market.can_drift, provider.market.drift = True, drift
        provider.launch, provider.node_class = stamped, state
        await life.until(lambda: life.running(2) and life.settled())
        for release in "2", "3":
            desired["image"] = release
            await asyncio.sleep(1200)  # the provider is asked again every few minutes
        await life.until(lambda: life.running(2) and life.settled(), within=3600)
        return {made[claim.metadata.uid] for claim in life.claims}

    assert live(story, *two_nodes(), settings=ACTING) == {"3"}
