"""Runs scenarios: one in this process, or many in parallel on local cores or on a Dask cluster.

A run plays a scenario on an embedded world with the real controllers on virtual time, and samples the meter up to
once an hour. The report depends only on scenario and seed, not on where or how fast it runs; the real time is
returned beside it in `RunOutcome`.

Every sample has a lower bound of the cost: the cheapest way to run the same pods on any offering. Offerings include
those of running instances that are no longer for sale (the NodePool changed, the type is sold out, or the node came
with a snapshot), so that the cost of a run is never below the bound.
"""

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from dovetail.cli.simulation.report import Report, Sample, report_of, savings_of
from dovetail.cli.simulation.simulation_floor import SimulationFloor
from dovetail.cli.simulation.variants import Variant
from dovetail.cloud.kwok.catalog.instance_types_file import InstanceTypesInvalid
from dovetail.core.savings import CommandSaving
from dovetail.manifest.snapshot_file import read_snapshot_file
from dovetail.model import kinds
from dovetail.settings import Settings, read_settings
from dovetail.sim.kubernetes.kubelet import KubeletTiming
from dovetail.sim.scenario.document import Scenario
from dovetail.sim.scenario.from_snapshot import adopt
from dovetail.sim.scenario.generate import GeneratedNode, generate
from dovetail.sim.scenario.materialize import stand
from dovetail.sim.scenario.meter import HOUR, Meter
from dovetail.sim.scenario.parsing import ScenarioInvalid
from dovetail.sim.scenario.player import Player
from dovetail.sim.scenario.trace import Arrival
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import WorldOptions
from dovetail.wiring.embedded import Embedded, embedded

T = TypeVar("T")


_UNHEARD = logging.NullHandler()
"""Drops the log of the simulated controllers."""

Progress = Callable[[float], None]
"""Called after each sample with the virtual seconds that have passed."""

DAY = 86_400.0
NO_WATCH_FAILS = timedelta(days=1)
"""Staleness is disabled, because simulations send bookmarks rarely to save time."""
SAMPLES = 60
STEPS = tuple(minutes * 60.0 for minutes in (1, 2, 5, 10, 15, 30, 60))
"""Possible seconds between samples; a run uses the longest that gives at least SAMPLES samples."""
OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
COLLECTIONS_BETWEEN_OLDER = (4, 4)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The report of a run and the real time it took."""

    report: Report
    real_seconds: float


class SimulationFailed(Exception):
    """The run cannot continue, for example because the API server refuses an object of the scenario."""


def settings_of(scenario: Scenario) -> Settings:
    """Read the settings of a scenario; ValueError lists all faults."""
    given = {"catalog": scenario.catalog, "disruption": "on", **scenario.settings}
    if scenario.snapshot:
        given.setdefault("instance_types_file_path", scenario.snapshot)
    return read_settings(given)


def run_scenario(scenario: Scenario, trace: tuple[Arrival, ...] = (), progress: Progress | None = None) -> RunOutcome:
    """Run a scenario in this process."""
    began = time.perf_counter()
    report = run_on_virtual_time(_run_scenario(scenario, trace, progress or (lambda _: None)))
    return RunOutcome(report, time.perf_counter() - began)


def run_on_virtual_time(running: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that plays scenarios on a virtual event loop; Ctrl-C stops it."""
    logging.getLogger("dovetail").addHandler(_UNHEARD)
    with infrequent_gc():
        try:
            return run(_interruptible(running))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except InstanceTypesInvalid as error:
            raise SimulationFailed(str(error)) from error


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Make collections of cyclic garbage rare inside the context.

    A world is large, lives until the end of its run and creates few cycles, so collections find nothing. The objects of
    a run are frozen at its end, and collected before the next run in the same process.
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


async def _interruptible(running: Coroutine[Any, Any, T]) -> T:
    """Cancel the run on Ctrl-C; a second Ctrl-C has its usual effect."""
    mine, usual = asyncio.current_task(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual == signal.SIG_IGN:
        return await running  # another handler is responsible for the signal
    assert mine is not None, "runs in a task"

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, usual)
        mine.cancel()

    signal.signal(signal.SIGINT, stop)
    try:
        return await running
    finally:
        signal.signal(signal.SIGINT, usual)


async def _run_scenario(scenario: Scenario, trace: tuple[Arrival, ...], progress: Progress) -> Report:
    async with play(scenario, trace) as played:
        cluster, meter = played.cluster, played.meter
        samples = await _sample(scenario, cluster, meter, progress)
        meter.close(asyncio.get_running_loop().time())
        report = report_of(scenario, meter, samples, played.player.missed, cluster.world.values(kinds.NODE_POOL))
        return report | savings_of(played.savings())


@dataclass(frozen=True, slots=True)
class PlayedScenario:
    """A scenario that is being played, and its measurements."""

    cluster: Embedded
    meter: Meter
    player: Player

    def savings(self) -> tuple[CommandSaving, ...]:
        """What each command saved until now."""
        return self.cluster.parts.manager.savings.savings(self.cluster.world.clock.now())


