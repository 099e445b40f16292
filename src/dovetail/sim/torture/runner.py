"""Lives through one story and says which invariants did not hold: the whole of it, or until the first does not.

Finds a short story that breaks the same invariant: leaves out half of it, then quarters, then single pieces.

Bounded by the number of times a story may be told again, so the answer is short, not always the shortest.
"""

import asyncio
import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from dovetail.sim.kubernetes.api_server import Validator
from dovetail.sim.torture.actors import Actors, set_scene
from dovetail.sim.torture.controller_process import StartController
from dovetail.sim.torture.fault_injector import WRITES, carried_out_by, draw_cloud_options
from dovetail.sim.torture.invariants import every_invariant
from dovetail.sim.torture.invariants.base import Watcher
from dovetail.sim.torture.invariants.observer import Observer, Violation
from dovetail.sim.torture.invariants.quiescence import unrest, verdicts
from dovetail.sim.torture.replica import Replica, Supervisor
from dovetail.sim.torture.trial import Trial, TrialPiece
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import ApiCall, World, WorldOptions

TIME_TO_SETTLE = 3600.0
LOOK_EVERY = 10.0
ALIVE = "the controllers go on"
_CALLS = {"conflict", "unavailable", "throttled", "timeout before effect", "timeout after effect", "slow call", "crash"}
_HARMLESS = _CALLS | {"shortage", "instance never joins"}  # to what the controllers know, and when they act


@dataclass(frozen=True)
class TrialFigures:
    """What a trial went through."""

    stories: int = 0
    seconds: float = 0.0  # of virtual time
    faults: int = 0
    crashes: int = 0
    handovers: int = 0
    decisions: int = 0

    def __add__(self, other: "TrialFigures") -> "TrialFigures":
        return TrialFigures(
            self.stories + other.stories,
            self.seconds + other.seconds,
            self.faults + other.faults,
            self.crashes + other.crashes,
            self.handovers + other.handovers,
            self.decisions + other.decisions,
        )


@dataclass(frozen=True)
class TrialOutcome:
    """How a story ended."""

    story: Trial
    violations: tuple[Violation, ...]
    figures: TrialFigures
    fingerprint: int = 0  # of the event log: equal for equal stories


class TrialRunner:
    """One story, alive."""

    def __init__(self, story: Trial, launch: StartController, validate: Validator | None) -> None:
        self._story = story
        options = replace(WorldOptions(), seed=story.seed, cloud=draw_cloud_options(story.seed))
        self._world = World(options, validate=validate)
        self._supervisor = Supervisor(
            self._world, launch, self._about_to, dry_run=any(each.what == "dry run" for each in story.scene)
        )
        self._history = Observer(self._world, self._supervisor)
        self._watcher = Watcher(self._history, every_invariant(self._history))
        self._people = Actors(self._history, story.seed)
        self._faults: dict[str, Callable[[TrialPiece], None]] = {
            "watch breaks": lambda piece: self._supervisor.watches.breaking.add(piece.terms["kind"]),
            "watch is too old": lambda piece: self._supervisor.watches.too_old.add(piece.terms["kind"]),
            "watch replays": self._replay,
            "watch lags": self._lag,
            "watch is silent": self._silence,
            "history is forgotten": lambda _: self._world.forget_history(),
            "leader steps down": lambda piece: self._befalls(piece, lambda one: one.stop(piece.terms["down"])),
            "process is killed": lambda piece: self._befalls(piece, lambda one: one.kill(piece.terms["down"])),
            "lease is out of reach": lambda piece: self._befalls(
                piece, lambda one: one.cut_off(piece.terms["seconds"])
            ),
            "machine sleeps": lambda piece: self._befalls(piece, lambda one: one.sleep(piece.terms["seconds"])),
            **carried_out_by(self._world),
            "clock jumps": self._jump,
            **dict.fromkeys(_CALLS, self._supervisor.trouble.arm),
        }
        self._struck = 0

    def _about_to(self, who: str, call: ApiCall) -> None:
        self._watcher.call(who, call, writes=call.operation in WRITES and call.kind != "Lease")

    async def live(self) -> TrialOutcome:
        """From the first instant to rest, or to the first invariant that does not hold."""
        loop = asyncio.get_running_loop()
        complaints = _Complaints(self._history)
        logging.getLogger("dovetail").addHandler(complaints)
        try:
            async with self._world:
                self._world.store.listen_to_all(self._watcher.hear)
                self._world.cloud.listen(self._watcher.instance_changed)
                set_scene(self._world, self._story.scene)
                running = loop.create_task(self._supervisor.run(), name="supervisor")
                try:
                    await self._incidents()
                    await self._settle()
                finally:
                    running.cancel()
                    await asyncio.wait([running])
                if not running.cancelled() and running.exception() is not None:
                    raise RuntimeError("the trial itself failed") from running.exception()
        finally:
            logging.getLogger("dovetail").removeHandler(complaints)
        return self._outcome(loop.time())

    async def _incidents(self) -> None:
        for piece in self._story.incidents:
            await self._until(piece.at)
            if self._history.violations:
                return
            if piece.what in self._faults:
                self._struck += piece.what not in _CALLS
                if piece.what not in _HARMLESS:
                    self._history.note_fault(piece.at, piece.terms)
                self._faults[piece.what](piece)
            else:
                self._people.deeds[piece.what](piece.terms)
        await self._until(self._story.peace_at)

    async def _until(self, at: float) -> None:
        """Let time pass, asking the invariants now and then; not beyond the first that does not hold."""
        loop = asyncio.get_running_loop()
        while loop.time() < at:
            await asyncio.sleep(min(LOOK_EVERY, at - loop.time()))
            if self._over():
                return

    async def _settle(self) -> None:
        """Nothing fails any more: the cluster must come to rest, and stay clean while it does."""
        if self._over():
            return
        loop = asyncio.get_running_loop()
        self._supervisor.calm()
        self._people.make_peace()
        ends_at = loop.time() + TIME_TO_SETTLE
        await asyncio.sleep(5 * LOOK_EVERY)
        while not self._over() and unrest(self._world):
            if loop.time() >= ends_at:
                self._history.violations.extend(verdicts(self._world, loop.time()))
                return
            await asyncio.sleep(LOOK_EVERY)

    def _over(self) -> bool:
        self._watcher.look()
        if self._supervisor.broken is not None:
            self._history.broken(ALIVE, f"they stopped by themselves: {self._supervisor.broken!r}")
        return bool(self._history.violations)

    def _outcome(self, seconds: float) -> TrialOutcome:
        supervisor, history = self._supervisor, self._history
        faults = supervisor.trouble.injected + supervisor.watches.injected + self._struck
        decisions = len(history.commands) + history.created_claims
        figures = TrialFigures(1, seconds, faults, supervisor.crashes, history.handovers, decisions)
        fingerprint = hash_of(self._world)
        return TrialOutcome(self._story, tuple(history.violations), figures, fingerprint)

    def _befalls(self, piece: TrialPiece, what: Callable[[Replica], None]) -> None:
        """Something happens to one of the replicas."""
        replica = self._supervisor.picked(leads=piece.terms["leads"])
        if replica is not None:
            what(replica)

    def _replay(self, piece: TrialPiece) -> None:
        self._supervisor.watches.replaying[piece.terms["kind"]] = piece.terms["steps"]

    def _lag(self, piece: TrialPiece) -> None:
        until = asyncio.get_running_loop().time() + piece.terms["seconds"]
        self._supervisor.watches.lagging_until[piece.terms["kind"]] = until

    def _silence(self, piece: TrialPiece) -> None:
        now = asyncio.get_running_loop().time()
        self._supervisor.watches.silent[piece.terms["kind"]] = now, now + piece.terms["seconds"]

    def _jump(self, piece: TrialPiece) -> None:
        clock = self._supervisor.clock
        clock.jump(timedelta(seconds=piece.terms["seconds"]))
        asyncio.get_running_loop().call_later(piece.terms["lasts"], clock.jump, timedelta())


