"""A pass over a cluster at rest waits, but never through the moment at which something becomes possible."""

import asyncio
from datetime import timedelta

import pytest

from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from stories import deployment, live, node_class, pool


def test_a_pass_that_met_a_nomination_is_followed_by_another_though_somebody_else_forgot_it():
    """Whoever takes a later snapshot forgets nominations that are over; nothing else would wake the next pass."""

    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        await asyncio.sleep(120)
        state, clock, disruption = life.parts.manager.state, life.world.clock, life.parts.manager.disruption
        began, seen = clock.now(), state.revision
        state.nominate(life.nodes[0].name, began + timedelta(seconds=3))
        assert await disruption.run_pass() is False
        await asyncio.sleep(10)
        state.snapshot(clock.now(), {})  # as the provisioner does while some pod waits for ever
        rested_at = clock.now()
        await disruption._wait_for_change(began, seen)
        assert clock.now() - rested_at < timedelta(seconds=1)

    live(story, node_class(), pool(), deployment())


@pytest.mark.parametrize(("lasts", "waits"), [(3, 4), (60, 10)])
def test_a_pass_waits_for_the_end_of_a_burst_but_not_for_ever(lasts, waits):
    """Half of a scale-down is no ground to decide on; a cluster that never stands still is looked at all the same."""

    async def story(life):
        await life.until(lambda: life.running(10) and life.settled())
        await asyncio.sleep(120)
        state, clock, disruption = life.parts.manager.state, life.world.clock, life.parts.manager.disruption

        async def burst():
            for number in range(2 * lasts):
                change = Patch({"metadata": {"annotations": {"example.com/number": str(number)}}})
                await life.world.patch(NODE_POOL, Key("", "default"), change)
                await asyncio.sleep(0.5)

        began, seen = clock.now(), state.revision
        assert await disruption.run_pass() is False
        changing = asyncio.create_task(burst())
        await disruption._wait_for_change(began, seen)
        assert waits <= (clock.now() - began).total_seconds() <= waits + 1.5
        await changing

    live(story, node_class(), pool(), deployment())
