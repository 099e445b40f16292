"""Runs the demo: plays its scenario on an embedded world with the real controllers, paced to real time.

`Pacer` waits before each jump of the virtual loop and requests frames of the live view. It does not affect the world,
so a run is the same at every speed. `Summary` has the results, in virtual time only.
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
from dovetail.cli.view.printing import counted, document_type, saved
from dovetail.cloud.kwok.catalog import CATALOGS
from dovetail.core.savings import saved_dollars
from dovetail.model.duration import Duration
from dovetail.model.snapshot import Snapshot
from dovetail.sim.scenario.document import Scenario
from dovetail.sim.scenario.meter import Meter
from dovetail.sim.scenario.player import Player
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import Assembly
from dovetail.wiring.embedded import embedded
from dovetail.wiring.live import snapshot_from_state

_LONGEST_LAG = 0.5  # seconds; a run that is further behind does not catch up


@dataclass(slots=True)
class Pacer:
    """Paces one run. `draw` gets the virtual time to show; `clock` and `sleep` use real time."""

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
        """Stop waiting, and call `on_stop` at the next jump. Safe in a signal handler."""
        self._stopped = True

    def __call__(self, when: float) -> None:
        """Wait until it is time for a jump to `when`; called by the virtual loop."""
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
    ("dovetail demo -f FILE", "run this demo with them"),
    ("dovetail plan", "show which nodes of a cluster would be removed, and why not more"),
    ("dovetail crds", "print the CustomResourceDefinitions for a cluster"),
    ("dovetail run", "run these controllers on a cluster"),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of a run."""

    seed: int
    catalog: str
    seconds: float
    interrupted: bool
    meter: Meter
    saved: float = 0.0  # dollars that disruption saved

    @property
    def virtual_time(self) -> str:
        """The virtual time in whole seconds."""
        return str(Duration.of(timedelta(seconds=int(self.seconds))))

    @property
    def spent(self) -> float:
        """The total cost in dollars."""
        return self.meter.spent(self.seconds)

    @property
    def hourly(self) -> float:
        """The average cost per hour in dollars."""
        return self.spent / (self.seconds / 3600) if self.seconds else 0.0

    def as_data(self) -> dict[str, Any]:
        """Build the document for scripts."""
        meter = self.meter
        waits = {name: round(seconds, 3) for name, seconds in _waits(meter.waits)}
        return {
            **document_type("DemoSummary"),
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
                "savedByDisruption": round(self.saved, 4),
            },
            "apiCalls": meter.calls,
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the rows of the text form: name and value."""
        meter = self.meter
        yield (
            "virtual time",
            f"{self.virtual_time}{', then interrupted' if self.interrupted else ''} (seed {self.seed})",
        )
        left = len(meter.running)
        yield (
            "nodes",
            f"{meter.launched} launched, {meter.removed} removed, {meter.most_nodes} at most, {left} at the end",
        )
        pending = f", {counted(len(meter.pending_since), 'pod')} still pending" if len(meter.pending_since) else ""
        yield "pods", f"{counted(len(meter.waits), 'pod')} started{pending}"
        waits = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in _waits(meter.waits))
        yield "pending time", waits or "none"
        yield (
            "cost",
            f"${self.spent:.2f} in total, ${self.hourly:.2f}/h on average, ${meter.hourly:.2f}/h at the end",
        )
        yield "disruption", f"{saved(self.saved)} in this time"
        yield "API calls", f"{meter.calls:,}"


def _waits(waits: Sequence[float]) -> Iterator[tuple[str, float]]:
    ordered = sorted(waits)
    if ordered:
        yield "p50", _percentile(ordered, 50)
        yield "p95", _percentile(ordered, 95)
        yield "max", ordered[-1]


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the percentile by nearest rank, which is the wait of an actual pod."""
    return ordered[-(-len(ordered) * percent // 100) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of a demo."""

    scenario: Scenario
    speed: float | None = None  # virtual seconds per real second; None for as fast as possible
    ledger: str = ""  # file of the ledger, if any
    page: str = ""  # address of the dashboard, if it is served


@dataclass(frozen=True, slots=True)
class Stage:
    """The parts of a running demo that views read."""

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
    """Run the demo. `show` gets every entry of the feed; `opened` gets the stage before the first entry."""
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
        look = partial(snapshot_from_state, parts.manager.state, parts.supplier, world.clock)
        opened(Stage(options, world, parts, feed, meter, player, look))
        with _logging_to(feed):
            async with player.playing():
                try:
                    async with asyncio.timeout(scenario.lasts.seconds):
                        await interrupted.wait()
                except TimeoutError:
                    pass
                finally:
                    pacer.stop()
            savings = parts.manager.savings.savings(world.clock.now())
            stopped, total = interrupted.is_set(), saved_dollars(savings)
            return Summary(scenario.seed, scenario.catalog, loop.time(), stopped, meter, total)


def snapshot_at(seconds: float, seed: int, catalog: str) -> Snapshot:
    """Return the state of the demo cluster after some seconds. The same arguments give the same snapshot."""
    taken: list[Snapshot] = []

    def opened(stage: Stage) -> None:
        def take() -> None:
            taken.append(stage.parts.manager.state.snapshot(stage.world.clock.now(), {}))

        asyncio.get_running_loop().call_at(seconds, take)

    # One second longer, so that the end of the demo does not affect the snapshot.
    scenario = demo_scenario(f"{seconds + 1}s", seed=seed, catalog=catalog)
    run_demo(DemoOptions(scenario=scenario), Pacer(None, time.monotonic, time.sleep), lambda _: None, opened)
    return replace(taken[0], catalogs=dict.fromkeys(taken[0].nodepools, CATALOGS[catalog]()))


@contextmanager
def _logging_to(feed: Feed) -> Iterator[None]:
    """Send the log of the controllers to the feed only."""
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
