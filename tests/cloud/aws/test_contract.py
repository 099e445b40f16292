"""The aws provider keeps the contract of the `CloudProvider` port, over HTTP."""

import pytest

from cloud.aws.claims import REF
from contract.providers import CASES, Supply
from contract.suite import title
from dovetail.cloud.aws.provider import AwsProvider, assemble_aws
from dovetail.model.kinds import EC2_NODE_CLASS, NODE
from dovetail.model.kube_object import Key, ObjectMeta
from dovetail.model.node import Node, NodeSpec


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


@pytest.mark.parametrize("case", CASES, ids=title)
def test_aws(case, live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        await case(AwsSupply(account))
        assert account.proxy.fleets.lose == 0, "the answer that was to be lost came"

    live(story)
