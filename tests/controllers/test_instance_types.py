"""What pools can buy, asked of a provider that takes its time."""

import asyncio

from builders import nodepool
from dovetail.controllers.context import find_catalogs
from dovetail.ports.errors import NodeClassNotReady


class Cloud:
    """Answers after something has happened."""

    def __init__(self, meanwhile):
        self.meanwhile = meanwhile

    def supports(self, ref):
        return ref.kind == "KWOKNodeClass"

    async def instance_types(self, pool):
        self.meanwhile()
        if pool.name == "bad":
            raise NodeClassNotReady("not ready")
        return ()


def test_a_pool_that_goes_while_the_provider_answers_stops_nothing():
    pools = {name: nodepool(name) for name in ("a", "bad", "c")}
    found = asyncio.run(find_catalogs(Cloud(lambda: pools.pop("c", None)), pools.values()))
    assert set(found) == {"a", "c"}
