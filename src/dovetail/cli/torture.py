"""`dovetail torture`: run the controllers on simulated clusters with injected faults, and check invariants.

Trials run in parallel processes. The first few that violate an invariant are shrunk and printed with the command that
replays them. The exit code is 1 if a trial violated an invariant.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.safe_output import echo

if TYPE_CHECKING:
    from dovetail.ports.clock import Clock
    from dovetail.ports.cluster import Cluster
    from dovetail.runtime.write_gate import WriteGate
    from dovetail.sim.torture.controller_process import ControllerProcess, Offering
    from dovetail.sim.torture.runner import TrialFigures, TrialOutcome
    from dovetail.sim.torture.trial import Trial
    from dovetail.wiring.assembly import Assembly

INSTANCE_TYPES = frozenset(f"{family}-{cpu}x-amd64-linux" for family in "csm" for cpu in (1, 2, 4, 8))
"""A small catalog makes trials faster."""
MAX_SHRUNK = 3  # trials that are shrunk and printed: violations of one run usually have one cause


class _AssembledControllers:
    """The real controllers on the simulated cloud, as a `ControllerProcess`."""

    def __init__(self, assembly: "Assembly") -> None:
        from dovetail.cloud.kwok.offering_selection import Availability

        self._assembly = assembly
        market = assembly.provider.market
        market.availability = Availability(
            tuple(each for each in market.availability.catalog if each.name in INSTANCE_TYPES)
        )

    @property
    def gate(self) -> "WriteGate":
        """The gate that every write of the process passes."""
        return self._assembly.gate

    async def run(self) -> None:
        """Run until cancelled."""
        await self._assembly.run()

    async def aclose(self) -> None:
        """Close the cloud provider."""
        await self._assembly.provider.aclose()

    @property
    def prices(self) -> "Mapping[Offering, float]":
        """The hourly price of every offering."""
        return {
            (each.name, offering.zone, offering.capacity_type): offering.price
            for each in self._assembly.provider.market.availability.catalog
            for offering in each.offerings
        }


def start_controllers(cluster: "Cluster", clock: "Clock", *, dry_run: bool = False) -> "ControllerProcess":
    """Assemble the controllers with disruption on."""
    from dovetail.settings import Settings
    from dovetail.wiring.assembly import assemble

    settings = Settings(catalog="generic", disruption="on", dry_run=dry_run)
    return _AssembledControllers(assemble(cluster, clock, settings))


def run_with_controllers(trial: "Trial") -> "TrialOutcome":
    """Run a trial with the real controllers."""
    from dovetail.sim.torture.runner import run_trial
    from dovetail.wiring.embedded import admit

    return run_trial(trial, start_controllers, admit)


def run_seed(seed: int) -> "TrialOutcome":
    """Run the trial of a seed."""
    from dovetail.sim.torture.fault_generator import draw_trial

    return run_with_controllers(draw_trial(seed))


def torture(
    *,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of trials to run.")] = 20,
    first: Annotated[int, typer.Option("--first", min=0, help="Seed of the first trial.")] = 0,
    seed: Annotated[int | None, typer.Option("--seed", help="Run only the trial of this seed, and print it.")] = None,
    only: Annotated[
        str, typer.Option("--only", help="With --seed: keep only these pieces of the trial; ids separated by commas.")
    ] = "",
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes to use; 0 uses one for each core.")] = 0,
) -> None:
    """Run the controllers on simulated clusters with injected faults, and check the invariants of every cluster.

    Each seed is a trial: NodePools, workloads, user actions, and faults between any two calls, including crashes of the
    controllers. A trial that violates an invariant is shrunk, and can be replayed by its seed.
    """
    if seed is not None:
        raise typer.Exit(_replay(seed, [each.strip() for each in only.split(",") if each.strip()]))
    raise typer.Exit(_run_all(range(first, first + seeds), jobs or os.cpu_count() or 1))


def _replay(seed: int, only: list[str]) -> int:
    from dovetail.sim.torture.fault_generator import draw_trial

    trial = draw_trial(seed)
    outcome = run_with_controllers(trial.only(only) if only else trial)
    echo(f"seed {seed}, fingerprint of the event log {outcome.fingerprint:08x}\n{outcome.trial}")
    for each in outcome.violations:
        echo(f"violated: {each}")
    echo(_summary(outcome.figures, bool(outcome.violations)))
    return 1 if outcome.violations else 0


def _run_all(seeds: range, jobs: int) -> int:
    from dovetail.sim.torture.runner import TrialFigures

    total, failed = TrialFigures(), []
    for done, outcome in enumerate(_outcomes(seeds, jobs), 1):
        total += outcome.figures
        if outcome.violations:
            failed.append(outcome)
            echo(f"seed {outcome.trial.seed}: {outcome.violations[0]}")
        _show_progress(done, len(seeds), len(failed))
    for outcome in sorted(failed, key=lambda each: each.trial.seed)[:MAX_SHRUNK]:
        echo(_describe_shrunk(outcome))
    echo(_summary(total, len(failed)))
    return 1 if failed else 0


def _outcomes(seeds: Iterable[int], jobs: int) -> "Iterator[TrialOutcome]":
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for each in as_completed([pool.submit(run_seed, seed) for seed in seeds]):
            yield each.result()


def _show_progress(done: int, of: int, failed: int) -> None:
    progress = f"{done} of {of} trials, {failed} violated an invariant"
    if sys.stderr.isatty():
        typer.echo(f"\r{progress} ", nl=done == of, err=True)
    elif done % 50 == 0 or done == of:
        echo(progress, err=True)


def _describe_shrunk(outcome: "TrialOutcome") -> str:
    """The smallest trial found that violates the same invariant, and the command that replays it."""
    from dovetail.sim.torture.runner import shrink

    smallest = shrink(outcome, run_with_controllers)
    trial, violations = smallest.trial, "\n".join(f"violated: {each}" for each in smallest.violations)
    replay = f"dovetail torture --seed {trial.seed} --only {','.join(trial.ids) or '-'}"
    return f"\nseed {trial.seed}, shrunk:\n{trial}\n{violations}\nreplay: {replay}\n"


def _summary(figures: "TrialFigures", failed: int) -> str:
    days = figures.seconds / 86400
    return (
        f"{figures.trials} trials, {days:.1f} cluster-days, {figures.faults} faults, {figures.crashes} crashes,"
        f" {figures.handovers} leader changes, {figures.decisions} decisions,"
        f" {int(failed)} trials violated an invariant"
    )


if __name__ == "__main__":
    typer.run(torture)
