"""How fast virtual time goes by: waits in real time before each jump, and asks for a frame whenever one is due.

The world never learns of it, so a run is the same at every speed. Asked to stop, it waits no more.

What a run came to, as a value and in words. Virtual time only: real time differs from run to run.

Runs the demo: plays its scenario on an embedded world with the real controllers, and shows every decision.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from dovetail.cli.demo.decision_feed import Entry, Feed
from dovetail.cli.demo.scenario import demo_scenario
from dovetail.cli.simulation.runner import settings_of
from dovetail.cli.view.printing import counted
from dovetail.cloud.kwok.catalog import CATALOGS
from dovetail.model.duration import Duration
from dovetail.model.snapshot import Snapshot
from dovetail.sim.scenario.document import Scenario
from dovetail.sim.scenario.meter import Meter
from dovetail.sim.scenario.player import Player
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import Assembly
from dovetail.wiring.embedded import embedded
from dovetail.wiring.live import look

_LONGEST_LAG = 0.5  # seconds behind before the world is no longer hurried to catch up


@dataclass(slots=True)
class Pacer:
    """The pace of one run. `draw` gets the virtual time to show; `clock` and `sleep` are those of the machine."""

    speed: float | None
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    draw: Callable[[float], None] | None = None
    frame: float = 0.125
    on_stop: Callable[[], None] | None = None
    _stopped: bool = False
    _began: tuple[float, float] | None = None  # real and virtual
    _drawn_at: float = field(default=float("-inf"))

    def stop(self) -> None:
        """Wait no more; tell the run at the next jump. Safe in a signal handler."""
        self._stopped = True

    def __call__(self, when: float) -> None:
        """Time is about to jump to `when`."""
        if self._stopped:
            if self.on_stop is not None:
                self.on_stop()
            return
        if self.speed is None:
            self._draw_if_due(self.clock(), when)
        else:
            self._wait(when, self.speed)

    def _wait(self, when: float, speed: float) -> None:
        now = self.clock()
        if self._began is None:
            self._began = (now, 0.0)
        real, virtual = self._began
        target = real + (when - virtual) / speed
        while now < target and not self._stopped:
            self._draw_if_due(now, virtual + (now - real) * speed)
            self.sleep(max(0.0, min(target - now, self.frame)))
            now = self.clock()
        self._draw_if_due(now, when)
        if now - target > _LONGEST_LAG:
            self._began = (now, when)

    def _draw_if_due(self, now: float, virtual: float) -> None:
        if self.draw is not None and now - self._drawn_at >= self.frame:
            self._drawn_at = now
            self.draw(virtual)


NEXT_STEPS = (
    ("dovetail validate FILE", "check your own NodePools; needs no cluster"),
    ("dovetail demo -f FILE", "live through this story with them"),
    ("dovetail plan", "say what would be taken from a cluster, and why not more"),
    ("dovetail crds", "print the custom resources for a cluster"),
    ("dovetail run", "run these same controllers on it"),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a run."""

    seed: int
    catalog: str
    seconds: float
    interrupted: bool
    meter: Meter

    @property
    def lived(self) -> str:
        """Virtual time, in whole seconds."""
        return str(Duration.of(timedelta(seconds=int(self.seconds))))

    @property
    def spent(self) -> float:
        """Dollars."""
        return self.meter.spent(self.seconds)

    @property
    def hourly(self) -> float:
        """Dollars an hour, on average."""
        return self.spent / (self.seconds / 3600) if self.seconds else 0.0

    def as_data(self) -> dict[str, Any]:
        """For scripts."""
        meter = self.meter
        waits = {name: round(seconds, 3) for name, seconds in _waits(meter.waits)}
        return {
            "seed": self.seed,
            "catalog": self.catalog,
            "virtualSeconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
            "nodes": {
                "launched": meter.launched,
                "removed": meter.removed,
                "peak": meter.most_nodes,
                "atEnd": len(meter.running),
            },
            "pods": {"started": len(meter.waits), "pending": len(meter.pending_since), "pendingSeconds": waits},
            "cost": {
                "total": round(self.spent, 4),
                "averagePerHour": round(self.hourly, 4),
                "perHourAtEnd": round(meter.hourly, 4),
            },
            "apiCalls": meter.calls,
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """For people: what, and how much."""
        meter = self.meter
        yield "virtual time", f"{self.lived}{', then interrupted' if self.interrupted else ''} (seed {self.seed})"
        left = len(meter.running)
        yield (
            "nodes",
            f"{meter.launched} launched, {meter.removed} removed, {meter.most_nodes} at most, {left} at the end",
        )
        pending = f", {counted(len(meter.pending_since), 'pod')} still pending" if len(meter.pending_since) else ""
        yield "pods", f"{counted(len(meter.waits), 'pod')} started{pending}"
        told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in _waits(meter.waits))
        yield "pending time", told or "none"
        yield (
            "cost",
            f"${self.spent:.2f} in all, ${self.hourly:.2f}/h on average, ${meter.hourly:.2f}/h at the end",
        )
        yield "API calls", f"{meter.calls:,}"


