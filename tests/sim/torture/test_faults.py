"""Stories are reproducible, can be cut down, and what they inject does what it says."""

import asyncio

import pytest

from dovetail.cli.torture import tell
from dovetail.model import kinds
from dovetail.model.cluster_objects import Lease
from dovetail.model.kube_object import ObjectMeta
from dovetail.ports.cluster import WatchEvent
from dovetail.ports.errors import Conflict, Gone, OutcomeUnknown, Unavailable
from dovetail.sim.torture.fault_generator import draw_story
from dovetail.sim.torture.fault_injector import FaultInjector, Lifeline
from dovetail.sim.torture.flaky_connection import FlakyConnection, FlakyStream, WatchFaults
from dovetail.sim.torture.invariants.observer import Violation
from dovetail.sim.torture.invariants.writes import SingleLeader
from dovetail.sim.torture.runner import TrialFigures, TrialOutcome, shrink
from dovetail.sim.torture.trial import Trial, TrialPiece
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import ApiCall, World

PATCH = ApiCall("patch", "NodeClaim")


LEASE = ApiCall("patch", "Lease")


def trouble(seen=None):
    return FaultInjector(witness=lambda _, call: seen.append(call) if seen is not None else None)


def alive(downs=None):
    return Lifeline("left-1", died=downs.append if downs is not None else lambda _: None)


def fault(what, **terms):
    return TrialPiece("f0", 1.0, what, {"calls": "any", "kind": "", "times": 1, **terms})


def test_a_seed_is_a_story_and_tells_the_same_one_every_time():
    assert draw_story(7) == draw_story(7)
    assert draw_story(7) != draw_story(8)


def test_leaving_a_piece_out_changes_no_other():
    whole = draw_story(3)
    dropped = whole.ids[2]
    rest = whole.only(set(whole.ids) - {dropped})
    assert [each for each in whole.pieces if each.id != dropped] == list(rest.pieces)


def test_a_story_replays_exactly():
    story = draw_story(1)
    first, second = tell(story), tell(story)
    assert first.violations == second.violations == ()
    assert first.fingerprint == second.fingerprint
    assert first.figures == second.figures


@pytest.mark.parametrize(
    ("what", "error"),
    [("conflict", Conflict), ("unavailable", Unavailable), ("timeout before effect", OutcomeUnknown)],
)
def test_a_fault_before_the_effect_strikes_as_often_as_it_says(what, error):
    async def story():
        seen = []
        faults, life = trouble(seen), alive()
        faults.arm(fault(what, calls="patch", times=2))
        await faults.before(ApiCall("get", "Node"), life)
        for _ in range(2):
            with pytest.raises(error):
                await faults.before(PATCH, life)
        await faults.before(PATCH, life)
        return seen, faults.injected

    seen, injected = run(story())
    assert seen == [ApiCall("get", "Node"), PATCH]
    assert injected == 2


def test_a_timeout_after_the_effect_lets_the_effect_happen():
    async def story():
        seen = []
        faults, life = trouble(seen), alive()
        faults.arm(fault("timeout after effect"))
        await faults.before(PATCH, life)
        with pytest.raises(OutcomeUnknown):
            await faults.after(PATCH, life)
        return seen

    assert run(story()) == [PATCH]


@pytest.mark.parametrize("after", [False, True])
def test_a_process_dies_at_the_call_it_was_told_to_and_does_nothing_more(after):
    async def story():
        seen, downs = [], []
        faults, life, other = trouble(seen), alive(downs), alive()
        faults.arm(TrialPiece("f0", 1.0, "crash", {"call": 2, "after": after, "down": 20}))
        await faults.before(PATCH, life)
        await faults.after(PATCH, life)
        if after:
            await faults.before(PATCH, life)
        with pytest.raises(asyncio.CancelledError):
            await (faults.after(PATCH, life) if after else faults.before(PATCH, life))
        with pytest.raises(asyncio.CancelledError):
            await faults.before(PATCH, life)
        await faults.before(PATCH, other)
        return len(seen), downs

    assert run(story()) == (3 if after else 2, [20.0])


def test_a_crash_waits_for_somebody_who_acts():
    async def story():
        seen, downs = [], []
        faults, standby = trouble(seen), alive(downs)
        faults.arm(TrialPiece("f0", 1.0, "crash", {"call": 1, "after": False, "down": 20}))
        for _ in range(3):
            await faults.before(LEASE, standby)
            await faults.after(LEASE, standby)
        return len(seen), downs

    assert run(story()) == (3, [])


