"""Many runs at once: on the cores of this machine, or on a Dask cluster. Where a run happens changes nothing in it."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from dovetail.cli.simulation.runner import Outcome, live
from dovetail.cli.simulation.variants import Variant
from dovetail.sim.scenario.trace import Arrival

Told = Callable[[int], None]
"""Called with the position of every run that is over."""


class DaskUnavailable(Exception):
    """The cluster cannot be reached, or its library is not installed."""


def run_here(
    variants: Sequence[Variant], trace: tuple[Arrival, ...], told: Told, jobs: int | None = None
) -> list[Outcome]:
    """Run all variants on the local cores, as many at once as there are."""
    workers = min(len(variants), jobs or os.cpu_count() or 1)
    outcomes: dict[int, Outcome] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(live, variant.scenario, trace): at for at, variant in enumerate(variants)}
        for future in as_completed(waiting):
            outcomes[waiting[future]] = future.result()
            told(waiting[future])
    return [outcomes[at] for at in range(len(variants))]


def run_on_dask(address: str, variants: Sequence[Variant], trace: tuple[Arrival, ...], told: Told) -> list[Outcome]:
    """Run all variants on a Dask cluster, whose workers have Dovetail installed."""
    outcomes: dict[int, Outcome] = {}
    for at, outcome in _on_dask(address, variants, trace):
        outcomes[at] = outcome
        told(at)
    return [outcomes[at] for at in range(len(variants))]


def _on_dask(address: str, variants: Sequence[Variant], trace: tuple[Arrival, ...]) -> Iterator[tuple[int, Outcome]]:
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
            yield futures[future], future.result()
