"""Trials are reproducible and can be shrunk, and each injected fault has its effect."""

import asyncio

import pytest

from dovetail.cli.torture import run_with_controllers
from dovetail.model import kinds
from dovetail.model.cluster_objects import Lease
from dovetail.model.kube_object import ObjectMeta
from dovetail.ports.cluster import WatchEvent
from dovetail.ports.errors import Conflict, Gone, OutcomeUnknown, Unavailable
from dovetail.sim.torture.fault_generator import draw_trial
from dovetail.sim.torture.fault_injector import FaultInjector, ProcessState
from dovetail.sim.torture.flaky_connection import FlakyConnection, FlakyStream, WatchFaults
from dovetail.sim.torture.invariants.observer import Violation
from dovetail.sim.torture.invariants.writes import SingleLeader
from dovetail.sim.torture.runner import TrialFigures, TrialOutcome, shrink
from dovetail.sim.torture.trial import Trial, TrialPiece
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import ApiCall, World

PATCH = ApiCall("patch", "NodeClaim")


LEASE = ApiCall("patch", "Lease")


def fault_injector(seen=None):
    return FaultInjector(on_call=lambda _, call: seen.append(call) if seen is not None else None)


def process_state(restart_delays=None):
    return ProcessState("left-1", on_death=restart_delays.append if restart_delays is not None else lambda _: None)


def fault(what, **parameters):
    return TrialPiece("f0", 1.0, what, {"calls": "any", "kind": "", "times": 1, **parameters})


def test_a_seed_always_draws_the_same_trial():
    assert draw_trial(7) == draw_trial(7)
    assert draw_trial(7) != draw_trial(8)


def test_removing_a_piece_changes_no_other():
    whole = draw_trial(3)
    dropped = whole.ids[2]
    rest = whole.only(set(whole.ids) - {dropped})
    assert [each for each in whole.pieces if each.id != dropped] == list(rest.pieces)


def test_a_trial_replays_exactly():
    trial = draw_trial(1)
    first, second = run_with_controllers(trial), run_with_controllers(trial)
    assert first.violations == second.violations == ()
    assert first.fingerprint == second.fingerprint
    assert first.figures == second.figures


@pytest.mark.parametrize(
    ("what", "error"),
    [("conflict", Conflict), ("unavailable", Unavailable), ("timeout before effect", OutcomeUnknown)],
)
def test_a_fault_before_the_effect_applies_to_the_given_number_of_calls(what, error):
    async def scenario():
        seen = []
        faults, process = fault_injector(seen), process_state()
        faults.arm(fault(what, calls="patch", times=2))
        await faults.before(ApiCall("get", "Node"), process)
        for _ in range(2):
            with pytest.raises(error):
                await faults.before(PATCH, process)
        await faults.before(PATCH, process)
        return seen, faults.injected

    seen, injected = run(scenario())
    assert seen == [ApiCall("get", "Node"), PATCH]
    assert injected == 2


def test_a_timeout_after_the_effect_keeps_the_effect():
    async def scenario():
        seen = []
        faults, process = fault_injector(seen), process_state()
        faults.arm(fault("timeout after effect"))
        await faults.before(PATCH, process)
        with pytest.raises(OutcomeUnknown):
            await faults.after(PATCH, process)
        return seen

    assert run(scenario()) == [PATCH]


@pytest.mark.parametrize("after", [False, True])
def test_a_process_crashes_at_the_given_call_and_makes_no_more_calls(after):
    async def scenario():
        seen, restart_delays = [], []
        faults, process, other = fault_injector(seen), process_state(restart_delays), process_state()
        faults.arm(TrialPiece("f0", 1.0, "crash", {"call": 2, "after": after, "down": 20}))
        await faults.before(PATCH, process)
        await faults.after(PATCH, process)
        if after:
            await faults.before(PATCH, process)
        with pytest.raises(asyncio.CancelledError):
            await (faults.after(PATCH, process) if after else faults.before(PATCH, process))
        with pytest.raises(asyncio.CancelledError):
            await faults.before(PATCH, process)
        await faults.before(PATCH, other)
        return len(seen), restart_delays

    assert run(scenario()) == (3 if after else 2, [20.0])


def test_lease_calls_do_not_trigger_a_crash():
    async def scenario():
        seen, restart_delays = [], []
        faults, standby = fault_injector(seen), process_state(restart_delays)
        faults.arm(TrialPiece("f0", 1.0, "crash", {"call": 1, "after": False, "down": 20}))
        for _ in range(3):
            await faults.before(LEASE, standby)
            await faults.after(LEASE, standby)
        return len(seen), restart_delays

    assert run(scenario()) == (3, [])


