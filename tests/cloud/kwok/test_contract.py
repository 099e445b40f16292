"""The kwok provider keeps the contract of the `CloudProvider` port."""

import pytest

from contract.providers import CASES, LostAnswers, Supply
from contract.suite import title
from dovetail.cloud.kwok.catalog import select_catalog
from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.model.kinds import KWOK_NODE_CLASS
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.kwoknodeclass import KWOKNodeClass
from dovetail.model.nodepool import NodeClassRef
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World

REF = NodeClassRef(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")


class KwokSupply(Supply):
    async def later(self):
        return make(self.cluster)

    async def remove_class(self):
        await self.cluster.delete(KWOK_NODE_CLASS, Key("", "default"))

    async def lose_answers(self, launches):
        self.cluster.interference = LostAnswers(launches, "create", "Node")

    async def remove_nodes(self):
        """The Node is the instance: without it there is none."""


def make(world):
    return KwokProvider(world, select_catalog("generic", None), world.clock)


@pytest.mark.parametrize("case", CASES, ids=title)
def test_kwok(case):
    async def story():
        world = World()
        await world.create(KWOK_NODE_CLASS, KWOKNodeClass(metadata=ObjectMeta(name="default")))
        await case(KwokSupply(world, make(world), REF))

    run(story(), limit=3600)
