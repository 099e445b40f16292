"""Runs the demo: plays its scenario on an embedded world with the real controllers, and shows every decision."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from dovetail.cli.demo.decision_feed import Entry, Feed
from dovetail.cli.demo.pacing import Pacer
from dovetail.cli.demo.scenario import demo_scenario
from dovetail.cli.demo.summary import Summary
from dovetail.cli.simulation.runner import settings_of
from dovetail.cloud.kwok.catalog import CATALOGS
from dovetail.model.snapshot import Snapshot
from dovetail.sim.scenario.document import Scenario
from dovetail.sim.scenario.meter import Meter
from dovetail.sim.scenario.player import Player
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import Assembly
from dovetail.wiring.embedded import embedded
from dovetail.wiring.live import look


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
