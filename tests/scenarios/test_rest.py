"""A pass over a cluster at rest waits, but never through the moment at which something becomes possible."""

import asyncio
from datetime import timedelta

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
        await disruption._rest(began, seen)
        assert clock.now() - rested_at < timedelta(seconds=1)

    live(story, node_class(), pool(), deployment())
