"""The embedded world keeps the contract of the `Cluster` port."""

import pytest

from contract.environment import Environment
from contract.suite import CASES, title
from dovetail.sim.kubernetes.kinds import resource_of_plain
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.embedded import admit


class WorldEnvironment(Environment):
    can_expire_history = True

    def __init__(self, world):
        super().__init__(world, "contract")
        self._world = world

    async def apply(self, plain):
        self._world.apply(plain)

    async def submit(self, plain):
        self._world.api.create(resource_of_plain(plain), plain)

    async def expire_history(self):
        self._world.forget_history()


@pytest.mark.parametrize("case", CASES, ids=title)
def test_world(case):
    async def story():
        async with World(WorldOptions(seed=7), validate=admit) as world:
            await case(WorldEnvironment(world))

    run(story(), limit=3600)
