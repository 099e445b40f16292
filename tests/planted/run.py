"""Plants bugs and prints which are caught: `make planted`, or `python -m planted.run` with `tests` on the path.

The exit code is 1 if fewer than 95 % are caught, a bug cannot be planted, or a test or trial fails without a bug.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from planted.bug import Bug, load_bugs
from planted.table import passes, render, to_plain
from planted.trial import SEEDS, Plan, PlantedRun

ROOT = Path(__file__).parents[2]


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make planted", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("chosen", nargs="*", metavar="BUG", help="ids or areas; default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="bugs planted at the same time")
    parser.add_argument("--torture", action="store_true", help="run the trials even if a test caught the bug")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="maximum number of torture trials; 0 for none")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all results to this file")
    parser.add_argument("--list", action="store_true", help="print the bugs without running anything")
    return parser.parse_args(arguments)


def choose(bugs: Sequence[Bug], chosen: Sequence[str]) -> tuple[Bug, ...]:
    """The bugs of these ids and areas; ValueError for an unknown name."""
    unknown = [name for name in chosen if not any(name in (bug.id, bug.area) for bug in bugs)]
    if unknown:
        raise ValueError(f"no bug or area is named {', '.join(unknown)}; see --list")
    return tuple(bug for bug in bugs if not chosen or bug.id in chosen or bug.area in chosen)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the bugs and print the table."""
    options = read_options(arguments)
    try:
        bugs = choose(load_bugs(), options.chosen)
    except ValueError as error:
        show(str(error))
        return 2
    if options.list:
        for bug in bugs:
            show(f"{bug.id} ({bug.area}): {bug.says}")
        return 0
    seeds = range(options.seeds)
    plan = Plan(root=ROOT, bugs=bugs, jobs=options.jobs, seeds=seeds, always_torture=options.torture)
    began = perf_counter()
    with TemporaryDirectory(prefix="planted-") as place:
        planted_run = PlantedRun(plan, Path(place), show)
        try:
            baseline = planted_run.baseline()
            results = planted_run.results(baseline)
        finally:
            planted_run.close()
    show(f"\n{render(results)}\n{perf_counter() - began:.0f} s with {options.jobs} jobs")
    for name, said in baseline.failed.items():
        show(f"fails without a bug: {name}: {said}")
    if baseline.red_seeds:
        show(f"seeds that violate an invariant without a bug: {sorted(baseline.red_seeds)}")
    if options.json is not None:
        options.json.write_text(json.dumps(to_plain(results, baseline), indent=2) + "\n")
    return 0 if passes(results, baseline) else 1


def show(text: str) -> None:
    """Print without buffering: a run takes minutes."""
    print(text, flush=True)  # noqa: T201 - a command-line tool


if __name__ == "__main__":
    sys.exit(main())
