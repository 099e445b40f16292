"""What a scale-out costs once kube-scheduler has bound the pods, by how the nodes open.

A plan says which pod goes to which node; kube-scheduler does not know it. This is a model of its default scoring
(LeastAllocated and NodeResourcesBalancedAllocation, both of cpu and memory; ties at random): the planned nodes open at
random instants within a time, pods are bound in random order at a steady rate, and a second plan is made for those that
fit nowhere in the end. Leaves out its back-off, topology spread, and controllers that plan again before all is bound.

    .venv/bin/python bench/binding.py [--json FILE] [--pods 200] [--runs 100]
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from packing import COMPARED, Room, Size, cost, existing_nodes, karpenters

SPREADS = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0)
"""How long it takes until the last node opens, in multiples of the time that binding all pods takes."""


class Open:
    """A node that accepts pods from an instant on; time is counted in pods bound."""

    def __init__(self, room: Room, opens_at: float) -> None:
        self.opens_at = opens_at
        self._room = room
        self._used = [0, 0, 0]  # pods, millicores, MiB

    def with_pod(self, size: Size) -> list[int]:
        """What would be used with one pod more."""
        return [self._used[0] + 1, self._used[1] + size[0], self._used[2] + size[1]]

    def score(self, size: Size) -> int:
        """How much kube-scheduler likes it for a pod; -1 if the pod does not fit."""
        used = self.with_pod(size)
        if not self._room.holds(used):
            return -1
        cpu, memory = used[1] / self._room.millicores, used[2] / self._room.mebibytes
        return int(100 * (2 - cpu - memory) / 2 + 100 * (1 - abs(cpu - memory) / 2))

    def bind(self, size: Size) -> None:
        """Take a pod."""
        self._used = self.with_pod(size)


def bind_all(pods: Sequence[Size], nodes: Sequence[Open], chance: random.Random) -> list[Size]:
    """Bind pods in rounds until no node is left to open; those that fit nowhere."""
    now, waiting = 0.0, list(pods)
    while waiting:
        left = []
        for size in waiting:
            scores = {node: node.score(size) for node in nodes if node.opens_at <= now}
            best = max(scores.values(), default=-1)
            if best < 0:
                left.append(size)
                continue
            chance.choice([node for node, score in scores.items() if score == best]).bind(size)
            now += 1
        later = [node.opens_at for node in nodes if node.opens_at > now]
        if len(left) == len(waiting):
            if not later:
                return left
            now = min(later)
        waiting = left
    return []


def measure(spread: float, sizes: Sequence[Size], runs: int) -> dict[str, float]:
    """Dollars an hour of several scale-outs that differ in the order of pods and of nodes."""
    types = existing_nodes()
    planned = karpenters(sizes, types)
    costs, left_over = [], []
    for seed in range(runs):
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        pods = chance.sample(sizes, len(sizes))
        left = bind_all(pods, [Open(each, chance.uniform(0, spread * len(pods))) for each in planned], chance)
        costs.append(cost(planned) + cost(karpenters(left, types)))
        left_over.append(len(left))
    return {
        "spread": spread,
        "planned": cost(planned),
        "without_later": sum(not each for each in left_over) / runs,
        "pods_left": statistics.mean(left_over),
        "mean": statistics.mean(costs),
        "median": statistics.median(costs),
        "max": max(costs),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--pods", type=int, default=200, help="of the five sizes of `make compare` (%(default)s)")
    parser.add_argument("--runs", type=int, default=100, help="for each line (%(default)s)")
    options = parser.parse_args()
    sizes = [COMPARED[each % len(COMPARED)] for each in range(options.pods)]
    rows = [measure(spread, sizes, options.runs) for spread in SPREADS]
    print(
        f"{options.pods} pods, planned for {rows[0]['planned']:.2f} $/h; nodes open within so many times the binding:"
    )
    print(f"{'within':>8}{'no later node':>15}{'pods left':>11}{'mean $/h':>10}{'median':>8}{'max':>8}")
    for row in rows:
        shares = f"{row['spread']:8.1f}{row['without_later']:15.0%}{row['pods_left']:11.1f}"
        print(f"{shares}{row['mean']:10.2f}{row['median']:8.2f}{row['max']:8.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
