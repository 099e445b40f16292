"""The aws provider keeps the contract of the `CloudProvider` port, over HTTP."""

import pytest

from cloud.aws.claims import REF
from contract.providers import CASES, Supply
from contract.suite import title
from dovetail.cloud.aws.provider import AwsProvider, assemble_aws
from dovetail.model.kinds import EC2_NODE_CLASS
from dovetail.model.kube_object import Key


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


@pytest.mark.parametrize("case", CASES, ids=title)
def test_aws(case, live):
    async def story(account):
        await account.create(account.node_class())
        await account.kept()
        await case(AwsSupply(account))

    live(story)