class _Complaints(logging.Handler):
    """A round that broke is a bug of ours, even if the next one goes well."""

    def __init__(self, history: Observer) -> None:
        super().__init__(logging.ERROR)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        """Note exceptions that nobody expected."""
        if record.exc_info is not None and record.exc_info[1] is not None:
            self._history.broken(ALIVE, f"{record.getMessage()}: {record.exc_info[1]!r}")


def hash_of(world: World) -> int:
    """A number for the whole event log."""
    return zlib.crc32(world.log_bytes())


def live_through(story: Trial, launch: StartController, validate: Validator | None = None) -> TrialOutcome:
    """Live through a story on a loop of its own."""

    async def main() -> TrialOutcome:
        return await TrialRunner(story, launch, validate).live()

    return run(main(), limit=story.peace_at + TIME_TO_SETTLE + 3600.0)


Tell = Callable[[Trial], TrialOutcome]


def shrink(outcome: TrialOutcome, tell: Tell, most: int = 60) -> TrialOutcome:
    """The outcome of the shortest story found that breaks the first invariant this one broke."""
    name = outcome.violations[0].invariant
    best, left = _without_the_rest(outcome, tell), most
    size = max(1, len(best.story.ids) // 2)
    while left > 0:
        smaller, left = _pass(best, size, name, tell, left)
        if smaller is None and size == 1:
            break
        best = smaller or best
        size = max(1, min(size // 2 if smaller is None else size, len(best.story.ids) // 2))
    return best


def _without_the_rest(outcome: TrialOutcome, tell: Tell) -> TrialOutcome:
    """What comes after the invariant was broken cannot have broken it."""
    at = outcome.violations[0].at
    shorter = outcome.story.keeping(lambda piece: piece.at <= at)
    again = tell(shorter)
    return again if _breaks(again, outcome.violations[0].invariant) else outcome


def _pass(best: TrialOutcome, size: int, name: str, tell: Tell, left: int) -> tuple[TrialOutcome | None, int]:
    """Leave out each stretch of `size` pieces in turn; the first that is not needed is gone."""
    found: TrialOutcome | None = None
    start = 0
    while left > 0 and start < len(best.story.ids):
        ids = best.story.ids
        again = tell(best.story.only([*ids[:start], *ids[start + size :]]))
        left -= 1
        if _breaks(again, name):
            best = found = again
        else:
            start += size
    return found, left


def _breaks(outcome: TrialOutcome, name: str) -> bool:
    return any(each.invariant == name for each in outcome.violations)
