"""The controller process in a story: started, killed, restarted with nothing but the API objects, its clock set wrong.

What runs is handed in, so that this package knows no provider. There is never more than one process alive, and a dead
one has no effect any more.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster
from dovetail.sim.faults.connection import Connection, WatchTrouble
from dovetail.sim.faults.trouble import Trouble
from dovetail.sim.world import Call, World

Offering = tuple[str, str, str]
"""Instance type, zone and capacity type."""


@dataclass(frozen=True)
class Shortage:
    """A zone, a capacity type, or both, that cannot be had for a while."""

    zone: str
    capacity_type: str


class Process(Protocol):
    """The controllers over one connection."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...

    def run_short(self, shortages: Sequence[Shortage]) -> None:
        """These offerings, and only these, cannot be had from now on."""
        ...

    @property
    def prices(self) -> Mapping[Offering, float]:
        """What everything costs an hour."""
        ...


Launch = Callable[[Cluster, Clock], Process]


class WrongClock:
    """The machine's clock of the controllers, which may be off."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.off_by = timedelta()
        self._right_at = clock.now() - timedelta(days=1)
        self._was_off_by = timedelta()

    def now(self) -> datetime:
        """What the controllers take for now."""
        return self._clock.now() + self.off_by

    def jump(self, off_by: timedelta) -> None:
        """The clock is wrong, or right again, from now on."""
        if self.off_by:
            self._right_at, self._was_off_by = self._clock.now(), self.off_by
        self.off_by = off_by

    def recent(self, seconds: float) -> tuple[timedelta, ...]:
        """By how much the clock is, or was within the last seconds, off; being right comes first."""
        lately = self._clock.now() - self._right_at <= timedelta(seconds=seconds)
        return tuple(dict.fromkeys((timedelta(), self.off_by, *((self._was_off_by,) if lately else ()))))


class Supervisor:
    """Keeps one process alive, and lets it die when the story says so."""

    def __init__(self, world: World, launch: Launch, witness: Callable[[Call], None]) -> None:
        self.clock = WrongClock(world.clock)
        self.watches = WatchTrouble()
        self.trouble = Trouble(witness, self._down)
        self.crashes = 0
        self.broken: BaseException | None = None
        self.shortages: list[Shortage] = []
        self.prices: Mapping[Offering, float] = {}
        self._world = world
        self._launch = launch
        self._process: Process | None = None
        self._fell = asyncio.Event()
        self._pause = 0.0
        world.interference = self.trouble

    def _down(self, seconds: float) -> None:
        self.crashes += 1
        self._pause = seconds
        self._fell.set()

    def step_down(self, seconds: float) -> None:
        """Leadership is lost: everything stops in good order, and somebody leads again after a while."""
        self._pause = seconds
        self._fell.set()

    def run_short(self, shortage: Shortage, *, begins: bool) -> None:
        """A shortage begins or ends."""
        if begins:
            self.shortages.append(shortage)
        elif shortage in self.shortages:
            self.shortages.remove(shortage)
        if self._process is not None:
            self._process.run_short(self.shortages)

    async def run(self) -> None:
        """Run one process after the other until cancelled. One that stops by itself ends the story."""
        while self.broken is None:
            self.trouble.dead = False
            self._fell.clear()
            process = self._process = self._launch(Connection(self._world, self.trouble, self.watches), self.clock)
            process.run_short(self.shortages)
            self.prices = process.prices
            await self._live(process)
            await asyncio.sleep(self._pause)

    async def _live(self, process: Process) -> None:
        loop = asyncio.get_running_loop()
        running = loop.create_task(process.run(), name="controllers")
        falling = loop.create_task(self._fell.wait(), name="fall")
        try:
            await asyncio.wait([running, falling], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped_by_itself = running.done()
            falling.cancel()
            running.cancel()
            await asyncio.wait([running, falling])
            self._process = None
            await process.aclose()
        if stopped_by_itself and not self._fell.is_set():
            failed = not running.cancelled() and running.exception() is not None
            self.broken = running.exception() if failed else RuntimeError("the controllers came to an end")
