"""What a plan costs: Dovetail's solver, Karpenter's rule and the linear program, on random workloads.

Both solvers get the generic catalog, one NodePool (on-demand, amd64, 2 to 16 CPUs), no nodes, and 50 to 500 pending
pods in one batch: of the five sizes that `make compare` uses, then of ten random sizes. Karpenter's rule is written
here once more, without Dovetail's solver: the largest pod first; it goes to the node with the fewest pods that has an
instance type for all of them, else to a new node; in the end every node gets the cheapest type that holds its pods. The
sort by number of pods is stable here; Karpenter's is stable for up to 12 nodes only.

    .venv/bin/python bench/packing.py [--json FILE] [--workloads 200]
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from builders import nodepool, pod, snapshot
from dovetail.cloud.kwok.catalog import generic_catalog
from dovetail.core.cost_floor.floor import Floor
from dovetail.core.scheduling.draft import cheapest
from dovetail.core.scheduling.solver import solve
from dovetail.model.labels import ARCH, CAPACITY_TYPE, ON_DEMAND, OS
from dovetail.model.resources import CPU, MEMORY, PODS

Size = tuple[int, int]
"""What a pod requests: millicores and MiB."""
COMPARED: tuple[Size, ...] = ((100, 256), (500, 1024), (700, 3072), (1000, 2048), (2000, 4096))
MILLICORES = (50, 100, 200, 250, 500, 700, 1000, 1500, 2000, 3000)
MEBIBYTES = (128, 256, 512, 1024, 2048, 3072, 4096, 6144)
VALUES = {
    "karpenter.kwok.sh/instance-cpu": ["2", "4", "8", "16"],
    ARCH: ["amd64"],
    OS: ["linux"],
    CAPACITY_TYPE: [ON_DEMAND],
}
TYPES = generic_catalog()
POOL = nodepool(
    template={"requirements": [{"key": key, "operator": "In", "values": each} for key, each in VALUES.items()]}
)
BAR = 1.001  # the mean of Dovetail's costs over those of Karpenter's rule


class Room(NamedTuple):
    """An instance type as Karpenter's rule sees it."""

    price: float
    millicores: int
    mebibytes: int
    pods: int

    def holds(self, node: Sequence[int]) -> bool:
        """Whether so many pods with these requests fit."""
        return node[0] <= self.pods and node[1] <= self.millicores and node[2] <= self.mebibytes


def existing_nodes() -> list[Room]:
    """The types the NodePool allows, the cheapest first."""
    allowed = [
        each for each in TYPES if all(each.requirements.get(key).values & {*named} for key, named in VALUES.items())
    ]
    prices = [min(o.price for o in each.offerings if o.capacity_type == ON_DEMAND) for each in allowed]
    return sorted(
        Room(price, each.allocatable[CPU].milli, each.allocatable[MEMORY].units >> 20, each.allocatable[PODS].units)
        for price, each in zip(prices, allowed, strict=True)
    )


def karpenters(sizes: Sequence[Size], types: Sequence[Room]) -> list[Room]:
    """The nodes that Karpenter's rule launches."""
    nodes: list[list[int]] = []  # pods, millicores, MiB
    for millicores, mebibytes in sorted(sizes, reverse=True):
        nodes.sort(key=lambda node: node[0])
        for node in nodes:
            grown = [node[0] + 1, node[1] + millicores, node[2] + mebibytes]
            if any(each.holds(grown) for each in types):
                node[:] = grown
                break
        else:
            nodes.append([1, millicores, mebibytes])
    return [next(each for each in types if each.holds(node)) for node in nodes]


def cost(nodes: Iterable[Room]) -> float:
    """Dollars an hour."""
    return sum(node.price for node in nodes)


def draw(seed: int, *, compared: bool) -> list[Size]:
    """A workload of ten kinds of pods."""
    chance = random.Random(seed)  # noqa: S311 - a benchmark is to be repeated
    number = chance.randint(50, 500)
    if compared:
        return [COMPARED[each % len(COMPARED)] for each in range(number)]
    kinds = [(chance.choice(MILLICORES), chance.choice(MEBIBYTES)) for _ in range(10)]
    return [chance.choice(kinds) for _ in range(number)]


def measure(sizes: Sequence[Size], types: Sequence[Room]) -> dict[str, float]:
    """Dollars an hour of one workload, three ways."""
    pods = [pod(f"p{number:03}", f"{cpu}m", f"{memory}Mi") for number, (cpu, memory) in enumerate(sizes)]
    placed = solve(snapshot(pods, pools=[POOL], types=TYPES), pods, [POOL])
    assert not placed.refusals
    ours = sum(map(cheapest, placed.drafts))
    floor = Floor({POOL.name: POOL}, {POOL.name: TYPES}).of(pods)
    return {"pods": len(pods), "dovetail": ours, "karpenter": cost(karpenters(sizes, types)), "floor": floor}


def summarize(name: str, rows: Sequence[dict[str, float]]) -> bool:
    """Print the distribution of one kind of workload; whether the bar is met."""
    print(f"{name}, {len(rows)} workloads{'min':>12}{'p10':>8}{'median':>8}{'mean':>8}{'p90':>8}{'max':>8}")
    for title, over, under in (
        ("Dovetail / Karpenter's rule", "dovetail", "karpenter"),
        ("Dovetail / floor", "dovetail", "floor"),
        ("Karpenter's rule / floor", "karpenter", "floor"),
    ):
        ratios = sorted(row[over] / row[under] for row in rows)
        tenth = len(ratios) // 10
        shown = ratios[0], ratios[tenth], statistics.median(ratios), statistics.mean(ratios), ratios[-1 - tenth]
        print(f"  {title:32}" + "".join(f"{each:8.4f}" for each in (*shown, ratios[-1])))
    ratios = [row["dovetail"] / row["karpenter"] for row in rows]
    dearer, cheaper = sum(each > 1 + 1e-9 for each in ratios), sum(each < 1 - 1e-9 for each in ratios)
    print(f"  the same {len(rows) - dearer - cheaper}, Dovetail dearer {dearer}, cheaper {cheaper}")
    return statistics.mean(ratios) <= BAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--workloads", type=int, default=200, help="random workloads of each kind (%(default)s)")
    options = parser.parse_args()
    types = existing_nodes()
    figures: dict[str, Any] = {}
    met = True
    for name, compared in (("sizes of `make compare`", True), ("random sizes", False)):
        figures[name] = [measure(draw(seed, compared=compared), types) for seed in range(options.workloads)]
        met = summarize(name, figures[name]) and met
    print(f"{'met   ' if met else 'MISSED'} on average at most {BAR} times Karpenter's rule")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
