"""While a cache is stale nothing new is disrupted, the process is not ready, and events and metrics say which one."""

import asyncio

import pytest

from dovetail.ports.errors import Unavailable
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.embedded import admit
from stories import ACTING, Life, deployment, node_class, node_pool, pool


class Deaf(World):
    """A cluster that keeps the watches of some kinds open without a word, and refuses to list them."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.silent = set()

    async def list(self, kind, options=None):
        if kind.name in self.silent:
            raise Unavailable("down")
        return await (super().list(kind, options) if options is not None else super().list(kind))

    async def watch(self, kind, since, options=None):
        stream = super().watch(kind, since, options) if options is not None else super().watch(kind, since)
        async for change in stream:
            if kind.name in self.silent:
                await asyncio.Event().wait()
            yield change


def deaf(story, *manifests):
    async def main():
        async with Deaf(WorldOptions(), validate=admit) as world:
            life = Life(world, ACTING)
            for manifest in manifests:
                world.apply(manifest)
            life.start()
            try:
                await story(life)
            finally:
                await life.stop()

    run(main(), limit=24 * 3600.0)


KINDS = ["Pod", "Node", "PodDisruptionBudget", "NodeClaim", "NodePool", "ConfigMap", "PersistentVolumeClaim"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_new_is_disrupted_while_a_cache_is_stale(kind):
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,) = life.nodes
        assert not life.parts.missing()
        life.world.silent = {kind}
        await asyncio.sleep(280)  # a bookmark may still have been under way
        (said,) = life.parts.missing()
        assert "are stale" in said
        life.world.apply(deployment(replicas=0))
        await asyncio.sleep(600)
        assert [each.name for each in life.nodes] == [node.name]
        assert not any(claim.deleting for claim in life.claims)
        told = [event for event in life.events("DisruptionBlocked") if "stale" in event.message]
        assert {event.involved_object.kind for event in told} == {"NodePool"}
        assert len(told) == 1
        await life.parts.manager.gauges.refresh()
        shown = life.parts.metrics.render().decode()
        assert f'dovetail_cache_stale{{kind="{kind}"}} 1.0' in shown
        life.world.silent = set()
        await life.until(lambda: not life.parts.missing(), within=31)
        await life.until(lambda: not life.nodes, within=60)

    deaf(story, node_class(), pool(), deployment(replicas=3))


def test_a_command_that_waits_for_its_second_look_is_not_started_once_a_cache_is_stale():
    """Stale is asked again right before a command starts, not only when the pass begins."""

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        life.world.silent = {"PodDisruptionBudget"}
        budgets = life.parts.manager.state.pdbs
        await life.until(lambda: budgets.age > 140, within=300)
        life.world.apply(deployment(replicas=0))  # empty now; looked at again after 15 s
        await asyncio.sleep(300)
        assert life.nodes
        life.world.silent = set()
        await life.until(lambda: not life.nodes, within=90)

    deaf(story, node_class(), pool(), deployment(replicas=3))


def test_a_cache_that_is_stale_for_a_moment_delays_a_command_and_does_not_lose_it():
    """Nothing changes when a cache is fresh again: a second look that met a stale one must not lead to a long rest."""

    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        budgets = life.parts.manager.state.pdbs
        await life.until(lambda: budgets.age < 1)
        life.world.silent = {"PodDisruptionBudget"}
        await life.until(lambda: budgets.age >= 20)
        life.world.apply(deployment(replicas=0))  # a candidate two minutes later; looked at again 15 s after that
        await life.until(lambda: budgets.age >= 156)
        assert not any(claim.deleting for claim in life.claims)
        life.world.silent = set()
        await life.until(lambda: not budgets.stale, within=7)
        await life.until(lambda: not life.nodes, within=60)

    deaf(story, node_class(), pool(consolidateAfter="2m"), deployment(replicas=3))


def test_a_node_that_recovers_behind_a_stale_cache_is_not_repaired():
    async def story(life):
        await life.until(lambda: life.running(3) and life.settled())
        (node,) = life.nodes
        life.world.instance_failures.turn(node.name, "NetworkUnavailable", "True")
        await asyncio.sleep(30)
        life.world.silent = {"Node"}
        life.world.instance_failures.turn(node.name, "NetworkUnavailable", "False")
        await asyncio.sleep(900)  # the toleration ends after ten minutes
        assert not any(claim.deleting for claim in life.claims)
        life.world.silent = set()
        await asyncio.sleep(300)
        assert [each.name for each in life.nodes] == [node.name]

    policies = [{"conditionType": "NetworkUnavailable", "toleration": "10m"}]
    sick = node_pool(repair={"policies": policies}, disruption={"consolidateAfter": "Never"})
    deaf(story, node_class(), sick, deployment(replicas=3))
