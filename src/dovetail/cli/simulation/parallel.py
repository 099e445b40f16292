"""Many runs at once: on the cores of this machine, or on a Dask cluster. Where a run happens changes nothing in it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from dovetail.cli.simulation.runner import RunOutcome, SimulationFailed, live
from dovetail.cli.simulation.variants import Variant
from dovetail.sim.scenario.document import Scenario
from dovetail.sim.scenario.parsing import ScenarioInvalid
from dovetail.sim.scenario.trace import Arrival

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
            waiting = [pool.submit(_live, at, variant.scenario, trace) for at, variant in enumerate(variants)]
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


def _live(at: int, scenario: Scenario, trace: tuple[Arrival, ...]) -> RunOutcome:
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