def test_a_blocked_lease_affects_only_lease_calls_of_one_process():
    async def scenario():
        seen = []
        faults, process, other = fault_injector(seen), process_state(), process_state()
        process.lease_blocked_until = 30.0
        await faults.before(PATCH, process)
        await faults.before(LEASE, other)
        with pytest.raises(Unavailable):
            await faults.before(LEASE, process)
        return seen, asyncio.get_running_loop().time()

    assert run(scenario()) == ([PATCH, LEASE], 30.0)


def test_a_lease_write_takes_effect_after_its_caller_timed_out():
    async def scenario():
        async with World() as world:
            faults = fault_injector()
            connection = FlakyConnection(world, faults, WatchFaults(), process_state())
            faults.arm(fault("slow call", kind="Lease", seconds=8))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await connection.create(kinds.LEASE, Lease(metadata=ObjectMeta(name="lease", namespace="default")))
            before = len(world.values(kinds.LEASE))
            await asyncio.sleep(5)
            return before, len(world.values(kinds.LEASE))

    assert run(scenario()) == (0, 1)


class FakeObserver:
    """The part of an observer that `SingleLeader` needs."""

    def __init__(self):
        self.now, self.messages = 0.0, []

    def report_violation(self, invariant, message):
        self.messages.append(f"{invariant}: {message}")


@pytest.mark.parametrize(
    ("identity", "at", "expected"),
    [("left", 29.0, None), ("left", 31.0, "has expired"), ("right", 1.0, "left holds the Lease")],
)
def test_only_the_holder_may_write_before_the_lease_expires(identity, at, expected):
    observer = FakeObserver()
    invariant = SingleLeader(observer)
    invariant.lease_changed("left", 30.0)
    observer.now = at
    invariant.before_write(identity, PATCH)
    assert expected is None if not observer.messages else expected in observer.messages[0]


def test_no_replica_may_write_after_the_lease_is_released():
    observer = FakeObserver()
    invariant = SingleLeader(observer)
    invariant.lease_changed("left", 30.0)
    invariant.lease_changed("", 1.0)
    invariant.before_write("left", PATCH)
    assert "no replica holds the Lease" in observer.messages[0]


def test_another_replica_takes_over_from_a_leader_that_crashes():
    pieces = draw_trial(4).only(["w0"]).pieces
    crash = TrialPiece("f0", 600.0, "process is killed", {"leads": True, "down": 120})
    outcome = run_with_controllers(Trial(4, (*pieces, crash), 1200.0))
    assert outcome.violations == ()
    assert (outcome.figures.crashes, outcome.figures.handovers) == (1, 1)


class NumberedStream:
    """A watch that delivers numbered events."""

    def __init__(self):
        self.number = 0

    async def __anext__(self):
        self.number += 1
        return WatchEvent("MODIFIED", str(self.number), object())


def test_a_watch_replays_in_order_lags_breaks_and_expires():
    async def scenario():
        watches = WatchFaults()
        stream = FlakyStream(NumberedStream(), "Pod", process_state(), watches)
        delivered = [(await anext(stream)).resource_version for _ in range(3)]
        watches.replaying["Pod"] = 2
        delivered += [(await anext(stream)).resource_version for _ in range(3)]
        watches.lagging_until["Pod"] = 12.0
        await anext(stream)
        late = asyncio.get_running_loop().time()
        for failing_kinds, error in ((watches.breaking, Unavailable), (watches.too_old, Gone)):
            failing_kinds.add("Pod")
            with pytest.raises(error):
                await anext(stream)
        return delivered, late

    assert run(scenario()) == (["1", "2", "3", "2", "3", "4"], 12.0)


def test_a_trial_is_shrunk_to_the_pieces_that_violate_the_invariant():
    pieces = (
        TrialPiece("p0", 0, "NodePool", needed=True),
        *(TrialPiece(f"f{n}", n + 1.0, "conflict") for n in range(40)),
    )
    runs = []

    def rerun(trial):
        runs.append(trial)
        violated = {"f7", "f21"} <= set(trial.ids)
        return TrialOutcome(trial, (Violation("an invariant", 25.0, "violated"),) if violated else (), TrialFigures())

    smallest = shrink(rerun(Trial(1, pieces, 100.0)), rerun)
    assert smallest.trial.ids == ("f7", "f21")
    assert len(runs) < 65
