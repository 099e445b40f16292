"""The aws provider keeps the contract of the `CloudProvider` port, over HTTP."""

import pytest

from cloud.aws.claims import REF
from contract.providers import CASES, Supply
from contract.suite import title
from dovetail.cloud.aws.provider import AwsProvider, assemble_aws
from dovetail.cloud.kwok.catalog import select_catalog
from dovetail.cloud.kwok.provider import KwokProvider
from dovetail.cloud.router import CloudRouter
from dovetail.model.kinds import EC2_NODE_CLASS, NODE
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.node import Node, NodeSpec


def routed(provider, world):
    """The provider beside another one, as in a cluster with NodePools of both."""
    return CloudRouter([KwokProvider(world, select_catalog("generic", None), world.clock), provider])


class AwsSupply(Supply):
    def __init__(self, account):
        super().__init__(account.world, account.provider, REF)
        self._account = account

    async def later(self):
        parts = self._account.parts
        return AwsProvider(assemble_aws(self.cluster, parts.clock, parts.settings, parts.aws))

    async def remove_class(self):
        await self.cluster.delete(EC2_NODE_CLASS, Key("", "default"))
        await self._account.kept([])

    async def lose_answers(self, launches):
        self._account.proxy.fleets.lose = launches

    async def remove_nodes(self):
        """No kubelet runs here: each instance registers a Node first."""
        for instance in await self.provider.list():
            spec = NodeSpec(provider_id=instance.provider_id)
            name = instance.provider_id.rpartition("/")[2]
            node = await self.cluster.create(NODE, Node(metadata=ObjectMeta(name=name), spec=spec))
            await self.cluster.delete(NODE, node.key)


class RoutedAwsSupply(AwsSupply):
    def __init__(self, account):
        super().__init__(account)
        self.provider = routed(account.provider, self.cluster)

    async def later(self):
        return routed(await super().later(), self.cluster)


@pytest.mark.parametrize("supply", [AwsSupply, RoutedAwsSupply])
@pytest.mark.parametrize("case", CASES, ids=title)
def test_aws(case, supply, live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        await case(supply(account))
        assert account.proxy.fleets.lose == 0, "the answer that was to be lost came"

    live(story)
