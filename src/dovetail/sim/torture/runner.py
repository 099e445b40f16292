"""Runs a trial on the simulated cluster in virtual time, and shrinks a trial that violates an invariant.

A run has two phases. Until `faults_end_at` the pieces of the trial are carried out at their times. Then all faults are
cleared, obstacles such as budgets and protections are removed, and the cluster has `TIME_TO_SETTLE` seconds to reach a
state in which every pod runs and nothing is left over. A run ends early at the first violation.

`shrink` is delta debugging: it removes halves of the pieces, then quarters, down to single pieces, and keeps each
removal after which the same invariant is still violated. The number of runs is limited, so the result is small but not
always minimal.
"""

import asyncio
import logging
import zlib
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from datetime import timedelta

from dovetail.sim.kubernetes.api_server import Validator
from dovetail.sim.torture.actors import Actors, apply_initial_objects
from dovetail.sim.torture.controller_process import StartController
from dovetail.sim.torture.fault_injector import WRITES, cloud_fault_handlers, draw_cloud_options
from dovetail.sim.torture.invariants import every_invariant
from dovetail.sim.torture.invariants.base import Watcher
from dovetail.sim.torture.invariants.observer import Observer, Violation
from dovetail.sim.torture.invariants.quiescence import unsettled, unsettled_violations
from dovetail.sim.torture.replica import Replica, Supervisor
from dovetail.sim.torture.trial import Trial, TrialPiece
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import ApiCall, World, WorldOptions

TIME_TO_SETTLE = 3600.0
CHECK_INTERVAL = 10.0
CONTROLLERS_RUN = "the controllers keep running"
_CALLS = {"conflict", "unavailable", "throttled", "timeout before effect", "timeout after effect", "slow call", "crash"}
_NOT_NOTED = _CALLS | {"shortage", "instance never joins"}
"""Pieces that `Observer.note_fault` skips: the injector records calls, and the others delay no reaction."""


