"""However hostile the API server and the clocks are, two replicas never act at once."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from dovetail.model.kinds import LEASE, NODE
from dovetail.model.kube_object import Key
from dovetail.ports.cluster import Patch
from dovetail.ports.errors import ApiError, Conflict, OutcomeUnknown, Throttled, Unavailable
from dovetail.runtime.leader_election import LeaderElection, LeaseDurations, LeaseHolder
from dovetail.runtime.leader_term import LeaderTerm, TermEnd
from dovetail.runtime.write_gate import GateClosed, GatedCluster, WriteGate
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World

KEY = Key("default", "leader")
FAILURES = (Unavailable("500"), Conflict("409"), Throttled("429", 1.0), OSError("reset"))


class Died(Exception):
    """The process would be gone here."""


class WildClock:
    """A wall clock that somebody sets at will."""

    def __init__(self, dice):
        self.dice = dice

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=self.dice.uniform(-900, 900))


class Calm:
    """Nothing goes wrong."""

    async def before(self, kind): ...

    async def after(self, kind): ...


class Silent(Calm):
    """Nothing is answered any more."""

    async def before(self, kind):  # noqa: ARG002 - as the others
        await asyncio.Event().wait()


class Refusing(Calm):
    """Every call about the Lease is refused."""

    def __init__(self, error):
        self.error = error

    async def before(self, kind):
        if kind is LEASE:
            raise self.error


class Hostile:
    """Calls hang, are refused, or are carried out without an answer; in spells that may outlast a lease."""

    def __init__(self, seed):
        self.dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.spell, self.until = 0.0, 0.0

    async def before(self, kind):
        now = asyncio.get_running_loop().time()
        if now >= self.until:
            self.spell, self.until = self.dice.choice((0.0, 0.3, 0.7, 1.0)), now + self.dice.uniform(1, 40)
        if kind is not LEASE:
            await asyncio.sleep(self.dice.choice((0, 0, 0.5, 5)))
        elif self.dice.random() < self.spell:
            if self.dice.random() < 0.5:
                await asyncio.sleep(self.dice.choice((1, 4, 9, 14, 60)))
            else:
                raise self.dice.choice(FAILURES)

    async def after(self, kind):
        if kind is LEASE and self.dice.random() < self.spell / 2:
            if self.dice.random() < 0.5:
                await asyncio.sleep(self.dice.choice((3, 12, 40)))
            raise OutcomeUnknown("no answer")


class Link:
    """One replica's way to the API server. A witness looks at each write in the instant it takes effect."""

    def __init__(self, world, faults=None):
        self.world, self.faults = world, faults or Calm()

    async def get(self, kind, key):
        return await self._call(kind, self.world.get(kind, key))

    async def create(self, kind, value):
        return await self._call(kind, self.world.create(kind, value))

    async def patch(self, kind, key, patch):
        return await self._call(kind, self._witnessed(kind, key, patch))

    async def _call(self, kind, call):
        try:
            await self.faults.before(kind)
        except BaseException:
            call.close()
            raise
        answer = await call
        await self.faults.after(kind)
        return answer

    async def _witnessed(self, kind, key, patch):
        written = await self.world.patch(kind, key, patch)
        if kind is NODE:
            assert holder(self.world) in {written.metadata.labels["by"], None}, "it acts, and another one leads"
        return written


@dataclass
class Replica:
    """One process: it writes its name on a node twice a second for as long as it may."""

    world: World
    name: str
    faults: object = None
    asleep: float = 0.0
    acting: list = field(default_factory=list)
    endings: list = field(default_factory=list)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self):
        self.dice = random.Random(self.name)  # noqa: S311 - reproducible, not secret
        self.link = Link(self.world, self.faults)

    async def run(self):
        """One life."""
        loop = asyncio.get_running_loop()
        self.gate = WriteGate()
        lease_holder = LeaseHolder(KEY, f"{self.name}-{len(self.endings)}")
        self.election = LeaderElection(
            self.link, lease_holder, WildClock(self.dice), self.dice, lambda: loop.time() + self.asleep
        )
        self.cluster = GatedCluster(self.link, self.gate)
        ending = await LeaderTerm(self.gate, self.work, self.stopped, self.die, self.election).run()
        self.endings.append(ending)
        return ending

    async def live(self):
        """As a pod: started again whenever it ends."""
        while not self.stopped.is_set():
            await self.run()

    def die(self):
        raise Died

    async def work(self):
        while True:
            with suppress(ApiError):
                by = {"metadata": {"labels": {"by": self.election.lease_holder.identity}}}
                await self.cluster.patch(NODE, Key("", "n"), Patch(by))
                self.acting.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.5)


