"""One run of a scenario: the real controllers on an embedded world on virtual time, measured from start to end.

A run is a function of its scenario and nothing else: the same scenario and seed give the same report, in this process,
in another, or on another machine. How long it took is told beside the report, never in it.

What the pods of a story could not have cost less than, from look to look.

Pods may be on whatever can be bought at the time, and on whatever runs although it can be bought no more: a NodePool
that allowed it has changed or is gone, it is sold out, or it came with a snapshot. So no story is below its floor.

Many runs at once: on the cores of this machine, or on a Dask cluster. Where a run happens changes nothing in it.
"""

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from dovetail.cli.simulation.report import Report, Sample, report_of
from dovetail.cli.simulation.variants import Variant
from dovetail.cloud.kwok.catalog.instance_types_file import InstanceTypesInvalid
from dovetail.core.cost_floor.discontinued_types import is_sold, kind_of, with_past
from dovetail.core.cost_floor.floor import BoundUnavailable, Floor
from dovetail.manifest.snapshot_file import read_snapshot_file
from dovetail.model import kinds
from dovetail.model.pod import Pod
from dovetail.ports.cloud import CloudProvider
from dovetail.settings import Settings, read_settings
from dovetail.sim.kubernetes.kubelet import KubeletTiming
from dovetail.sim.scenario.document import Scenario
from dovetail.sim.scenario.from_snapshot import adopt
from dovetail.sim.scenario.generate import GeneratedNode, generate
from dovetail.sim.scenario.materialize import stand
from dovetail.sim.scenario.meter import HOUR, BilledInstance, Meter
from dovetail.sim.scenario.parsing import ScenarioInvalid
from dovetail.sim.scenario.player import Player
from dovetail.sim.scenario.trace import Arrival
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import WorldOptions
from dovetail.wiring.embedded import Embedded, embedded


class SimulationFloor:
    """The floor of what pods can cost, looked up with the pools and prices of the moment."""

    def __init__(self, state: Any, provider: CloudProvider) -> None:
        self._state = state
        self._provider = provider

    async def of(self, pods: Sequence[tuple[Pod, float]], machines: Iterable[BilledInstance]) -> float | None:
        """Dollars an hour for pods that were there for a share of the time, as were these machines."""
        pools = {key.name: pool for key, pool in sorted(self._state.nodepools.items.items())}
        catalogs = {name: await self._provider.instance_types(pool) for name, pool in pools.items()}
        kinds = {(each.pool, kind_of(each)): each for each in machines}  # many machines, few kinds
        past = [each for each in kinds.values() if not is_sold(each, pools, catalogs)]
        try:
            return Floor(*with_past(pools, catalogs, past)).on_average(pods)
        except BoundUnavailable:
            return None


_UNHEARD = logging.NullHandler()
"""What the controllers log in a story is no news to who runs it."""

Progress = Callable[[float], None]
"""Called now and then with the virtual seconds lived through."""

DAY = 86_400.0
NO_WATCH_FAILS = timedelta(days=1)
"""A bookmark a minute for each of a dozen quiet watches would cost more than the rest of a quiet night."""
SAMPLES = 60
STEPS = tuple(minutes * 60.0 for minutes in (1, 2, 5, 10, 15, 30, 60))
"""How far apart two looks at the cluster are: the longest of which a story has so many."""
OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
COLLECTIONS_BETWEEN_OLDER = (4, 4)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of a run, and how long it took."""

    report: Report
    real_seconds: float


class SimulationFailed(Exception):
    """The story asks for something that the cluster refuses."""


def settings_of(scenario: Scenario) -> Settings:
    """How the controllers run in a scenario; ValueError with every fault of what it says."""
    given = {"catalog": scenario.catalog, "disruption": "on", **scenario.settings}
    if scenario.snapshot:
        given.setdefault("instance_types_file_path", scenario.snapshot)
    return read_settings(given)


def live(scenario: Scenario, trace: tuple[Arrival, ...] = (), progress: Progress | None = None) -> RunOutcome:
    """Live through a scenario and report."""
    began = time.perf_counter()
    logging.getLogger("dovetail").addHandler(_UNHEARD)
    with rarely_collecting():
        try:
            report = run(_interruptible(_live(scenario, trace, progress or (lambda _: None))))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except InstanceTypesInvalid as error:
            raise SimulationFailed(str(error)) from error
    return RunOutcome(report, time.perf_counter() - began)


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Look for garbage in cycles as rarely as memory allows while inside.

    A world is large, lives to the end of its run and hardly makes cycles, so every collection is in vain. What a run
    leaves behind is frozen at its end and collected before the next run begins, or goes with the process.
    """
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
    usual = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *COLLECTIONS_BETWEEN_OLDER)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*usual)