def _waits(waits: Sequence[float]) -> Iterator[tuple[str, float]]:
    ordered = sorted(waits)
    if ordered:
        yield "p50", _percentile(ordered, 50)
        yield "p95", _percentile(ordered, 95)
        yield "max", ordered[-1]


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """By nearest rank: a wait that some pod really had."""
    return ordered[-(-len(ordered) * percent // 100) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What was asked for."""

    scenario: Scenario
    speed: float | None = None  # virtual seconds a second; None as fast as it goes
    ledger: str = ""  # the file decisions are written to, if any
    page: str = ""  # where the page is, if it is served


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything a view may read while the demo runs."""

    options: DemoOptions
    world: World
    parts: Assembly
    feed: Feed
    meter: Meter
    player: Player
    look: Callable[[], Awaitable[Snapshot]]


def run_demo(
    options: DemoOptions, pacer: Pacer, show: Callable[[Entry], None], opened: Callable[[Stage], None]
) -> Summary:
    """Run the demo. `show` gets every line of the feed, `opened` the stage before the first of them."""
    return run(_run(options, pacer, show, opened), pace=pacer)


async def _run(
    options: DemoOptions, pacer: Pacer, show: Callable[[Entry], None], opened: Callable[[Stage], None]
) -> Summary:
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    pacer.on_stop = interrupted.set
    scenario = options.scenario
    settings = replace(settings_of(scenario), ledger=options.ledger)
    async with embedded(WorldOptions(seed=scenario.seed, epoch=scenario.start), settings) as cluster:
        world, parts = cluster.world, cluster.parts
        feed = Feed(world, loop.time, show)
        meter = Meter(feed.settled)
        meter.watch(world, loop.time)
        player = Player(world, scenario, show=feed.play)
        player.prepare()
        seen = partial(look, parts.manager.state, parts.supplier, world.clock)
        opened(Stage(options, world, parts, feed, meter, player, seen))
        with _listening(feed):
            async with player.playing():
                try:
                    async with asyncio.timeout(scenario.lasts.seconds):
                        await interrupted.wait()
                except TimeoutError:
                    pass
                finally:
                    pacer.stop()
            return Summary(scenario.seed, scenario.catalog, loop.time(), interrupted.is_set(), meter)


def snapshot_at(seconds: float, seed: int, catalog: str) -> Snapshot:
    """What the controllers of the demo knew after so many seconds. The same arguments give the same snapshot."""
    taken: list[Snapshot] = []

    def opened(stage: Stage) -> None:
        def take() -> None:
            taken.append(stage.parts.manager.state.snapshot(stage.world.clock.now(), {}))

        asyncio.get_running_loop().call_at(seconds, take)

    # A moment longer than asked for, so that the end of the demo is not in the snapshot.
    scenario = demo_scenario(f"{seconds + 1}s", seed=seed, catalog=catalog)
    run_demo(DemoOptions(scenario=scenario), Pacer(None, time.monotonic, time.sleep), lambda _: None, opened)
    return replace(taken[0], catalogs=dict.fromkeys(taken[0].nodepools, CATALOGS[catalog]()))


@contextmanager
def _listening(feed: Feed) -> Iterator[None]:
    """The controllers' log goes to the feed, and nowhere else."""
    logger = logging.getLogger("dovetail")
    level, propagate = logger.level, logger.propagate
    logger.addHandler(feed)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(feed)
        logger.setLevel(level)
        logger.propagate = propagate
