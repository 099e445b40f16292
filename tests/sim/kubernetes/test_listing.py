"""Lists of a world whose watch cache lags behind, and who may ask for them."""

import asyncio
import re
from pathlib import Path

import dovetail
from dovetail.model.kube_object import ObjectMeta
from dovetail.ports.cluster import ListOptions
from dovetail.sim.kubernetes.kinds import CONFIG_MAP, ConfigMapWithData
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions

SOURCES = Path(dovetail.__file__).parent


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


def test_the_controllers_read_nothing_but_what_is_committed():
    """Commit check, last list of pods, informers: no list of theirs asks for a version, so each is a quorum read."""
    asked = [
        str(path.relative_to(SOURCES))
        for package in ("controllers", "runtime", "core", "cloud", "cli", "observe")
        for path in (SOURCES / package).rglob("*.py")
        if re.search(r"ListOptions\([^)]*(resource_version|exact)", path.read_text())
    ]
    assert asked == []
