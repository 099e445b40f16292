"""Simulated interruptions by label: the behavior of the source when watches end."""

import asyncio
from types import SimpleNamespace

from dovetail.cloud.kwok.interruptions import StagedInterruptions
from dovetail.ports.errors import Gone
from dovetail.sim.virtual_loop import VirtualClock, VirtualLoop


class ExpiredWatches:
    """An API server that lists, and answers every watch with 410."""

    def __init__(self):
        self.lists = 0

    async def list(self, _kind, _options):
        self.lists += 1
        return SimpleNamespace(items=[], resource_version=str(self.lists))

    async def watch(self, _kind, _version, _options):
        raise Gone("too old resource version")
        yield  # makes it a generator


def test_watches_that_expire_at_once_are_repeated_with_backoff():
    cluster = ExpiredWatches()
    loop = VirtualLoop()

    async def listen():
        source = StagedInterruptions(cluster, VirtualClock(loop))
        try:
            async with asyncio.timeout(3600):
                await source.receive()
        except TimeoutError:
            return

    loop.run_until_complete(listen())
    assert 100 <= cluster.lists <= 130, "about twice a minute, for an hour"
