"""How long a candidate waits for a holder, and when the Lease is given back."""

import asyncio
import random
from datetime import UTC, datetime

from dovetail.model.kinds import LEASE
from dovetail.model.kube_object import Key
from dovetail.runtime.leader_election import LeaderElection, LeaseHolder
from dovetail.runtime.leader_term import LeaderTerm, TermEnd
from dovetail.runtime.write_gate import WriteGate
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World

KEY = Key("default", "leader")


class Noon:
    """A clock that stands still: nothing may depend on it."""

    def now(self):
        return datetime(2026, 1, 5, 12, tzinfo=UTC)


def candidate(world, name="ours"):
    return LeaderElection(world, LeaseHolder(KEY, name), Noon(), random.Random(1))  # noqa: S311 - reproducible, not secret


class Slow:
    """A cluster whose answers take four seconds, and that knows when it was last asked."""

    def __init__(self, world):
        self._world = world
        self.asked_at = 0.0

    async def _slowly(self, call):
        self.asked_at = asyncio.get_running_loop().time()
        answer = await call
        await asyncio.sleep(4)
        return answer

    async def get(self, kind, key):
        return await self._slowly(self._world.get(kind, key))

    async def create(self, kind, value):
        return await self._slowly(self._world.create(kind, value))

    async def patch(self, kind, key, patch):
        return await self._slowly(self._world.patch(kind, key, patch))


def test_every_renewal_counts_from_when_it_was_sent():
    async def main():
        slow, loop = Slow(World()), asyncio.get_running_loop()
        election = candidate(slow)
        await election.acquire()
        renewing = asyncio.ensure_future(election.renew())
        for _ in range(3000):
            await asyncio.sleep(0.01)
            assert election.remaining <= slow.asked_at + election.durations.renew_deadline - loop.time()
        renewing.cancel()

    run(main(), limit=1000)


def lease(seconds):
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": KEY.name, "namespace": KEY.namespace},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": seconds},
    }


def waited(seconds):
    """For how long a candidate waits for a holder that wrote this duration and is silent."""

    async def main():
        world = World()
        world.apply(lease(seconds))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await candidate(world).acquire()
        return loop.time() - began

    return run(main(), limit=1000)


def test_a_holder_with_a_longer_lease_is_given_that_long():
    assert 40 <= waited(40) < 50


def test_a_holder_with_a_shorter_lease_is_given_our_own_duration():
    assert 15 <= waited(5) < 25


def test_the_lease_is_given_back_only_after_the_work_has_stopped():
    async def main():
        world, stopped, held = World(), asyncio.Event(), []

        async def work():
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1)
                held.append(world.values(LEASE)[0].spec.holder_identity)

        shift = LeaderTerm(WriteGate(), work, stopped, lambda: None, candidate(world))
        running = asyncio.ensure_future(shift.run())
        await asyncio.sleep(5)
        stopped.set()
        assert await running is TermEnd.STOPPED
        assert held == ["ours"]
        assert world.values(LEASE)[0].spec.holder_identity == ""

    run(main(), limit=1000)
