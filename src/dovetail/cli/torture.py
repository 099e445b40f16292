"""`dovetail torture`: live through stories full of faults, and say whether an invariant was broken."""

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

SOLD = frozenset(f"{family}-{cpu}x-amd64-linux" for family in "csm" for cpu in (1, 2, 4, 8))
"""Stories are small, and so is what they can buy."""
SHOWN = 3  # stories are long; the first few broken invariants usually have one cause


class _Parts:
    """The real controllers in the simulated cloud, as a process of a story."""

    def __init__(self, parts: "Assembly") -> None:
        from dovetail.cloud.kwok.offering_selection import Availability

        self._parts = parts
        market = parts.provider.market
        sold = [each for each in market.availability.catalog if each.name in SOLD]
        market.availability = Availability(tuple(sold))

    @property
    def gate(self) -> "WriteGate":
        """What all its writes pass."""
        return self._parts.gate

    async def run(self) -> None:
        """Run until cancelled."""
        await self._parts.run()

    async def aclose(self) -> None:
        """Let go of what it holds."""
        await self._parts.provider.aclose()

    @property
    def prices(self) -> "Mapping[Offering, float]":
        """What everything costs an hour."""
        return {
            (each.name, offering.zone, offering.capacity_type): offering.price
            for each in self._parts.provider.market.availability.catalog
            for offering in each.offerings
        }


def launch(cluster: "Cluster", clock: "Clock", *, dry_run: bool = False) -> "ControllerProcess":
    """The controllers with everything switched on."""
    from dovetail.settings import Settings
    from dovetail.wiring.assembly import assemble

    return _Parts(assemble(cluster, clock, Settings(catalog="generic", disruption="on", dry_run=dry_run)))


def tell(story: "Trial") -> "TrialOutcome":
    """Live through one story with the real controllers."""
    from dovetail.sim.torture.runner import live_through
    from dovetail.wiring.embedded import admit

    return live_through(story, launch, admit)


def tell_seed(seed: int) -> "TrialOutcome":
    """Live through the story of a seed."""
    from dovetail.sim.torture.fault_generator import draw_story

    return tell(draw_story(seed))


def torture(
    *,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many stories to live through.")] = 20,
    first: Annotated[int, typer.Option("--first", min=0, help="The first of the seeds.")] = 0,
    seed: Annotated[int | None, typer.Option("--seed", help="Tell the story of this one seed again, exactly.")] = None,
    only: Annotated[
        str, typer.Option("--only", help="With --seed: nothing but these pieces of the story, by name, with commas.")
    ] = "",
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes to use; 0 is one for each core.")] = 0,
) -> None:
    """Live through simulated clusters full of faults and check the invariants every one of them must keep.

    Each seed is a story: NodePools, workloads, people who change things, and faults between any two calls, crashes of
    the controllers included. A story that breaks an invariant is cut down to a short one and can be replayed by seed.
    """
    if seed is not None:
        raise typer.Exit(_replay(seed, [each.strip() for each in only.split(",") if each.strip()]))
    raise typer.Exit(_run_all(range(first, first + seeds), jobs or os.cpu_count() or 1))


def _replay(seed: int, only: list[str]) -> int:
    from dovetail.sim.torture.fault_generator import draw_story

    story = draw_story(seed)
    outcome = tell(story.only(only) if only else story)
    echo(f"seed {seed}, fingerprint of the event log {outcome.fingerprint:08x}\n{outcome.story}")
    for each in outcome.violations:
        echo(f"broken: {each}")
    echo(_summary(outcome.figures, bool(outcome.violations)))
    return 1 if outcome.violations else 0


def _run_all(seeds: range, jobs: int) -> int:
    from dovetail.sim.torture.runner import TrialFigures

    total, failed = TrialFigures(), []
    for done, outcome in enumerate(_outcomes(seeds, jobs), 1):
        total += outcome.figures
        if outcome.violations:
            failed.append(outcome)
            echo(f"seed {outcome.story.seed}: {outcome.violations[0]}")
        _show_progress(done, len(seeds), len(failed))
    for outcome in sorted(failed, key=lambda each: each.story.seed)[:SHOWN]:
        echo(_short_story(outcome))
    echo(_summary(total, len(failed)))
    return 1 if failed else 0


def _outcomes(seeds: Iterable[int], jobs: int) -> "Iterator[TrialOutcome]":
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for each in as_completed([pool.submit(tell_seed, seed) for seed in seeds]):
            yield each.result()


def _show_progress(done: int, of: int, failed: int) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r{done} of {of} stories, {failed} broke an invariant ", nl=done == of, err=True)
    elif done % 50 == 0 or done == of:
        echo(f"{done} of {of} stories, {failed} broke an invariant", err=True)


def _short_story(outcome: "TrialOutcome") -> str:
    """The shortest story found that still breaks the invariant."""
    from dovetail.sim.torture.runner import shrink

    shortest = shrink(outcome, tell)
    told = "\n".join(f"broken: {each}" for each in shortest.violations)
    again = f"dovetail torture --seed {shortest.story.seed} --only {','.join(shortest.story.ids) or '-'}"
    return f"\nseed {shortest.story.seed}, cut down:\n{shortest.story}\n{told}\nagain: {again}\n"


def _summary(figures: "TrialFigures", failed: int) -> str:
    days = figures.seconds / 86400
    return (
        f"{figures.stories} stories, {days:.1f} cluster-days, {figures.faults} faults, {figures.crashes} crashes,"
        f" {figures.handovers} changes of leader, {figures.decisions} decisions,"
        f" {int(failed)} stories that broke an invariant"
    )


if __name__ == "__main__":
    typer.run(torture)
