"""One replica of the controllers in a story: it stands for the office, works while it holds it, and may die any time.

Whoever starts again is a new process with nothing but the API objects, and a new name in the election. A dead one has
no effect any more.

Keeps two replicas of the controllers alive, and lets befall them what the story says.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random
from typing import NoReturn

from dovetail.model.kube_object import Key
from dovetail.runtime.leader_election import LeaderElection, LeaseDurations, LeaseHolder
from dovetail.runtime.leader_term import LeaderTerm, TermEnd
from dovetail.sim.torture.controller_process import ControllerProcess, Offering, StartController, WrongClock
from dovetail.sim.torture.fault_injector import FaultInjector, Lifeline
from dovetail.sim.torture.flaky_connection import FlakyConnection, WatchFaults
from dovetail.sim.world import ApiCall, World

OFFICE = Key("default", "dovetail")
TERMS = LeaseDurations(duration=30.0, renew_deadline=20.0, retry=5.0, stop=6.0)
"""Longer than in earnest, in proportion: most of what a quiet hour costs would be renewals."""
RESTART = 1.0  # seconds from the end of a process to the next, unless the story says otherwise


class Stuck(RuntimeError):
    """The work did not stop when its time was over; a real process would have been ended by force."""


class ReplicaEnvironment:
    """What every replica meets: the world, what fails on the way there, and a clock that may be wrong."""

    def __init__(self, world: World, launch: StartController, trouble: FaultInjector) -> None:
        self.world = world
        self.launch = launch
        self.trouble = trouble
        self.watches = WatchFaults()
        self.clock = WrongClock(world.clock)


class Replica:
    """One process after the other, never two at once."""

    def __init__(self, name: str, around: ReplicaEnvironment) -> None:
        self.process: ControllerProcess | None = None
        self.crashes = 0
        self._name = name
        self._around = around
        self._lives = 0
        self._life = Lifeline(name, self._fall)
        self._election: LeaderElection | None = None
        self._asleep = 0.0
        self._pause = RESTART
        self._fell = asyncio.Event()
        self._stopped = asyncio.Event()

    @property
    def leads(self) -> bool:
        """Whether it may act."""
        return self._election is not None and self._election.holds()

    # -- what befalls it

    def kill(self, down: float) -> None:
        """Die, wherever it is."""
        if self.process is not None and not self._life.dead:
            self._life.die(down)

    def stop(self, down: float) -> None:
        """End in good order."""
        self._pause = down
        self._stopped.set()

    def cut_off(self, seconds: float) -> None:
        """The Lease is out of reach."""
        self._life.cut_off_until = asyncio.get_running_loop().time() + seconds

    def sleep(self, seconds: float) -> None:
        """The machine was suspended: its own clock says that more time has passed than it noticed."""
        self._asleep += seconds

    def calm(self) -> None:
        """Nothing befalls it any more."""
        self._life.cut_off_until = 0.0

    def _fall(self, down: float) -> None:
        self.crashes += 1
        self._pause = down
        self._fell.set()

    # -- its lives

    async def run(self) -> None:
        """One process after the other until cancelled. What a process cannot handle is raised."""
        while True:
            await self._live()
            await asyncio.sleep(self._pause)

    async def _live(self) -> None:
        around = self._around
        self._lives += 1
        self._pause = RESTART
        self._fell.clear()
        self._stopped.clear()
        self._life = Lifeline(f"{self._name}-{self._lives}", self._fall)
        connection = FlakyConnection(around.world, around.trouble, around.watches, self._life)
        self._election = self._stand(connection)
        self.process = around.launch(connection, around.clock)
        shift = LeaderTerm(self.process.gate, self.process.run, self._stopped, _stuck, self._election)
        try:
            await self._work(shift)
        finally:
            process, self.process, self._election = self.process, None, None
            await process.aclose()

    def _stand(self, connection: FlakyConnection) -> LeaderElection:
        loop = asyncio.get_running_loop()
        dice = Random(self._life.identity)  # noqa: S311 - reproducible, not secret
        lease_holder = LeaseHolder(OFFICE, self._life.identity, TERMS)
        return LeaderElection(connection, lease_holder, self._around.clock, dice, lambda: loop.time() + self._asleep)

    async def _work(self, shift: LeaderTerm) -> None:
        loop = asyncio.get_running_loop()
        running = loop.create_task(shift.run(), name="shift")
        falling = loop.create_task(self._fell.wait(), name="fall")
        try:
            await asyncio.wait([running, falling], return_when=asyncio.FIRST_COMPLETED)
        finally:
            falling.cancel()
            running.cancel()
            await asyncio.wait([running, falling])
        if self._fell.is_set() or running.cancelled():
            return
        if running.result() is TermEnd.STOPPED and not self._stopped.is_set():
            raise RuntimeError("the controllers came to an end")


class DryRunReplica:
    """A process that stands for nothing and must write nothing; nothing befalls it but what befalls every call."""

    def __init__(self, around: ReplicaEnvironment) -> None:
        self._around = around

    async def run(self) -> None:
        """Run until cancelled."""
        around = self._around
        life = Lifeline("dry-run", lambda _: None, crashes=False)
        connection = FlakyConnection(around.world, around.trouble, around.watches, life)
        process = around.launch(connection, around.clock, dry_run=True)
        try:
            await process.run()
        finally:
            await process.aclose()


def _stuck() -> NoReturn:
    raise Stuck("the controllers do not stop when their time is over")


NAMES = ("left", "right")


class Supervisor:
    """Both replicas, what goes wrong around them, and perhaps a third process that only says what it would do."""

    def __init__(
        self, world: World, launch: StartController, witness: Callable[[str, ApiCall], None], *, dry_run: bool = False
    ) -> None:
        self.trouble = FaultInjector(witness)
        self.around = ReplicaEnvironment(world, launch, self.trouble)
        self.watches = self.around.watches
        self.clock = self.around.clock
        self.replicas = tuple(Replica(name, self.around) for name in NAMES)
        self._dry_run = DryRunReplica(self.around) if dry_run else None
        self.broken: BaseException | None = None
        self._prices: Mapping[Offering, float] = {}

    @property
    def crashes(self) -> int:
        """How often one of them died."""
        return sum(each.crashes for each in self.replicas)

    @property
    def prices(self) -> Mapping[Offering, float]:
        """What everything costs an hour."""
        if not self._prices:
            self._prices = next((each.process.prices for each in self.replicas if each.process is not None), {})
        return self._prices

    def picked(self, *, leads: bool) -> Replica | None:
        """The replica that leads, or one that does not, if there is one."""
        return next((each for each in self.replicas if each.leads is leads), None)

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.trouble.calm()
        self.watches.calm()
        self.clock.jump(timedelta())
        self.around.world.cloud.calm()
        for each in self.replicas:
            each.calm()

    async def run(self) -> None:
        """Run until cancelled. What a process cannot handle is kept, and ends the story."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, each in zip(NAMES, self.replicas, strict=True):
                    tasks.create_task(each.run(), name=name)
                if self._dry_run is not None:
                    tasks.create_task(self._dry_run.run(), name="dry run")
        except* Exception as failed:  # noqa: BLE001 - whatever it is, the story tells it
            self.broken = failed.exceptions[0]
