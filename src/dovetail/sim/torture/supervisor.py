"""Keeps two replicas of the controllers alive, and lets befall them what the story says."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta

from dovetail.sim.torture.controller_process import Offering, StartController
from dovetail.sim.torture.fault_injector import FaultInjector
from dovetail.sim.torture.replica import DryRunReplica, Replica, ReplicaEnvironment
from dovetail.sim.world import ApiCall, World

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
