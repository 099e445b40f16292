"""`dovetail simulate`: runs a scenario on virtual time and reports cost, evictions and pending times.

One run prints a report. `--compare`, `--sweep`, `--without-disruption` and `--seeds` make several variants, which run
in parallel and print a comparison. All errors in the scenario and the options are reported before the first run starts.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dovetail.cli.safe_output import echo, make_console
from dovetail.cli.snapshot_source import DocumentOutputOption, OutputFormat

if TYPE_CHECKING:
    from dovetail.cli.simulation.report import Report
    from dovetail.cli.simulation.runner import RunOutcome
    from dovetail.cli.simulation.variants import Variant
    from dovetail.model.kube_object import Fault
    from dovetail.sim.scenario.trace import Arrival

_PANEL = "What if"
Source = Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario file; - reads standard input.")]
Length = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="DURATION",
        help="Virtual time to simulate, such as 36h or 30d.",
        show_default="the scenario's",
    ),
]
Seeds = Annotated[
    str,
    typer.Option(
        "--seeds",
        metavar="N|A,B,C",
        help="The number of seeds, or a list of seeds; results are averaged.",
        show_default="the scenario's seed",
    ),
]
Sets = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KIND/NAME.PATH=VALUE",
        help="Change a field, for example nodepool/default.spec.disruption.consolidateAfter=5m.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Compare = Annotated[
    bool,
    typer.Option(
        "--compare", help="Run the scenario unchanged and once for each --set, and compare.", rich_help_panel=_PANEL
    ),
]
Sweeps = Annotated[
    list[str],
    typer.Option(
        "--sweep",
        metavar="KIND/NAME.PATH=V,V,...",
        help="Run once for each value; several sweeps run all combinations.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Run on this Dask cluster.",
        show_default="the local cores",
        rich_help_panel=_PANEL,
    ),
]
WithoutDisruption = Annotated[
    bool,
    typer.Option(
        "--without-disruption",
        help="Also run with disruption off: what would it have cost?",
        rich_help_panel=_PANEL,
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write a report with plots to one HTML file.", show_default=False),
]


Timeline = Annotated[
    bool, typer.Option("--timeline", help="Also list when each node was launched, disrupted and removed.")
]


def simulate(  # noqa: PLR0913 - one parameter an option
    *,
    scenario: Source,
    lasts: Length = None,
    seeds: Seeds = "",
    sets: Sets = [],  # noqa: B006 - typer copies it
    compare: Compare = False,
    sweeps: Sweeps = [],  # noqa: B006 - typer copies it
    without_disruption: WithoutDisruption = False,
    dask: Dask = None,
    html: Html = None,
    timeline: Timeline = False,
    output: DocumentOutputOption = OutputFormat.TEXT,
) -> None:
    """Run a scenario with the real controllers on virtual time; report cost, evictions and pending times.

    The same scenario and seed always give the same report. The cost is compared with a proven lower bound: no choice of
    instances could run the same pods for less.

    [bold]Examples[/bold]
      dovetail simulate web.yaml --for 30d --html report.html
      dovetail simulate web.yaml --compare --set nodepool/default.spec.disruption.consolidateAfter=5m
      dovetail simulate web.yaml --without-disruption
      dovetail simulate web.yaml --sweep nodepool/default.spec.disruption.consolidateAfter=1m,10m,1h --seeds 5
    """
    from dovetail.cli.simulation.runner import infrequent_gc
    from dovetail.core.cost_floor.linear_program import WITHOUT_SOLVER

    options = {"sets": sets, "sweeps": sweeps, "seeds": seeds, "lasts": lasts, "compare": compare}
    options["without_disruption"] = without_disruption
    with infrequent_gc():
        variants, trace = _load(scenario, options)
        _check_writable(html)
        if timeline and len(variants) > 1:
            echo("Error: --timeline is for a single run; with several runs, -o json has the timeline of each", err=True)
            raise typer.Exit(2)
        reports = [outcome.report for outcome in _run(scenario, variants, trace, dask)]
        if WITHOUT_SOLVER and dask is None:
            echo(f"Warning: {WITHOUT_SOLVER}", err=True)
        _print(variants, reports, html, output, timeline=timeline)


def _print(
    variants: "list[Variant]", reports: "list[Report]", html: Path | None, output: str, *, timeline: bool
) -> None:
    from dovetail.cli.simulation.comparison import as_document, compare, print_comparison
    from dovetail.cli.simulation.html_report import write_html
    from dovetail.cli.view.simulation import print_report

    rows = compare(variants, reports) if len(variants) > 1 else []
    written = html is None or _write_report(html, lambda: write_html(html, variants, reports, rows))
    if rows:
        print_comparison(rows, as_document(rows, variants, reports), output)
    else:
        print_report(reports[0], output, timeline=timeline)
    if not written:
        raise typer.Exit(1)


def _write_report(html: Path, write: Callable[[], None]) -> bool:
    """Write the HTML report; on failure print the error and return False, so that the results are still printed."""
    try:
        write()
    except OSError as error:
        echo(f"Error: --html: {html} cannot be written: {error.strerror or error}", err=True)
        return False
    echo(f"Report written to {html}", err=True)
    return True


def _load(source: Path, options: dict[str, Any]) -> "tuple[list[Variant], tuple[Arrival, ...]]":
    from dovetail.cli.simulation.loader import load, plan_runs
    from dovetail.sim.scenario.parsing import ScenarioInvalid

    try:
        document, name, folder = load(source)
        return plan_runs(document, name, folder, **options)
    except ScenarioInvalid as error:
        _print_faults(source, error.faults)
        raise typer.Exit(2) from error
    except (ValueError, OSError) as error:
        echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error


def _print_faults(source: Path, faults: "Iterable[Fault]") -> None:
    for fault in faults:
        text = str(fault) if fault.path else str(fault).removeprefix(": ")
        echo(f"Error: {text}" if fault.path.startswith("--") else f"{source}: {text}", err=True)


def _check_writable(html: Path | None) -> None:
    """Fail before the run, not after it, if the report cannot be written."""
    if html is None:
        return
    place = html if html.exists() else html.parent
    if html.is_dir() or not os.access(place, os.W_OK):
        echo(f"Error: --html: {html} cannot be written; name a file in an existing, writable folder", err=True)
        raise typer.Exit(2)


def _run(source: Path, variants: "list[Variant]", trace: "tuple[Arrival, ...]", dask: str | None) -> "list[RunOutcome]":
    from dovetail.cli.simulation.report import length
    from dovetail.cli.simulation.runner import DaskUnavailable, SimulationFailed, run_here, run_on_dask, run_scenario
    from dovetail.sim.scenario.parsing import ScenarioInvalid

    began = time.perf_counter()
    with _progress(variants, dask) as done:
        try:
            if dask is not None:
                outcomes = run_on_dask(dask, variants, trace, done)
            elif len(variants) == 1:
                outcomes = [run_scenario(variants[0].scenario, trace, done)]
            else:
                outcomes = run_here(variants, trace, done)
        except ScenarioInvalid as error:
            _print_faults(source, error.faults)
            raise typer.Exit(2) from error
        except (DaskUnavailable, SimulationFailed) as error:
            echo(f"Error: {error}", err=True)
            raise typer.Exit(2) from error
    real = outcomes[0].real_seconds if len(outcomes) == 1 else time.perf_counter() - began
    virtual = sum(outcome.report["simulatedSeconds"] for outcome in outcomes)
    runs = f"{len(outcomes)} runs, " if len(outcomes) > 1 else ""
    echo(
        f"Simulated {runs}{length(virtual)} in {real:.1f} s, {virtual / max(real, 1e-9):,.0f} times real time", err=True
    )
    return outcomes


@contextmanager
def _progress(variants: "list[Variant]", dask: str | None) -> Iterator[Callable[[float], None]]:
    """Show a progress bar with the remaining time, on a terminal only."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    single = len(variants) == 1 and dask is None
    total = variants[0].scenario.lasts.seconds if single else float(len(variants))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=make_console(stderr=True, markup=True), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("simulating" if single else f"{len(variants)} runs", total=total)
        yield lambda completed: bar.update(task, completed=completed)
