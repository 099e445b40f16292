"""While a plan is computed, everything else goes on; a plan is not carried out on what was taken meanwhile."""

import asyncio
from datetime import timedelta

import pytest

from dovetail.model.command import RECORD_ANNOTATION
from dovetail.model.kinds import NODE, NODE_CLAIM, NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.ports.cluster import Patch
from slow_compute import SlowCompute
from stories import ACTING, GENERIC, ON_DEMAND, clean, deployment, live, node_class, node_pool

LONG = 20.0
FREELY = {"consolidateAfter": "Never", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]}
FOURS = {"key": INSTANCE_TYPE, "operator": "In", "values": ["s-4x-amd64-linux"]}
THREE = (
    node_class(),
    node_pool(template={"requirements": [*ON_DEMAND, FOURS], "expireAfter": "Never"}, disruption=FREELY),
    deployment(replicas=3, cpu="3", memory="1Gi"),
)
DRIFT = 2  # the second computation of a pass: expiration is the first


def slow(story, settings=GENERIC):
    """Three drifted nodes with a pod each; plans take `LONG` from then on. By default passes run when a story asks."""
    compute = SlowCompute(0.0)

    async def told(life):
        await life.until(lambda: life.running(3) and life.settled() and len(life.nodes) == 3)
        await asyncio.sleep(120)
        compute.seconds, compute.began = LONG, 0
        drifted = Patch({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})
        await life.world.patch(NODE_POOL, Key("", "default"), drifted)
        await life.until(lambda: all(each.has("Drifted") for each in life.claims), within=900)
        await story(life, compute)

    live(told, *THREE, settings=settings, compute=compute)


async def planning_drift(life, compute):
    """Begin a pass, and wait until its drift is planned."""
    assert not compute.began, "no pod waits, so nothing else is planned"
    passing = asyncio.create_task(life.parts.manager.disruption.run_pass())
    await life.until(lambda: compute.began == DRIFT and compute.busy, within=10 * LONG)
    return passing


def marked(life):
    return {claim.name for claim in life.claims if RECORD_ANNOTATION in claim.metadata.annotations}


async def interrupted(life, claim):
    life.world.instance_failures.warn(claim.status.node_name, "spot_interrupted")
    await life.until(lambda: any(each.name == claim.name and each.deleting for each in life.claims), within=5)


async def node_deleted(life, claim):
    await life.world.delete(NODE, Key("", claim.status.node_name))


async def claim_deleted(life, claim):
    await life.world.delete(NODE_CLAIM, claim.key)


async def nominated(life, claim):
    until = life.world.clock.now() + timedelta(hours=1)
    life.parts.manager.state.nominate(claim.status.node_name, until)


async def taken_by_another_command(life, claim):
    record = {"metadata": {"annotations": {RECORD_ANNOTATION: '{"id": "other"}'}}}
    await life.world.patch(NODE_CLAIM, claim.key, Patch(record))


def test_an_interruption_is_handled_while_a_plan_is_computed():
    async def story(life, compute):
        passing = await planning_drift(life, compute)
        warned_at = life.world.clock.now()
        await interrupted(life, life.claims[0])
        assert life.world.clock.now() - warned_at < timedelta(seconds=2)
        assert compute.began == DRIFT, "drift is still planned"
        assert compute.busy
        passing.cancel()

    slow(story)


@pytest.mark.parametrize("take", [interrupted, node_deleted, claim_deleted, nominated], ids=lambda take: take.__name__)
def test_a_node_that_is_taken_while_its_replacement_is_planned_gets_no_command(take):
    async def story(life, compute):
        passing = await planning_drift(life, compute)
        await asyncio.sleep(LONG - 2)  # so that deleted nodes still exist when the plan is complete
        for claim in life.claims:
            await take(life, claim)
        assert compute.busy, "drift is still planned"
        assert not await passing
        assert not marked(life)

    slow(story)


def test_a_node_that_another_command_took_while_its_replacement_is_planned_keeps_that_command():
    async def story(life, compute):
        passing = await planning_drift(life, compute)
        for claim in life.claims:
            await taken_by_another_command(life, claim)
        await asyncio.sleep(1)
        assert not await passing
        assert {claim.metadata.annotations[RECORD_ANNOTATION] for claim in life.claims} == {'{"id": "other"}'}

    slow(story)


def test_no_command_starts_while_pods_are_being_placed():
    async def story(life, compute):
        async with life.parts.manager.disruption._context.launch_lock:
            passing = await planning_drift(life, compute)
            await asyncio.sleep(10 * LONG)
            assert not marked(life)
        assert await passing
        assert marked(life)

    slow(story)


def test_a_stop_does_not_wait_for_a_plan_and_its_result_is_dropped():
    async def story(life, compute):
        passing = await planning_drift(life, compute)
        asked_at = life.world.clock.now()
        passing.cancel()
        await asyncio.wait({passing})
        assert life.world.clock.now() == asked_at
        await asyncio.sleep(10 * LONG)
        assert not marked(life)

    slow(story)


def test_with_slow_plans_drift_still_replaces_every_node():
    async def story(life, compute):
        before = {claim.name for claim in life.claims}

        def replaced():
            return before.isdisjoint(claim.name for claim in life.claims) and life.running(3) and life.settled()

        await life.until(replaced, within=7200)
        await asyncio.sleep(600)
        assert compute.began > DRIFT
        assert clean(life)

    slow(story, ACTING)