@dataclass(frozen=True)
class TrialFigures:
    """Totals of one or more trials."""

    trials: int = 0
    seconds: float = 0.0  # of virtual time
    faults: int = 0
    crashes: int = 0
    handovers: int = 0
    decisions: int = 0

    def __add__(self, other: "TrialFigures") -> "TrialFigures":
        return TrialFigures(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class TrialOutcome:
    """The result of a trial."""

    trial: Trial
    violations: tuple[Violation, ...]
    figures: TrialFigures
    fingerprint: int = 0  # CRC-32 of the event log: equal for equal trials


class TrialRunner:
    """Runs one trial."""

    def __init__(self, trial: Trial, start_controllers: StartController, validate: Validator | None) -> None:
        self._trial = trial
        options = replace(WorldOptions(), seed=trial.seed, cloud=draw_cloud_options(trial.seed))
        self._world = World(options, validate=validate)
        dry_run = any(each.what == "dry run" for each in trial.initial_pieces)
        self._supervisor = Supervisor(self._world, start_controllers, self._before_call, dry_run=dry_run)
        self._observer = Observer(self._world, self._supervisor)
        self._watcher = Watcher(self._observer, every_invariant(self._observer))
        self._actors = Actors(self._observer, trial.seed)
        self._faults: dict[str, Callable[[TrialPiece], None]] = {
            "watch breaks": lambda piece: self._supervisor.watches.breaking.add(piece.parameters["kind"]),
            "watch is too old": lambda piece: self._supervisor.watches.too_old.add(piece.parameters["kind"]),
            "watch replays": self._replay_watch,
            "watch lags": self._delay_watch,
            "watch is silent": self._silence_watch,
            "watch history is compacted": lambda _: self._world.forget_history(),
            "leader steps down": lambda piece: self._affect_replica(piece, "down", Replica.stop),
            "process is killed": lambda piece: self._affect_replica(piece, "down", Replica.kill),
            "lease is unreachable": lambda piece: self._affect_replica(piece, "seconds", Replica.block_lease),
            "process is suspended": lambda piece: self._affect_replica(piece, "seconds", Replica.suspend),
            **cloud_fault_handlers(self._world),
            "clock jumps": self._skew_clock,
            **dict.fromkeys(_CALLS, self._supervisor.fault_injector.arm),
        }
        self._injected = 0  # faults other than those of calls

    def _before_call(self, identity: str, call: ApiCall) -> None:
        self._watcher.call(identity, call, writes=call.operation in WRITES and call.kind != "Lease")

    async def run(self) -> TrialOutcome:
        """Run until the cluster settles, its time to settle is over, or an invariant is violated."""
        loop = asyncio.get_running_loop()
        exception_handler = _ExceptionHandler(self._observer)
        logging.getLogger("dovetail").addHandler(exception_handler)
        try:
            async with self._world:
                self._world.store.listen_to_all(self._watcher.on_change)
                self._world.cloud.listen(self._watcher.instance_changed)
                apply_initial_objects(self._world, self._trial.initial_pieces)
                running = loop.create_task(self._supervisor.run(), name="supervisor")
                try:
                    await self._run_incidents()
                    await self._settle()
                finally:
                    running.cancel()
                    await asyncio.wait([running])
                if not running.cancelled() and running.exception() is not None:
                    raise RuntimeError("the supervisor of the trial failed") from running.exception()
        finally:
            logging.getLogger("dovetail").removeHandler(exception_handler)
        return self._outcome(loop.time())

    async def _run_incidents(self) -> None:
        for piece in self._trial.incidents:
            await self._wait_until(piece.at)
            if self._observer.violations:
                return
            if piece.what in self._faults:
                self._injected += piece.what not in _CALLS
                if piece.what not in _NOT_NOTED:
                    self._observer.note_fault(piece.at, piece.parameters)
                self._faults[piece.what](piece)
            else:
                self._actors.actions[piece.what](piece.parameters)
        await self._wait_until(self._trial.faults_end_at)

    async def _wait_until(self, at: float) -> None:
        """Let virtual time pass and check the invariants at intervals. Returns early at the first violation."""
        loop = asyncio.get_running_loop()
        while loop.time() < at:
            await asyncio.sleep(min(CHECK_INTERVAL, at - loop.time()))
            if self._is_violated():
                return

    async def _settle(self) -> None:
        """Clear all faults and obstacles, and wait until the cluster settles. Reports what is unsettled after that."""
        if self._is_violated():
            return
        loop = asyncio.get_running_loop()
        self._supervisor.clear_faults()
        self._actors.remove_obstacles()
        ends_at = loop.time() + TIME_TO_SETTLE
        await asyncio.sleep(5 * CHECK_INTERVAL)
        while not self._is_violated() and unsettled(self._world):
            if loop.time() >= ends_at:
                self._observer.violations.extend(unsettled_violations(self._world, loop.time()))
                return
            await asyncio.sleep(CHECK_INTERVAL)
            self._actors.stop_expiration()

    def _is_violated(self) -> bool:
        self._watcher.on_tick()
        if self._supervisor.failure is not None:
            self._observer.report_violation(
                CONTROLLERS_RUN, f"a controller process failed: {self._supervisor.failure!r}"
            )
        return bool(self._observer.violations)

    def _outcome(self, seconds: float) -> TrialOutcome:
        supervisor, observer = self._supervisor, self._observer
        faults = supervisor.fault_injector.injected + supervisor.watches.injected + self._injected
        decisions = len(observer.commands) + observer.created_claims
        figures = TrialFigures(1, seconds, faults, supervisor.crashes, observer.handovers, decisions)
        fingerprint = zlib.crc32(self._world.log_bytes())
        return TrialOutcome(self._trial, tuple(observer.violations), figures, fingerprint)

    def _affect_replica(self, piece: TrialPiece, parameter: str, affect: Callable[[Replica, float], None]) -> None:
        """Apply a fault with a duration to the leader or to a standby, if there is one."""
        replica = self._supervisor.find_replica(leads=piece.parameters["leads"])
        if replica is not None:
            affect(replica, piece.parameters[parameter])

    def _replay_watch(self, piece: TrialPiece) -> None:
        self._supervisor.watches.replaying[piece.parameters["kind"]] = piece.parameters["steps"]

    def _delay_watch(self, piece: TrialPiece) -> None:
        until = asyncio.get_running_loop().time() + piece.parameters["seconds"]
        self._supervisor.watches.lagging_until[piece.parameters["kind"]] = until

    def _silence_watch(self, piece: TrialPiece) -> None:
        now = asyncio.get_running_loop().time()
        self._supervisor.watches.silent[piece.parameters["kind"]] = now, now + piece.parameters["seconds"]

    def _skew_clock(self, piece: TrialPiece) -> None:
        clock = self._supervisor.clock
        clock.set_offset(timedelta(seconds=piece.parameters["seconds"]))
        asyncio.get_running_loop().call_later(piece.parameters["lasts"], clock.set_offset, timedelta())


class _ExceptionHandler(logging.Handler):
    """Reports logged exceptions as violations: an unexpected exception is a bug even if the controller retries."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(logging.ERROR)
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        """Report the exception of a log record."""
        if record.exc_info is not None and record.exc_info[1] is not None:
            self._observer.report_violation(CONTROLLERS_RUN, f"{record.getMessage()}: {record.exc_info[1]!r}")


def run_trial(trial: Trial, start_controllers: StartController, validate: Validator | None = None) -> TrialOutcome:
    """Run a trial on a new virtual event loop."""

    async def main() -> TrialOutcome:
        return await TrialRunner(trial, start_controllers, validate).run()

    return run(main(), limit=trial.faults_end_at + TIME_TO_SETTLE + 3600.0)


RunTrial = Callable[[Trial], TrialOutcome]


def shrink(outcome: TrialOutcome, rerun: RunTrial, max_runs: int = 60) -> TrialOutcome:
    """The outcome of the smallest trial found that violates the first invariant that `outcome` violates."""
    name = outcome.violations[0].invariant
    best, runs_left = _without_later_pieces(outcome, rerun), max_runs
    size = max(1, len(best.trial.ids) // 2)
    while runs_left > 0:
        smaller, runs_left = _remove_chunks(best, size, name, rerun, runs_left)
        if smaller is None and size == 1:
            break
        best = smaller or best
        size = max(1, min(size // 2 if smaller is None else size, len(best.trial.ids) // 2))
    return best


def _without_later_pieces(outcome: TrialOutcome, rerun: RunTrial) -> TrialOutcome:
    """Remove the pieces after the violation: they cannot have caused it."""
    violation = outcome.violations[0]
    shorter = rerun(outcome.trial.filtered(lambda piece: piece.at <= violation.at))
    return shorter if _violates(shorter, violation.invariant) else outcome


def _remove_chunks(
    best: TrialOutcome, size: int, name: str, rerun: RunTrial, runs_left: int
) -> tuple[TrialOutcome | None, int]:
    """Try to remove each chunk of `size` pieces. Returns the smallest outcome, None if no chunk could be removed."""
    smallest: TrialOutcome | None = None
    start = 0
    while runs_left > 0 and start < len(best.trial.ids):
        ids = best.trial.ids
        smaller = rerun(best.trial.only([*ids[:start], *ids[start + size :]]))
        runs_left -= 1
        if _violates(smaller, name):
            best = smallest = smaller
        else:
            start += size
    return smallest, runs_left


def _violates(outcome: TrialOutcome, name: str) -> bool:
    return any(each.invariant == name for each in outcome.violations)