@asynccontextmanager
async def play(scenario: Scenario, trace: tuple[Arrival, ...] = ()) -> AsyncIterator[PlayedScenario]:
    """Play a scenario on a new world with the real controllers while inside the context, on a virtual event loop."""
    # Node leases are not checked here, so heartbeats are rare; so are bookmarks and the end of watches.
    kubelet = replace(KubeletTiming(), heartbeat=DAY)
    options = WorldOptions(
        seed=scenario.seed,
        epoch=scenario.start,
        keeps_log=False,
        history_limit=2_000,  # watches are never far behind
        kubelet=kubelet,
        bookmark_every=1800.0,
        watch_lifetime=(3600.0, 7200.0),
    )
    settings = replace(settings_of(scenario), watch_stale_after=NO_WATCH_FAILS)
    async with embedded(options, settings, seen=False) as cluster:
        cluster.parts.manager.savings.keep_all()
        meter = Meter()
        meter.watch(cluster.world, asyncio.get_running_loop().time)
        if scenario.snapshot:
            adopt(cluster.world, read_snapshot_file(Path(scenario.snapshot)))
            meter.bill_existing(cluster.world.values(kinds.NODE_CLAIM))
        player = Player(cluster.world, scenario, trace)
        player.prepare()
        if scenario.generate is not None:
            stand(cluster.world, await _generated(scenario, cluster), scenario.start)
            meter.bill_existing(cluster.world.values(kinds.NODE_CLAIM))
        try:
            async with player.playing():
                yield PlayedScenario(cluster, meter, player)
        except ExceptionGroup as error:
            raise SimulationFailed(_innermost(error)) from error


def _innermost(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"the scenario could not continue: {error}"


async def _generated(scenario: Scenario, cluster: Embedded) -> tuple[GeneratedNode, ...]:
    assert scenario.generate is not None, "called only for scenarios that start from a generated cluster"
    pools = cluster.world.values(kinds.NODE_POOL)
    catalogs = {pool.name: await cluster.parts.provider.instance_types(pool) for pool in pools}
    return generate(scenario.generate, scenario.seed, pools, catalogs)


async def _sample(scenario: Scenario, cluster: Embedded, meter: Meter, progress: Progress) -> list[Sample]:
    """Take samples until the end of the scenario: every hour, or more often in short scenarios."""
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
        bound, most = await floor.of(shares, meter.machines()), meter.peaks_since_last_call()
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


RunsProgress = Callable[[float], None]
"""Called regularly with the number of finished runs; a run that is half done counts 0.5."""
POLL_SECONDS = 0.5


class DaskUnavailable(Exception):
    """The Dask cluster cannot be reached or its run failed, or Dask is not installed."""


def run_here(
    variants: Sequence[Variant], trace: tuple[Arrival, ...], progress: RunsProgress, jobs: int | None = None
) -> list[RunOutcome]:
    """Run all variants in parallel, by default one process per local core."""
    context = get_context("spawn")
    shares: Any = context.Array("d", len(variants), lock=False)  # finished fraction of each run, written by its process
    workers = min(len(variants), jobs or os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, context, initializer=_set_shares, initargs=(shares,)) as pool:
        with _ignoring_sigint():
            waiting = [pool.submit(_run_in_pool, at, variant.scenario, trace) for at, variant in enumerate(variants)]
        try:
            left: set[Future[RunOutcome]] = set(waiting)
            while left:
                done, left = wait(left, POLL_SECONDS, FIRST_EXCEPTION)
                progress(sum(shares))
                for future in done:
                    future.result()
        except BrokenProcessPool as error:
            raise SimulationFailed("a worker process died; it may have run out of memory") from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    return [future.result() for future in waiting]


_shares: list[Any] = []
"""In a process of the pool: the shared array of finished fractions."""


def _set_shares(shares: Any) -> None:
    _shares.append(shares)


@contextmanager
def _ignoring_sigint() -> Iterator[None]:
    """Start child processes that ignore Ctrl-C; the parent handles it and terminates them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _run_in_pool(at: int, scenario: Scenario, trace: tuple[Arrival, ...]) -> RunOutcome:
    def progress(seconds: float) -> None:
        _shares[0][at] = seconds / scenario.lasts.seconds

    return run_scenario(scenario, trace, progress)


def run_on_dask(
    address: str, variants: Sequence[Variant], trace: tuple[Arrival, ...], progress: RunsProgress
) -> list[RunOutcome]:
    """Run all variants on a Dask cluster. Its workers need Dovetail in the same version."""
    outcomes: dict[int, RunOutcome] = {}
    for at, outcome in _on_dask(address, variants, trace):
        outcomes[at] = outcome
        progress(float(len(outcomes)))
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
        futures = {
            client.submit(run_scenario, each.scenario, trace, pure=False): at for at, each in enumerate(variants)
        }
        for future in as_completed(list(futures)):  # type: ignore[no-untyped-call]
            yield futures[future], _outcome(future, address)


def _outcome(future: Any, address: str) -> RunOutcome:
    """Return the outcome of a remote run; unexpected errors become `DaskUnavailable`."""
    try:
        found: RunOutcome = future.result()
    except (SimulationFailed, ScenarioInvalid):
        raise
    except Exception as error:
        remedy = "the workers need the same version of Dovetail, and the files of the scenario"
        raise DaskUnavailable(f"a run failed at {address}: {type(error).__name__}: {error}; {remedy}") from error
    return found
