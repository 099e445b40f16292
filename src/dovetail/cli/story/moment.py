"""The cluster of the story at one moment: played that far as fast as it goes, then kept as a Snapshot."""

import asyncio
import time
from dataclasses import replace

from dovetail.cli.story.feed import FeedEntry
from dovetail.cli.story.pace import Pacer
from dovetail.cli.story.performance import DemoPlan, DemoRun, perform
from dovetail.cli.story.script import load_nodepools
from dovetail.cloud.kwok.catalog import CATALOGS
from dovetail.model.snapshot import Snapshot


def snapshot_of_story(seconds: float, seed: int, catalog: str) -> Snapshot:
    """What the controllers knew after so many seconds. The same arguments give the same snapshot."""
    taken: list[Snapshot] = []

    def opened(stage: DemoRun) -> None:
        def take() -> None:
            taken.append(stage.parts.manager.state.snapshot(stage.world.clock.now(), {}))

        asyncio.get_running_loop().call_at(seconds, take)

    # A moment longer than asked for, so that the end of the story is not in the snapshot.
    plan = DemoPlan(seconds=seconds + 1, speed=None, seed=seed, catalog=catalog, nodepools=load_nodepools())
    perform(plan, Pacer(None, time.monotonic, time.sleep), _unheard, opened)
    snapshot = taken[0]
    types = CATALOGS[catalog]()
    return replace(snapshot, catalogs=dict.fromkeys(snapshot.nodepools, types))


def _unheard(_: FeedEntry) -> None:
    pass
