"""The controller replicas of a trial: two processes that compete for the Lease, and optionally one in dry run.

A `Replica` runs one process after another. Each start is a new process with a new identity in the leader election; it
knows nothing but the API objects. A process ends by a crash, an orderly stop or the loss of the Lease, and the next one
starts after a delay. A crashed process has no further effect on the cluster.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random
from typing import NoReturn

from dovetail.model.kube_object import Key
from dovetail.runtime.leader_election import LeaderElection, LeaseDurations, LeaseHolder
from dovetail.runtime.leader_term import LeaderTerm, TermEnd
from dovetail.sim.torture.controller_process import ControllerProcess, Offering, SkewedClock, StartController
from dovetail.sim.torture.fault_injector import FaultInjector, ProcessState
from dovetail.sim.torture.flaky_connection import FlakyConnection, WatchFaults
from dovetail.sim.world import ApiCall, World

LEASE_KEY = Key("default", "dovetail")
LEASE_DURATIONS = LeaseDurations(duration=30.0, renew_deadline=20.0, retry=5.0, stop=6.0)
"""Longer than the defaults, in the same proportions: fewer renewals make a trial faster."""
RESTART_SECONDS = 1.0  # from the end of a process to the next start, unless the fault says otherwise


class ControllersDidNotStop(RuntimeError):
    """The controllers still run after their time to stop. A real process would exit immediately."""


class ReplicaEnvironment:
    """What all replicas share: the cluster, the faults and the clock."""

    def __init__(self, world: World, start_controllers: StartController, fault_injector: FaultInjector) -> None:
        self.world = world
        self.start_controllers = start_controllers
        self.fault_injector = fault_injector
        self.watches = WatchFaults()
        self.clock = SkewedClock(world.clock)

    def connect(self, process_state: ProcessState) -> FlakyConnection:
        """A connection to the cluster for one process."""
        return FlakyConnection(self.world, self.fault_injector, self.watches, process_state)


class Replica:
    """Runs one process after another, never two at once."""

    def __init__(self, name: str, environment: ReplicaEnvironment) -> None:
        self.process: ControllerProcess | None = None
        self.crashes = 0
        self._name = name
        self._environment = environment
        self._start_count = 0
        self._process_state = ProcessState(name, self._on_crash)
        self._election: LeaderElection | None = None
        self._suspended_seconds = 0.0
        self._restart_delay = RESTART_SECONDS
        self._crashed = asyncio.Event()
        self._stopped = asyncio.Event()

    @property
    def leads(self) -> bool:
        """Whether its process holds the Lease."""
        return self._election is not None and self._election.holds()

    def kill(self, down: float) -> None:
        """Crash the process, and start the next one after `down` seconds."""
        if self.process is not None and not self._process_state.dead:
            self._process_state.die(down)

    def stop(self, down: float) -> None:
        """Stop the process in an orderly way, and start the next one after `down` seconds."""
        self._restart_delay = down
        self._stopped.set()

    def block_lease(self, seconds: float) -> None:
        """Make the Lease unreachable for the process."""
        self._process_state.lease_blocked_until = asyncio.get_running_loop().time() + seconds

    def suspend(self, seconds: float) -> None:
        """Advance the monotonic clock of the process, as after a suspended virtual machine resumes."""
        self._suspended_seconds += seconds

    def clear_faults(self) -> None:
        """Make the Lease reachable again."""
        self._process_state.lease_blocked_until = 0.0

    def _on_crash(self, down: float) -> None:
        self.crashes += 1
        self._restart_delay = down
        self._crashed.set()

    async def run(self) -> None:
        """Run one process after another until cancelled. Raises what a process does not handle."""
        while True:
            await self._run_process()
            await asyncio.sleep(self._restart_delay)

    async def _run_process(self) -> None:
        self._start_count += 1
        self._restart_delay = RESTART_SECONDS
        self._crashed.clear()
        self._stopped.clear()
        self._process_state = ProcessState(f"{self._name}-{self._start_count}", self._on_crash)
        connection = self._environment.connect(self._process_state)
        self._election = self._create_election(connection)
        self.process = self._environment.start_controllers(connection, self._environment.clock)
        term = LeaderTerm(self.process.gate, self.process.run, self._stopped, _raise_not_stopped, self._election)
        try:
            await self._run_until_crash(term)
        finally:
            process, self.process, self._election = self.process, None, None
            await process.aclose()

    def _create_election(self, connection: FlakyConnection) -> LeaderElection:
        loop, identity = asyncio.get_running_loop(), self._process_state.identity
        rng = Random(identity)  # noqa: S311 - reproducible, not secret
        lease_holder = LeaseHolder(LEASE_KEY, identity, LEASE_DURATIONS)
        clock = self._environment.clock
        return LeaderElection(connection, lease_holder, clock, rng, lambda: loop.time() + self._suspended_seconds)

    async def _run_until_crash(self, term: LeaderTerm) -> None:
        loop = asyncio.get_running_loop()
        running = loop.create_task(term.run(), name="leader term")
        crashing = loop.create_task(self._crashed.wait(), name="crash")
        try:
            await asyncio.wait([running, crashing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            crashing.cancel()
            running.cancel()
            await asyncio.wait([running, crashing])
        if self._crashed.is_set() or running.cancelled():
            return
        if running.result() is TermEnd.STOPPED and not self._stopped.is_set():
            raise RuntimeError("the controllers stopped without a request to stop")


class DryRunReplica:
    """A process in dry run: takes no part in the election and must not write. It never crashes."""

    def __init__(self, environment: ReplicaEnvironment) -> None:
        self._environment = environment

    async def run(self) -> None:
        """Run until cancelled."""
        environment = self._environment
        connection = environment.connect(ProcessState("dry-run", lambda _: None, crashes=False))
        process = environment.start_controllers(connection, environment.clock, dry_run=True)
        try:
            await process.run()
        finally:
            await process.aclose()


def _raise_not_stopped() -> NoReturn:
    raise ControllersDidNotStop("the controllers did not stop in time after losing the Lease")


REPLICA_NAMES = ("left", "right")


class Supervisor:
    """Runs both replicas, and optionally a third process in dry run, and holds the faults around them."""

    def __init__(
        self,
        world: World,
        start_controllers: StartController,
        on_call: Callable[[str, ApiCall], None],
        *,
        dry_run: bool = False,
    ) -> None:
        self.fault_injector = FaultInjector(on_call)
        self.environment = ReplicaEnvironment(world, start_controllers, self.fault_injector)
        self.watches = self.environment.watches
        self.clock = self.environment.clock
        self.replicas = tuple(Replica(name, self.environment) for name in REPLICA_NAMES)
        self._dry_run = DryRunReplica(self.environment) if dry_run else None
        self.failure: BaseException | None = None
        self._prices: Mapping[Offering, float] = {}

    @property
    def crashes(self) -> int:
        """The number of crashes of all replicas."""
        return sum(each.crashes for each in self.replicas)

    @property
    def prices(self) -> Mapping[Offering, float]:
        """The hourly price of every offering; empty until a process has started."""
        if not self._prices:
            self._prices = next((each.process.prices for each in self.replicas if each.process is not None), {})
        return self._prices

    def find_replica(self, *, leads: bool) -> Replica | None:
        """The leader, or a replica that does not lead."""
        return next((each for each in self.replicas if each.leads is leads), None)

    def clear_faults(self) -> None:
        """End all faults."""
        self.fault_injector.clear_faults()
        self.watches.clear_faults()
        self.clock.set_offset(timedelta())
        self.environment.world.cloud.calm()
        for each in self.replicas:
            each.clear_faults()

    async def run(self) -> None:
        """Run until cancelled. An exception that a process does not handle becomes `failure`."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, each in zip(REPLICA_NAMES, self.replicas, strict=True):
                    tasks.create_task(each.run(), name=name)
                if self._dry_run is not None:
                    tasks.create_task(self._dry_run.run(), name="dry run")
        except* Exception as failed:  # noqa: BLE001 - the runner reports it as a violation
            self.failure = failed.exceptions[0]
