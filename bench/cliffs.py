"""No cliffs: one property of all pods or pools must not make a pass much slower, and a small change costs little.

The cluster of `plan.py`, *settling*, and the same cluster where all pods or NodePools have something (`SHAPES`). Each
is a process of its own. Measured are a first full pass of every disruption method, the next pass after one pod left,
and the memory of the process. Then, on the cluster of `base`, the next pass after each of a few small changes
(`CHANGES`), as a share of a first pass in the same process; beside each up to 1,000 nodes, a new planner has to say the
same.

    .venv/bin/python bench/cliffs.py [--json FILE] [--nodes 1000,10000] [--shapes base,host-spread]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SHAPE_BAR = 2.0  # times the base cluster
MEMORY_BAR = 600.0  # MB of the whole process
CHANGE_BAR = 0.10  # of a first pass
JUDGED = 10_000  # the size at which shapes and memory are held against the bars
SHAPES = {
    "base": "the cluster of plan.py",
    "host-spread": "hostname spread on every pod, among the pods of its workload",
    "team-spread": "hostname spread on every pod, among the pods of its namespace, a rule for each workload",
    "own-requests": "every pod with its own requests",
    "50-pools": "50 NodePools share a catalogue",
    "anti-affinity": "anti-affinity by hostname on every pod",
    "zone-spread": "zone spread on every pod",
    "own-labels": "a label of its own on every pod",
}
CHANGES = {
    "nothing": "nothing",
    "pod-left": "one pod left",
    "label": "a label on one node",
    "read-label": "a label that pods select on one node",
    "node-comes": "one node came, with pods",
    "node-goes": "one node went, with its pods",
    "price": "one price rose by 1 %",
}
BARRED = ("label", "node-comes", "node-goes", "price")


def measure(nodes: int, shape: str) -> dict[str, Any]:
    """One cluster, in a process of its own."""
    script = Path(__file__).with_name("cliffs_measure.py")
    command = [sys.executable, str(script), str(nodes), shape]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return answer


def show(row: dict[str, Any], base: dict[str, Any]) -> None:
    print(
        f"{row['nodes']:6}  {row['shape']:14}{row['first']:8.2f}{row['first'] / base['first']:7.1f}"
        f"{row['next']:8.2f}{row['calls'] / 1e6:9.1f}{row['peak_mb']:7.0f}"
    )


def show_changes(row: dict[str, Any]) -> None:
    shares = "  ".join(f"{kind} {seconds / row['first']:.0%}" for kind, seconds in row["changes"].items())
    print(f"{row['nodes']:6}  share of a first pass after: {shares}")


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether each bar is met."""
    bars = {}
    bases = {row["nodes"]: row for row in rows if row["shape"] == "base"}
    for row in rows:
        where = f"{row['nodes']} {row['shape']}"
        if row["nodes"] >= JUDGED and row["nodes"] in bases:
            ratio = row["first"] / bases[row["nodes"]]["first"]
            bars[f"{where}: at most {SHAPE_BAR:.0f} times the base: {ratio:.1f}"] = ratio <= SHAPE_BAR
            bars[f"{where}: at most {MEMORY_BAR:.0f} MB: {row['peak_mb']:.0f}"] = row["peak_mb"] <= MEMORY_BAR
        for kind in BARRED if "changes" in row else ():
            share = row["changes"][kind] / row["first"]
            name = f"{row['nodes']}, {CHANGES[kind]}: at most {CHANGE_BAR:.0%} of a first pass: {share:.0%}"
            bars[name] = share <= CHANGE_BAR
    return bars


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--nodes", default="1000,10000", help="sizes of the clusters (%(default)s)")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="(%(default)s); base is always measured")
    options = parser.parse_args()
    chosen = [each for each in SHAPES if each == "base" or each in options.shapes.split(",")]
    print(f"{'nodes':>6}  {'shape':14}{'first':>8}{'times':>7}{'next':>8}{'Mcalls':>9}{'MB':>7}")
    rows: list[dict[str, Any]] = []
    for nodes in sorted(map(int, options.nodes.split(","))):
        base = len(rows)
        for shape in chosen:
            rows.append(measure(nodes, shape))
            show(rows[-1], rows[base])
        show_changes(rows[base])
    bars = judge(rows)
    for bar, met in bars.items():
        print(f"{'met   ' if met else 'MISSED'} {bar}")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "bars": bars}, indent=2) + "\n", encoding="utf-8")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
