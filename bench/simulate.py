"""How fast simulated time passes: a cluster of about 200 nodes with daily scaling, day by day.

Lives through the first days of `examples/scenarios/month.yaml` with the real controllers and says what each virtual day
took; then, without a bar, of `month-with-builds.yaml`, where nodes come and go every hour as well. A run uses one core,
so what it takes of the processor is what it takes of the clock on a machine that does nothing else; both are told, and
the bar is held to the first. Thirty days are the days measured, and for those that are left the mean of the measured
ones after the first, which starts from nothing. `--days 30` measures them all.

    .venv/bin/python bench/simulate.py [--json FILE] [--days 2]
"""

import argparse
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from dovetail.cli.simulation.loader import load, plan_runs
from dovetail.cli.simulation.runner import run_scenario

SCENARIOS = Path(__file__).parent.parent / "examples" / "scenarios"
HELD = "month"
BESIDE = "month-with-builds"
DAY = 86_400.0
MONTH = 30
BAR = 120.0  # seconds a month may take


def measure(scenario: Path, days: int) -> dict[str, Any]:
    """Live through that many days; what each took, and what came of all."""
    document, name, folder = load(scenario)
    variants, trace = plan_runs(document, name, folder, sets=[], sweeps=[], seeds="", lasts=f"{days}d", compare=False)
    marks = [(0.0, time.process_time(), time.perf_counter())]

    def progress(at: float) -> None:
        if at % DAY == 0:
            marks.append((at, time.process_time(), time.perf_counter()))

    report = run_scenario(variants[0].scenario, trace, progress).report
    rows = [
        {"day": number, "processor": after[1] - before[1], "clock": after[2] - before[2]}
        for number, (before, after) in enumerate(pairwise(marks), start=1)
    ]
    return {"days": rows, **{key: report[key] for key in ("nodes", "evictions", "disruptions", "apiCalls")}}


def month(seconds: list[float]) -> float:
    """Thirty days, from those that were measured."""
    settled = seconds[1:] or seconds
    return sum(seconds[:MONTH]) + max(0, MONTH - len(seconds)) * sum(settled) / len(settled)


def show(name: str, figures: dict[str, Any]) -> None:
    """One scenario as a table."""
    print(f"{name}\n{'day':>4}{'processor s':>13}{'clock s':>9}{'times real time':>17}")
    for row in figures["days"]:
        print(f"{row['day']:4}{row['processor']:13.1f}{row['clock']:9.1f}{DAY / row['processor']:17,.0f}")
    print(
        "{most} nodes at most, {launched} launched, {removed} removed,".format_map(figures["nodes"]),
        f"{figures['evictions']} evictions, {figures['apiCalls']:,} API calls",
    )
    print(f"a month takes {figures['month']:.0f} s\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--days", type=int, default=2, help="virtual days to live through (%(default)s)")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    for name in (HELD, BESIDE):
        figures[name] = measure(SCENARIOS / f"{name}.yaml", options.days)
        figures[name]["month"] = month([row["processor"] for row in figures[name]["days"]])
        show(name, figures[name])
    taken = figures[HELD]["month"]
    said = f"a month with daily scaling takes at most {BAR:.0f} s of one core: {taken:.0f} s"
    figures["bars"] = {said: taken <= BAR}
    print(f"{'met   ' if taken <= BAR else 'MISSED'} {said}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if taken <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
