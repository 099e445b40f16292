"""Lists of a world whose watch cache lags behind."""

import asyncio

from dovetail.model.kube_object import ObjectMeta
from dovetail.ports.cluster import ListOptions
from dovetail.sim.kubernetes.kinds import CONFIG_MAP, ConfigMapWithData
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions


async def names(world, version=""):
    listing = await world.list(CONFIG_MAP, ListOptions(resource_version=version))
    return [item.name for item in listing.items]


def test_a_cached_list_lags_and_a_quorum_read_does_not():
    async def main():
        world = World(WorldOptions(cache_lag=30))
        await world.create(CONFIG_MAP, ConfigMapWithData(metadata=ObjectMeta(name="old", namespace="default")))
        await asyncio.sleep(60)
        made = await world.create(CONFIG_MAP, ConfigMapWithData(metadata=ObjectMeta(name="new", namespace="default")))
        assert await names(world, "0") == ["old"]
        assert await names(world) == ["new", "old"]
        assert await names(world, made.metadata.resource_version) == ["new", "old"]
        await asyncio.sleep(31)
        assert await names(world, "0") == ["new", "old"]

    run(main())
