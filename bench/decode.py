"""How fast, and in how little memory, pods become values: Dovetail's client against the official Python client.

Both get the same bytes, made from a fixed seed: a list in pages of 500 and a watch with one event for each pod, in the
chunks a socket would bring. Each measurement is a process of its own. Time is that of decoding alone;
"held" is what the decoded pods occupy, "peak" the most that the whole process ever did.

    .venv/bin/python bench/decode.py [--pods 10000] [--json FILE]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import podcorpus

SPEED_BAR = 10.0
MEMORY_BAR = 0.25
REPEATS = {"dovetail": 3, "official": 1}  # the official client takes long enough to be measured once


def measure(client: str, what: str, corpus: Path) -> dict[str, float]:
    """The median of the runs, each in a process of its own."""
    script = Path(__file__).with_name(f"decode_{client}.py")
    command = [sys.executable, str(script), what, str(corpus)]
    runs = [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        for _ in range(REPEATS[client])
    ]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def compare(what: str, corpus: Path, pods: int) -> dict[str, Any]:
    ours, theirs = measure("dovetail", what, corpus), measure("official", what, corpus)
    if ours["pods"] != pods or theirs["pods"] != pods:
        raise SystemExit(f"{what}: {pods} pods went in, {ours['pods']:.0f} and {theirs['pods']:.0f} came out")
    return {
        "dovetail": ours,
        "official": theirs,
        "times_faster": theirs["seconds"] / ours["seconds"],
        "held_share": ours["held_mb"] / theirs["held_mb"],
        "peak_share": ours["peak_mb"] / theirs["peak_mb"],
    }


def report(what: str, result: dict[str, Any]) -> bool:
    """Print the rows of one comparison; whether it meets both bars."""
    for client in ("dovetail", "official"):
        run = result[client]
        each = run["seconds"] / run["pods"] * 1e6
        print(f"{what:8}{client:12}{run['seconds']:9.3f}{each:9.1f}{run['held_mb']:9.0f}{run['peak_mb']:9.0f}")
    fast = bool(result["times_faster"] >= SPEED_BAR)
    small = bool(max(result["held_share"], result["peak_share"]) <= MEMORY_BAR)
    print(
        f"{'':8}{result['times_faster']:.0f} times faster (bar {SPEED_BAR:.0f}: {'met' if fast else 'MISSED'}), "
        f"{result['held_share']:.1%} of the memory held and {result['peak_share']:.1%} of the peak "
        f"(bar {MEMORY_BAR:.0%}: {'met' if small else 'MISSED'})\n"
    )
    return fast and small


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000, help="how many pods to decode (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dovetail-bench-") as directory:
        size = podcorpus.write(Path(directory), options.pods)
        print(f"{options.pods} pods of {size / options.pods / 1000:.1f} KB, the same bytes for both clients\n")
        results = {what: compare(what, Path(directory), options.pods) for what in ("list", "watch")}
    print(f"{'':8}{'client':12}{'seconds':>9}{'us/pod':>9}{'held MB':>9}{'peak MB':>9}")
    passed = [report(what, result) for what, result in results.items()]
    if options.json:
        figures = {"pods": options.pods, "bars": {"times_faster": SPEED_BAR, "memory_share": MEMORY_BAR}, **results}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
