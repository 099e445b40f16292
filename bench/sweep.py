"""Can this node go, with at most one cheaper replacement? Asked of every node of a cluster.

Clusters of N nodes with some fifteen pods each (`cluster.py`): *converged* (tight: hardly any node can go), *settling*
(a little room everywhere: some can) and *slack* (a quarter of the pods gone: all can). Each is a process of its own.
"Base" is what is built once from a snapshot; whole is base and sweep. The reference solver of the tests answers for a
random sample of the nodes of the cluster with 5,000, and its time for all of them is extrapolated from that.

    .venv/bin/python bench/sweep.py [--json FILE] [--nodes 1000,5000,10000] [--sample 2]
"""

import argparse
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

RATIO_BAR = 50.0  # times the reference solver at 5,000 nodes
MEMORY_BAR = 500.0  # MB of the whole process at 10,000 nodes
GROWTH_SLACK = 1.25  # measurements of one machine differ that much from run to run
COMPARED = 5_000
WISHED = {5_000: 1.0, 10_000: 4.0}  # seconds, for orientation
REGIMES = ("converged", "settling", "slack")


def measure(nodes: int, regime: str, sample: int) -> dict[str, Any]:
    """One cluster, in a process of its own."""
    script = Path(__file__).with_name("sweep_measure.py")
    command = [
        sys.executable,
        str(script),
        str(nodes),
        regime,
        str(sample if nodes == COMPARED and regime != "settling" else 0),
    ]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return answer


def show(row: dict[str, Any]) -> None:
    answers = row["answers"]
    print(
        f"{row['nodes']:6}{row['pods']:8}{row['classes']:8}  {row['regime']:10}{row['cpu_used']:5.0%}"
        f"{answers.get('stay', 0):7}{answers.get('replace', 0):8}{answers.get('delete', 0):7}"
        f"{row['base']:7.2f}{row['sweep']:7.2f}{row['whole']:7.2f}{row['each_us']:8.0f}"
        f"{row['snapshot_mb']:9.0f}{row['peak_mb']:6.0f}"
    )


def show_reference(row: dict[str, Any]) -> None:
    slow = row["reference"]
    print(
        f"reference solver, {row['regime']}, {slow['sampled']} random nodes of {row['nodes']}: {slow['each']:.2f} s"
        f" a node, {slow['whole']:.0f} s for all (extrapolated), {slow['times_faster']:.0f} times ours;"
        f" {slow['agreed']} of {slow['sampled']} answers agree"
    )


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether each bar is met."""
    bars = {}
    for row in rows:
        if "reference" in row:
            ratio = row["reference"]["times_faster"]
            bars[f"{row['regime']}: at least {RATIO_BAR:.0f} times the reference: {ratio:.0f}"] = ratio >= RATIO_BAR
            bars[f"{row['regime']}: the same answers"] = row["reference"]["agreed"] == row["reference"]["sampled"]
        if row["nodes"] == 10_000:
            peak = row["peak_mb"]
            bars[f"{row['regime']}: under {MEMORY_BAR:.0f} MB at 10,000: {peak:.0f}"] = peak < MEMORY_BAR
    for regime in REGIMES:
        ordered = [row for row in rows if row["regime"] == regime]
        for fewer, more in pairwise(ordered):
            grown, allowed = more["each_us"] / fewer["each_us"], more["nodes"] / fewer["nodes"]
            name = f"{regime}: {more['nodes']} nodes cost {grown:.1f} times as much each as {fewer['nodes']}"
            bars[f"{name}, at most {allowed:.0f}"] = grown <= allowed * GROWTH_SLACK
    return bars


def wishes(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        wish = WISHED.get(row["nodes"])
        if wish is not None:
            print(f"for orientation: {row['nodes']} {row['regime']} in {row['whole']:.2f} s, wished under {wish:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--nodes", default="1000,5000,10000", help="sizes of the clusters (%(default)s)")
    parser.add_argument("--sample", type=int, default=2, help="nodes the reference solver is asked about (%(default)s)")
    options = parser.parse_args()
    print(
        f"{'nodes':>6}{'pods':>8}{'classes':>8}  {'regime':10}{'cpu':>5}{'stay':>7}{'replace':>8}{'delete':>7}"
        f"{'base':>7}{'sweep':>7}{'whole':>7}{'us each':>8}{'snapshot':>9}{'MB':>6}"
    )
    rows = []
    for nodes in sorted(map(int, options.nodes.split(","))):
        for regime in REGIMES:
            rows.append(measure(nodes, regime, options.sample))
            show(rows[-1])
    for row in rows:
        if "reference" in row:
            show_reference(row)
    wishes(rows)
    bars = judge(rows)
    for bar, met in bars.items():
        print(f"{'met   ' if met else 'MISSED'} {bar}")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "bars": bars}, indent=2) + "\n", encoding="utf-8")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