def test_one_process_alone_is_cut_off_from_the_lease_and_everything_else_goes_on():
    async def story():
        seen = []
        faults, life, other = trouble(seen), alive(), alive()
        life.cut_off_until = 30.0
        await faults.before(PATCH, life)
        await faults.before(LEASE, other)
        with pytest.raises(Unavailable):
            await faults.before(LEASE, life)
        return seen, asyncio.get_running_loop().time()

    assert run(story()) == ([PATCH, LEASE], 30.0)


def test_a_write_of_the_lease_takes_effect_though_its_caller_has_given_up():
    async def story():
        async with World() as world:
            faults = trouble()
            connection = FlakyConnection(world, faults, WatchFaults(), alive())
            faults.arm(fault("slow call", kind="Lease", seconds=8))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await connection.create(kinds.LEASE, Lease(metadata=ObjectMeta(name="office", namespace="default")))
            before = len(world.values(kinds.LEASE))
            await asyncio.sleep(5)
            return before, len(world.values(kinds.LEASE))

    assert run(story()) == (0, 1)


class Told:
    """The least an invariant needs of a history."""

    def __init__(self):
        self.now, self.messages = 0.0, []

    def broken(self, invariant, message):
        self.messages.append(f"{invariant}: {message}")


@pytest.mark.parametrize(
    ("who", "at", "verdict"),
    [("left", 29.0, None), ("left", 31.0, "has run out"), ("right", 1.0, "left leads")],
)
def test_only_the_holder_may_write_and_only_while_the_lease_lasts(who, at, verdict):
    told = Told()
    one = SingleLeader(told)
    one.lease_changed("left", 30.0)
    told.now = at
    one.acts(who, PATCH)
    assert verdict is None if not told.messages else verdict in told.messages[0]


def test_nobody_may_write_once_the_lease_is_given_back():
    told = Told()
    one = SingleLeader(told)
    one.lease_changed("left", 30.0)
    one.lease_changed("", 1.0)
    one.acts("left", PATCH)
    assert "nobody leads" in told.messages[0]


def test_another_replica_takes_over_from_one_that_dies_leading():
    pieces = draw_story(4).only(["w0"]).pieces
    dies = TrialPiece("f0", 600.0, "process is killed", {"leads": True, "down": 120})
    outcome = tell(Trial(4, (*pieces, dies), 1200.0))
    assert outcome.violations == ()
    assert (outcome.figures.crashes, outcome.figures.handovers) == (1, 1)


class Stream:
    """A watch that tells numbers."""

    def __init__(self):
        self.number = 0

    async def __anext__(self):
        self.number += 1
        return WatchEvent("MODIFIED", str(self.number), object())


def test_a_watch_lags_replays_in_order_breaks_and_gets_too_old():
    async def story():
        watches = WatchFaults()
        stream = FlakyStream(Stream(), "Pod", alive(), watches)
        told = [(await anext(stream)).resource_version for _ in range(3)]
        watches.replaying["Pod"] = 2
        told += [(await anext(stream)).resource_version for _ in range(3)]
        watches.lagging_until["Pod"] = 12.0
        await anext(stream)
        late = asyncio.get_running_loop().time()
        for broken, error in ((watches.breaking, Unavailable), (watches.too_old, Gone)):
            broken.add("Pod")
            with pytest.raises(error):
                await anext(stream)
        return told, late

    assert run(story()) == (["1", "2", "3", "2", "3", "4"], 12.0)


def test_a_broken_story_is_cut_down_to_what_breaks_the_invariant():
    pieces = (
        TrialPiece("p0", 0, "NodePool", needed=True),
        *(TrialPiece(f"f{n}", n + 1.0, "conflict") for n in range(40)),
    )
    told = []

    def retell(story):
        told.append(story)
        ids = set(story.ids)
        broken = {"f7", "f21"} <= ids
        return TrialOutcome(story, (Violation("an invariant", 25.0, "broken"),) if broken else (), TrialFigures())

    shortest = shrink(retell(Trial(1, pieces, 100.0)), retell)
    assert shortest.story.ids == ("f7", "f21")
    assert len(told) < 65
