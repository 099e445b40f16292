"""Karpenter's own scheduling benchmark: 400 types, an empty cluster, a diverse mix of up to 20,000 pending pods.

The same types and the same pods as upstream (`karpenter.py`). Seconds are of everything a run does: reading the pods
and the catalogue (the base, also shown apart) and placing. The reference solver of the tests gets some of the same
pods, and a second mix, all of whose pods have preferences, is run with them respected and ignored.

    .venv/bin/python bench/scheduling.py [--json FILE] [--sizes 1000,5000,20000] [--reference 500]
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import karpenter
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.solver import solve
from dovetail.model.pod import Pod

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

GROWTH_BAR = 5.0  # 20,000 pods against 5,000
SPEED_BAR = 2_000.0  # pods a second at 20,000
REPEATS = 3
UPSTREAM = {  # seconds that Karpenter's authors published, on machines of theirs: the fastest and the slowest of two
    50: (0.0375, 0.0422),
    100: (0.0767, 0.0931),
    500: (0.388, 0.416),
    1000: (0.777, 0.891),
    5000: (3.74, 5.09),
    20000: (20.2, 35.7),
}
UPSTREAM_RESPECTED = 11.66


def fastest(action: Callable[[], object], repeats: int = REPEATS) -> float:
    """The shortest of several runs: the one that was disturbed least."""
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def measure(pods: Sequence[Pod], *, respect: bool = True) -> dict[str, Any]:
    """One mix, placed."""
    snapshot, pool = karpenter.empty_cluster()
    placed = solve(snapshot, pods, [pool], respect_preferences=respect)
    seconds = fastest(lambda: solve(snapshot, pods, [pool], respect_preferences=respect))
    return {
        "pods": len(pods),
        "placed": len(pods) - len(placed.refusals),
        "nodes": len(placed.drafts),
        "seconds": seconds,
        "base_seconds": fastest(lambda: Problem(snapshot, pods, [pool])),
        "pods_per_second": len(pods) / seconds,
    }


def measure_reference(count: int) -> dict[str, Any]:
    """The reference solver on the same pods, once."""
    slow = import_module("reference.solver").solve
    pods = karpenter.diverse_pods(count)
    snapshot, pool = karpenter.empty_cluster()
    begun = time.perf_counter()
    answer = slow(snapshot, pods, [pool])
    seconds = time.perf_counter() - begun
    ours = fastest(lambda: solve(snapshot, pods, [pool]))
    same = sorted(sorted(draft.pods) for draft in answer.drafts) == sorted(
        sorted(draft.pod_keys) for draft in solve(snapshot, pods, [pool]).drafts
    )
    return {"pods": count, "seconds": seconds, "ours": ours, "times_faster": seconds / ours, "same_answer": same}


def report(rows: dict[int, dict[str, Any]]) -> dict[str, bool]:
    """Print the diverse mix; whether each bar is met."""
    print(f"{'pods':>7}{'placed':>8}{'nodes':>7}{'N/5':>6}{'seconds':>9}{'base':>7}{'pods/s':>8}   Karpenter, s")
    for count, row in rows.items():
        published = "-".join(map(str, UPSTREAM[count])) if count in UPSTREAM else ""
        print(
            f"{count:7}{row['placed']:8}{row['nodes']:7}{math.ceil(count / 5):6}{row['seconds']:9.3f}"
            f"{row['base_seconds']:7.3f}{row['pods_per_second']:8.0f}   {published}"
        )
    bars = {
        "every pod placed": all(row["placed"] == count for count, row in rows.items()),
        "no more than N/5 nodes": all(row["nodes"] <= math.ceil(count / 5) for count, row in rows.items()),
    }
    if {5000, 20000} <= rows.keys():
        growth = rows[20000]["seconds"] / rows[5000]["seconds"]
        bars[f"20,000 pods at most {GROWTH_BAR:.0f} times 5,000: {growth:.1f}"] = growth <= GROWTH_BAR
        speed = rows[20000]["pods_per_second"]
        bars[f"at least {SPEED_BAR:.0f} pods/s at 20,000: {speed:.0f}"] = speed >= SPEED_BAR
    return bars


def report_preferences(mixes: dict[str, dict[str, Any]]) -> None:
    for name, row in mixes.items():
        beside = f" (Karpenter published {UPSTREAM_RESPECTED} s)" if name == "respected" else ""
        print(
            f"preferences {name}: {row['placed']} of {row['pods']} pods on {row['nodes']} nodes"
            f" in {row['seconds']:.3f} s, {row['pods_per_second']:.0f} pods/s{beside}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--sizes", default=",".join(map(str, karpenter.sizes())), help="numbers of pods (%(default)s)")
    parser.add_argument(
        "--reference", type=int, default=500, help="pods for the reference solver: 50, 100, 500 or 1000; 0: none"
    )
    options = parser.parse_args()
    rows = {count: measure(karpenter.diverse_pods(count)) for count in map(int, options.sizes.split(","))}
    bars = report(rows)
    wishes = karpenter.preferring_pods()
    mixes = {name: measure(wishes, respect=name == "respected") for name in ("respected", "ignored")}
    bars["every pod with preferences placed"] = all(row["placed"] == row["pods"] for row in mixes.values())
    report_preferences(mixes)
    beside = measure_reference(options.reference) if options.reference else None
    if beside:
        print(
            f"reference solver on the same {beside['pods']} pods: {beside['seconds']:.1f} s"
            f" against {beside['ours']:.3f} s, {beside['times_faster']:.0f} times"
        )
        bars["the same answer as the reference solver"] = beside["same_answer"]
    for bar, met in bars.items():
        print(f"{'met   ' if met else 'MISSED'} {bar}")
    if options.json:
        figures = {"diverse": rows, "preferences": mixes, "reference": beside, "bars": bars}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
