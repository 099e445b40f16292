"""One run of the story: the embedded world with the real controllers on it, listened to from start to end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from dovetail.cli.story.director import Director
from dovetail.cli.story.feed import DecisionFeed, FeedEntry
from dovetail.cli.story.names import counted
from dovetail.cli.story.pace import Pacer
from dovetail.cli.story.script import Plain, load_story, load_workloads
from dovetail.cli.story.summary import Summary
from dovetail.cli.story.tally import DemoTally
from dovetail.model.snapshot import Snapshot
from dovetail.settings import Settings
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import Assembly
from dovetail.wiring.embedded import embedded
from dovetail.wiring.live import look


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """What was asked for."""

    seconds: float
    speed: float | None  # virtual seconds a second; None as fast as it goes
    seed: int
    catalog: str
    nodepools: tuple[Plain, ...]
    ledger: str = ""  # the file decisions are written to, if any
    page: str = ""  # where the page is, if it is served


@dataclass(frozen=True, slots=True)
class DemoRun:
    """Everything a view may read while the story is played."""

    plan: DemoPlan
    world: World
    parts: Assembly
    feed: DecisionFeed
    tally: DemoTally
    director: Director
    look: Callable[[], Awaitable[Snapshot]]


def perform(
    plan: DemoPlan, pacer: Pacer, show: Callable[[FeedEntry], None], opened: Callable[[DemoRun], None]
) -> Summary:
    """Live through the story. `show` gets every line of the feed, `opened` the stage before the first of them."""
    return run(_live(plan, pacer, show, opened), pace=pacer)


async def _live(
    plan: DemoPlan, pacer: Pacer, show: Callable[[FeedEntry], None], opened: Callable[[DemoRun], None]
) -> Summary:
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    pacer.on_stop = interrupted.set
    settings = Settings(catalog=plan.catalog, disruption="on", ledger=plan.ledger)
    async with embedded(WorldOptions(seed=plan.seed), settings) as cluster:
        world = cluster.world
        feed = DecisionFeed(world, loop.time, show)
        tally = DemoTally(lambda number, slowest: feed.tell("settled", _settled(number, slowest)))
        tally.watch(world)
        director = Director(world, feed, load_story(), load_workloads())
        director.prepare(plan.nodepools)
        parts = cluster.parts
        seen = partial(look, parts.manager.state, parts.supplier, world.clock)
        opened(DemoRun(plan, world, parts, feed, tally, director, seen))
        with _listening(feed):
            playing = loop.create_task(director.play())
            try:
                async with asyncio.timeout(plan.seconds):
                    await interrupted.wait()
            except TimeoutError:
                pass
            finally:
                pacer.stop()
                playing.cancel()
            return Summary(plan.seed, plan.catalog, loop.time(), interrupted.is_set(), tally)


def _settled(number: int, slowest: float) -> str:
    return f"no pod waits: {counted(number, 'pod')} started, the slowest after {slowest:.0f} s"


@contextmanager
def _listening(feed: DecisionFeed) -> Iterator[None]:
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