async def _interruptible(living: Coroutine[Any, Any, Report]) -> Report:
    """Ctrl-C ends the story in order; a second one ends it at once."""
    mine, usual = asyncio.current_task(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual == signal.SIG_IGN:
        return await living  # it is for somebody else
    assert mine is not None, "asked for by a loop"

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, usual)
        mine.cancel()

    signal.signal(signal.SIGINT, stop)
    try:
        return await living
    finally:
        signal.signal(signal.SIGINT, usual)


async def _live(scenario: Scenario, trace: tuple[Arrival, ...], progress: Progress) -> Report:
    # Nobody times leases here. Rare beats shift calls by milliseconds: quiet watches hear no bookmark and reopen later.
    kubelet = replace(KubeletTiming(), heartbeat=DAY)
    options = WorldOptions(
        seed=scenario.seed,
        epoch=scenario.start,
        keeps_log=False,
        history_limit=2_000,  # watches are never far behind
        kubelet=kubelet,
        bookmark_every=1800.0,  # nor has watches that end for the sake of it
        watch_lifetime=(3600.0, 7200.0),
    )
    settings = replace(settings_of(scenario), watch_stale_after=NO_WATCH_FAILS)
    async with embedded(options, settings, seen=False) as cluster:
        loop = asyncio.get_running_loop()
        meter = Meter()
        meter.watch(cluster.world, loop.time)
        if scenario.snapshot:
            adopt(cluster.world, read_snapshot_file(Path(scenario.snapshot)))
            meter.begin_with(cluster.world.values(kinds.NODE_CLAIM))
        player = Player(cluster.world, scenario, trace)
        player.prepare()
        if scenario.generate is not None:
            stand(cluster.world, await _generated(scenario, cluster), scenario.start)
            meter.begin_with(cluster.world.values(kinds.NODE_CLAIM))
        try:
            async with player.playing():
                samples = await _sample(scenario, cluster, meter, progress)
        except ExceptionGroup as error:
            raise SimulationFailed(_innermost(error)) from error
        meter.close(loop.time())
        return report_of(scenario, meter, samples, player.missed, cluster.world.values(kinds.NODE_POOL))


