"""The provider of the simulated cloud keeps the contract of the `CloudProvider` port."""

from dataclasses import replace

import pytest

from contract.providers import CASES, LostAnswers, Supply
from contract.suite import title
from dovetail.cloud.kwok.catalog import select_catalog
from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.model.kinds import KWOK_NODE_CLASS, NODE
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.kwoknodeclass import KWOKNodeClass
from dovetail.model.nodepool import NodeClassRef
from dovetail.ports.cluster import Deletion
from dovetail.sim.cloud.service import CloudOptions
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.providers import simulated

REF = NodeClassRef(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")


class SimulatedSupply(Supply):
    async def later(self):
        return make(self.cluster)

    async def remove_class(self):
        await self.cluster.delete(KWOK_NODE_CLASS, Key("", "default"))

    async def lose_answers(self, launches):
        self.cluster.interference = LostAnswers(launches, "launch", "Instance")

    async def remove_nodes(self):
        for node in (await self.cluster.list(NODE)).items:
            await self.cluster.delete(NODE, node.key, Deletion())


def make(world):
    return simulated(world.cloud_client(), KwokProvider(world, select_catalog("generic", None), world.clock))


@pytest.mark.parametrize("shutdown", [(0.0, 0.0), (0.1, 0.5)], ids=["ends at once", "takes a while to end"])
@pytest.mark.parametrize("case", CASES, ids=title)
def test_simulated(case, shutdown):
    async def scenario():
        options = replace(WorldOptions(), cloud=CloudOptions(shutdown=shutdown))
        async with World(options) as world:
            await world.create(KWOK_NODE_CLASS, KWOKNodeClass(metadata=ObjectMeta(name="default")))
            await case(SimulatedSupply(world, make(world), REF))

    run(scenario(), limit=3600)
