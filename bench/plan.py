"""A full disruption pass: every method asked about every node, none cut short.

Clusters of N nodes (`cluster.py`), *converged* and *settling*, with empty, drifted and protected nodes and
PodDisruptionBudgets (`plan_measure.py`). The first pass is held against the single-node sweep of the same snapshot in
the same process; further passes, with one pod changed, against the first.

    .venv/bin/python bench/plan.py [--json FILE] [--nodes 1000,5000,10000]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PASS_BAR = 4.0  # times the sweep
AGAIN_BAR = 0.5  # of the first pass
SAID = {
    "leaves": "left",
    "comes": "came in its place",
    "annotated": "was annotated",
    "resized": "asked for more",
    "labelled": "was labelled",
    "elsewhere": "came elsewhere",
}
KINDS = tuple(SAID)
REGIMES = ("converged", "settling")


def measure(nodes: int, regime: str) -> dict[str, Any]:
    """One cluster, in a process of its own."""
    script = Path(__file__).with_name("plan_measure.py")
    command = [sys.executable, str(script), str(nodes), regime]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return answer


def show(row: dict[str, Any]) -> None:
    again = row["again"]
    print(
        f"{row['nodes']:6}  {row['regime']:10}{row['sweep']:7.2f}{row['first']:7.2f}{row['first'] / row['sweep']:7.1f}"
        + "".join(
            f"{again[kind]:10.2f}{again[kind] / row['first']:6.0%}{row['worst'][kind] / row['first']:6.0%}"
            for kind in KINDS
        )
        + f"{row['peak_mb']:6.0f}"
    )


def judge(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether each bar is met. That no method is cut short was asserted while measuring."""
    bars = {}
    for row in rows:
        where = f"{row['nodes']} {row['regime']}"
        ratio = row["first"] / row["sweep"]
        bars[f"{where}: a whole pass costs at most {PASS_BAR:.0f} sweeps: {ratio:.1f}"] = ratio <= PASS_BAR
        for kind, seconds in row["again"].items():
            share = seconds / row["first"]
            bars[f"{where}: a pass after a pod {SAID[kind]} costs at most half: {share:.0%}"] = share <= AGAIN_BAR
    return bars


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--nodes", default="1000,5000,10000", help="sizes of the clusters (%(default)s)")
    options = parser.parse_args()
    print(
        f"{'nodes':>6}  {'regime':10}{'sweep':>7}{'pass':>7}{'times':>7}"
        + "".join(f"{kind:>10}{'share':>6}{'worst':>6}" for kind in KINDS)
        + f"{'MB':>6}"
    )
    rows = []
    for nodes in sorted(map(int, options.nodes.split(","))):
        for regime in REGIMES:
            rows.append(measure(nodes, regime))
            show(rows[-1])
    print("every method answered for every managed node, in every pass")
    bars = judge(rows)
    for bar, met in bars.items():
        print(f"{'met   ' if met else 'MISSED'} {bar}")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "bars": bars}, indent=2) + "\n", encoding="utf-8")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