def _innermost(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"the story could not be played on: {error}"


async def _generated(scenario: Scenario, cluster: Embedded) -> tuple[GeneratedNode, ...]:
    assert scenario.generate is not None, "asked only of scenarios that start from a generated cluster"
    pools = cluster.world.values(kinds.NODE_POOL)
    catalogs = {pool.name: await cluster.parts.provider.instance_types(pool) for pool in pools}
    return generate(scenario.generate, scenario.seed, pools, catalogs)


async def _sample(scenario: Scenario, cluster: Embedded, meter: Meter, progress: Progress) -> list[Sample]:
    """Look at the cluster every hour until the story is over; more often where that is soon."""
    loop = asyncio.get_running_loop()
    floor = SimulationFloor(cluster.parts.manager.state, cluster.parts.provider)
    samples: list[Sample] = []
    end = scenario.lasts.seconds
    step = max((each for each in STEPS if each <= end / SAMPLES), default=STEPS[0])
    before, spent = 0.0, 0.0
    while before < end:
        at = min(before + step, end)
        await asyncio.sleep(at - loop.time())
        hours, now_spent = (at - before) / HOUR, meter.spent(at)
        shares = [(pod, seconds / (at - before)) for pod, seconds in meter.occupancy.pod_seconds(at)]
        bound, most = await floor.of(shares, meter.machines()), meter.most_since()
        samples.append(
            Sample(
                at=at,
                cost=(now_spent - spent) / hours,
                bound=bound,
                nodes=most.nodes,
                pods=most.pods,
                pending=most.pending,
            )
        )
        progress(at)
        before, spent = at, now_spent
    return samples


Told = Callable[[float], None]
"""Called now and then with how many runs are over; one that is half over counts half."""
LOOK_SECONDS = 0.5


class DaskUnavailable(Exception):
    """The cluster cannot be reached, or its library is not installed."""


def run_here(
    variants: Sequence[Variant], trace: tuple[Arrival, ...], told: Told, jobs: int | None = None
) -> list[RunOutcome]:
    """Run all variants on the local cores, as many at once as there are."""
    context = get_context("spawn")
    shares: Any = context.Array("d", len(variants), lock=False)  # how much of each run is over
    workers = min(len(variants), jobs or os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(shares,)) as pool:
        with _deaf():
            waiting = [pool.submit(_scheduled, at, variant.scenario, trace) for at, variant in enumerate(variants)]
        try:
            left: set[Future[RunOutcome]] = set(waiting)
            while left:
                done, left = wait(left, LOOK_SECONDS, FIRST_EXCEPTION)
                told(sum(shares))
                for future in done:
                    future.result()
        except BrokenProcessPool as error:
            raise SimulationFailed(
                "a process with a run in it ended abruptly; look for what it wrote, or for memory"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()  # nobody waits for what they are at
            raise
    return [future.result() for future in waiting]


_shares: list[Any] = []
"""In a process of the pool: where it writes how far its runs are."""


def _begin(shares: Any) -> None:
    _shares.append(shares)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that begin here do not hear of Ctrl-C: whoever began them does, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _scheduled(at: int, scenario: Scenario, trace: tuple[Arrival, ...]) -> RunOutcome:
    def lived(seconds: float) -> None:
        _shares[0][at] = seconds / scenario.lasts.seconds

    return live(scenario, trace, lived)


def run_on_dask(address: str, variants: Sequence[Variant], trace: tuple[Arrival, ...], told: Told) -> list[RunOutcome]:
    """Run all variants on a Dask cluster, whose workers have Dovetail installed."""
    outcomes: dict[int, RunOutcome] = {}
    for at, outcome in _on_dask(address, variants, trace):
        outcomes[at] = outcome
        told(float(len(outcomes)))
    return [outcomes[at] for at in range(len(variants))]


def _on_dask(address: str, variants: Sequence[Variant], trace: tuple[Arrival, ...]) -> Iterator[tuple[int, RunOutcome]]:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise DaskUnavailable("Dask is not installed; install it with: pip install 'dovetail[dask]'") from error
    try:
        client: Any = Client(address, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise DaskUnavailable(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        futures = {client.submit(live, variant.scenario, trace, pure=False): at for at, variant in enumerate(variants)}
        for future in as_completed(list(futures)):  # type: ignore[no-untyped-call]
            yield futures[future], _outcome(future, address)


def _outcome(future: Any, address: str) -> RunOutcome:
    """What came of a run; whatever else may go wrong over there is said in a sentence."""
    try:
        found: RunOutcome = future.result()
    except (SimulationFailed, ScenarioInvalid):
        raise
    except Exception as error:
        remedy = "its workers need Dovetail in this version, and the files that the scenario names"
        raise DaskUnavailable(f"a run failed at {address}: {type(error).__name__}: {error}; {remedy}") from error
    return found