def play(story):
    async def main():
        world = World()
        world.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        return await story(world, asyncio.get_running_loop())

    return run(main(), limit=100_000)


def holder(world):
    """Who leads, as the cluster has it; None while the Lease is deleted."""
    leases = world.values(LEASE)
    return leases[0].spec.holder_identity if leases else None


async def ended(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()


@pytest.mark.parametrize("seed", range(8))
def test_two_replicas_never_act_at_once_whatever_the_server_and_the_clocks_do(seed):
    async def story(world, _loop):
        dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
        replicas = [Replica(world, name, Hostile(f"{seed}{name}")) for name in "ab"]
        lives = [asyncio.ensure_future(replica.live()) for replica in replicas]
        for _ in range(60):
            await asyncio.sleep(dice.uniform(1, 30))
            if dice.random() < 0.2:
                dice.choice(replicas).asleep += dice.choice((1, 9, 11, 20, 3600))
        for replica in replicas:
            replica.link.faults = Calm()
        await asyncio.sleep(90)
        before = sum(len(replica.acting) for replica in replicas)
        await asyncio.sleep(10)
        assert sum(len(replica.acting) for replica in replicas) > before, "somebody leads when all is well"
        await ended(*lives)

    play(story)


@pytest.mark.parametrize(
    "faults", [Silent(), *map(Refusing, FAILURES)], ids=lambda each: type(getattr(each, "error", each)).__name__
)
def test_a_leader_that_cannot_renew_has_stopped_before_the_next_one_starts(faults):
    async def story(world, loop):
        first, second = Replica(world, "a"), Replica(world, "b")
        leading = asyncio.ensure_future(first.run())
        await asyncio.sleep(5)
        standing = asyncio.ensure_future(second.run())
        await asyncio.sleep(30)
        assert second.acting == []
        first.link.faults = faults
        cut_at = loop.time()
        await asyncio.sleep(40)
        assert await leading is TermEnd.LOST
        await ended(standing)
        return first.acting[-1] - cut_at, second.acting[0] - cut_at

    stopped, taken = play(story)
    assert stopped <= 10.0
    assert 13.0 <= taken <= 20.0


class Slow(Calm):
    """Answers come four seconds after the server has done its part."""

    async def after(self, kind):  # noqa: ARG002 - as the others
        await asyncio.sleep(4)


def test_a_renewal_counts_from_when_it_was_sent_not_from_its_answer():
    async def story(world, _loop):
        replica = Replica(world, "a", Slow())
        leading = asyncio.ensure_future(replica.run())
        while not (replica.acting or replica.endings):
            await asyncio.sleep(0.01)
            assert replica.election.remaining <= LeaseDurations().renew_deadline - 4
        await ended(leading)

    play(story)


def test_the_first_write_after_the_host_was_suspended_is_refused():
    async def story(world, _loop):
        replica = Replica(world, "a")
        leading = asyncio.ensure_future(replica.run())
        await asyncio.sleep(5)
        replica.asleep += 3600
        acted = len(replica.acting)
        with pytest.raises(GateClosed):
            await replica.cluster.patch(NODE, Key("", "n"), Patch({}))
        assert await leading is TermEnd.LOST
        assert len(replica.acting) == acted

    play(story)


def test_a_graceful_stop_hands_the_lease_over_at_once():
    async def story(world, loop):
        first, second = Replica(world, "a"), Replica(world, "b")
        leading = asyncio.ensure_future(first.run())
        await asyncio.sleep(5)
        standing = asyncio.ensure_future(second.run())
        await asyncio.sleep(5)
        first.stopped.set()
        stopped_at = loop.time()
        assert await leading is TermEnd.STOPPED
        await asyncio.sleep(10)
        await ended(standing)
        assert second.acting[0] - stopped_at < 3.0
        assert world.values(LEASE)[0].spec.lease_transitions == 1

    play(story)


class SlowWrites(Calm):
    """What is written takes three seconds, or for ever."""

    def __init__(self, seconds=3.0):
        self.seconds = seconds

    async def before(self, kind):
        if kind is NODE:
            await asyncio.sleep(self.seconds)


def test_a_write_in_flight_finishes_before_the_lease_is_released_and_none_follows():
    async def story(world, loop):
        replica = Replica(world, "a", SlowWrites())
        leading = asyncio.ensure_future(replica.run())
        await asyncio.sleep(8)
        replica.stopped.set()
        acted, stopped_at = len(replica.acting), loop.time()
        assert await leading is TermEnd.STOPPED
        assert len(replica.acting) == acted + 1
        assert holder(world) == ""
        assert loop.time() - stopped_at < 4

    play(story)


def test_a_write_that_hangs_does_not_keep_the_process_from_ending():
    async def story(world, loop):
        replica = Replica(world, "a", SlowWrites(3600.0))
        leading = asyncio.ensure_future(replica.run())
        await asyncio.sleep(8)
        replica.stopped.set()
        stopped_at = loop.time()
        assert await leading is TermEnd.STOPPED
        assert loop.time() - stopped_at < 6
        assert holder(world) == ""

    play(story)


def test_a_candidate_that_is_stopped_while_it_waits_never_acts():
    async def story(world, _loop):
        first, second = Replica(world, "a"), Replica(world, "b")
        leading = asyncio.ensure_future(first.run())
        await asyncio.sleep(1)
        standing = asyncio.ensure_future(second.run())
        await asyncio.sleep(20)
        second.stopped.set()
        assert await standing is TermEnd.STOPPED
        assert second.acting == []
        await ended(leading)

    play(story)


def test_work_that_does_not_stop_takes_the_process_with_it_before_the_lease_ends():
    async def story(world, loop):
        replica, enough = Replica(world, "a"), asyncio.Event()

        async def stubborn():
            while not enough.is_set():
                with suppress(asyncio.CancelledError):
                    await enough.wait()

        replica.work = stubborn
        leading = asyncio.ensure_future(replica.run())
        await asyncio.sleep(5)
        renewed_before = loop.time()
        replica.link.faults = Silent()
        with pytest.raises(Died):
            await leading
        enough.set()
        return loop.time() - renewed_before

    assert play(story) < LeaseDurations().duration


def test_a_lease_that_was_deleted_is_not_taken_while_its_holder_may_act():
    async def story(world, _loop):
        first, second = Replica(world, "a"), Replica(world, "b")
        leading = asyncio.ensure_future(first.run())
        await asyncio.sleep(5)
        standing = asyncio.ensure_future(second.run())
        await asyncio.sleep(5)
        await world.delete(LEASE, KEY)
        await asyncio.sleep(30)
        assert holder(world) == "a-0"
        assert second.acting == []
        await ended(leading, standing)

    play(story)


def test_an_unhandled_error_ends_the_term_and_releases_the_lease():
    async def story(world, _loop):
        async def broken():
            await asyncio.sleep(3)
            raise AssertionError("we are wrong")

        replica = Replica(world, "a")
        replica.work = broken
        with pytest.raises(AssertionError, match="we are wrong"):
            await replica.run()
        assert holder(world) == ""

    play(story)


@pytest.mark.parametrize("terms", [{"duration": 10.0}, {"duration": 12.0}, {"retry": 10.0}, {"retry": 0.0}])
def test_durations_that_leave_no_time_to_stop_are_refused(terms):
    with pytest.raises(ValueError, match="must be"):
        LeaseDurations(**terms)
