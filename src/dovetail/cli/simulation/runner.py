"""One run of a scenario: the real controllers on an embedded world on virtual time, measured from start to end.

A run is a function of its scenario and nothing else: the same scenario and seed give the same report, in this process,
in another, or on another machine. How long it took is told beside the report, never in it.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dovetail.cli.simulation.report import Report, Sample, report_of
from dovetail.cloud.kwok.labels import PRICE
from dovetail.core.bound import BoundUnavailable, Floor
from dovetail.manifest.snapshot_file import read_snapshot_file
from dovetail.model import kinds
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.cloud import CloudProvider
from dovetail.settings import Settings, read_settings
from dovetail.sim.kubelet import KubeletTiming
from dovetail.sim.loop import run
from dovetail.sim.scenario.adopt import adopt
from dovetail.sim.scenario.document import Scenario
from dovetail.sim.scenario.meter import HOUR, Meter
from dovetail.sim.scenario.play import Player
from dovetail.sim.scenario.trace import Arrival
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.embedded import Embedded, embedded

Progress = Callable[[float], None]
"""Called now and then with the virtual seconds lived through."""

DAY = 86_400.0
OBJECTS_BETWEEN_COLLECTIONS = 200_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run, and how long it took."""

    report: Report
    real_seconds: float


def settings_of(scenario: Scenario) -> Settings:
    """How the controllers run in a scenario; ValueError with every fault of what it says."""
    given = {"catalog": scenario.catalog, "disruption": "on", **scenario.settings}
    if scenario.snapshot:
        given.setdefault("instance_types_file_path", scenario.snapshot)
    return read_settings(given)


def live(scenario: Scenario, trace: tuple[Arrival, ...] = (), progress: Progress | None = None) -> Outcome:
    """Live through a scenario and report."""
    began = time.perf_counter()
    with _rarely_collecting():
        report = run(_live(scenario, trace, progress or (lambda _: None)))
    return Outcome(report, time.perf_counter() - began)


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """Look for garbage in cycles only now and then: a world is large, lives to the end, and makes few of them."""
    usual = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


async def _live(scenario: Scenario, trace: tuple[Arrival, ...], progress: Progress) -> Report:
    kubelet = replace(KubeletTiming(), heartbeat=DAY)  # nobody times leases here
    options = WorldOptions(seed=scenario.seed, epoch=scenario.start, keeps_log=False, kubelet=kubelet)
    async with embedded(options, settings_of(scenario)) as cluster:
        loop = asyncio.get_running_loop()
        meter = Meter(_price)
        meter.watch(cluster.world, loop.time)
        if scenario.snapshot:
            adopt(cluster.world, read_snapshot_file(Path(scenario.snapshot)))
            meter.begin_with(cluster.world.values(kinds.NODE_CLAIM))
        player = Player(cluster.world, scenario, trace)
        player.prepare()
        playing = loop.create_task(player.play())
        try:
            samples = await _sample(scenario, cluster, meter, progress)
        finally:
            playing.cancel()
            await asyncio.wait([playing])
        if not playing.cancelled() and playing.exception() is not None:
            raise RuntimeError("the story could not be played on") from playing.exception()
        meter.close(loop.time())
        return report_of(scenario, meter, samples, player.missed)


async def _sample(scenario: Scenario, cluster: Embedded, meter: Meter, progress: Progress) -> list[Sample]:
    """Look at the cluster every hour until the story is over."""
    loop = asyncio.get_running_loop()
    floor = _Floors(cluster.parts.manager.state, cluster.parts.provider)
    samples: list[Sample] = []
    end = scenario.lasts.seconds
    at = min(HOUR, end)
    while True:
        await asyncio.sleep(at - loop.time())
        samples.append(await _look(at, cluster.world, meter, floor))
        progress(at)
        if at >= end:
            return samples
        at = min(at + HOUR, end)


async def _look(at: float, world: World, meter: Meter, floor: "_Floors") -> Sample:
    pods = [pod for pod in world.values(kinds.POD) if not pod.terminal and not pod.daemon]
    return Sample(
        at=at,
        cost=meter.hourly,
        bound=await floor.of(pods),
        nodes=len(meter.running),
        pods=len(pods),
        pending=len(meter.pending_since),
    )


class _Floors:
    """The floor of what pods can cost, made anew only when pools or prices change."""

    def __init__(self, state: Any, provider: CloudProvider) -> None:
        self._state = state
        self._provider = provider
        self._of: Any = None
        self._floor: Floor | None = None

    async def of(self, pods: list[Any]) -> float | None:
        pools = tuple(sorted(self._state.nodepools.items.items()))
        catalogs = {pool.name: await self._provider.instance_types(pool) for _, pool in pools}
        version = tuple((key, pool.metadata.generation, id(catalogs[key.name])) for key, pool in pools)
        if version != self._of or self._floor is None:
            self._of, self._catalogs = version, catalogs
            self._floor = Floor({pool.name: pool for _, pool in pools}, catalogs)
        try:
            return self._floor.of(pods)
        except BoundUnavailable:
            return None


def _price(claim: NodeClaim) -> float:
    return float(claim.metadata.labels.get(PRICE, 0))
