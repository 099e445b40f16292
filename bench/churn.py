"""How much a cluster whose pods come and go is shuffled, and what it costs.

400 workloads of one pod each, of random sizes. From the moment that all of them run, 1 % of them is deleted every
minute, at random, and as many new ones of other sizes come. After `--warm-up` minutes the benchmark counts, for
`--hours` of virtual time: evictions for each natural departure, and what the nodes cost over the floor under any plan
for the same pods. The controllers are the real ones, with default settings unless options change them. The bars are
held against the mean of all seeds.

    .venv/bin/python bench/churn.py [--json FILE] [--seeds 1,2,3] [--hours 1.5] [--pods 400]
"""

import argparse
import asyncio
import random
import sys
from functools import partial

from simulated_cluster import (
    MINUTE,
    Costs,
    Outcome,
    Plain,
    SimulatedCluster,
    conclude,
    default_pool,
    deployment,
    mean,
    on_virtual_time,
    parser,
    run_seeds,
    simulated_cluster,
)

MILLICORES = (100, 250, 500, 700, 1000, 1500, 2000)
MEBIBYTES = (256, 512, 1024, 2048, 3072, 4096)
MOST_EVICTIONS = 1.0  # for each natural departure
HIGHEST_COST = 1.13  # over the floor
SHARE = 0.01  # of the pods that leave each minute
COLUMNS = ("departures", "evictions", "perDeparture", "costOverFloor", "launched", "nodes", "mostForOne")


class Workloads:
    """The workloads that exist, and the random choice of those that leave and come."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"churn/{seed}")  # noqa: S311 - a benchmark is to be repeated
        self._number = 0
        self.names: list[str] = []

    def add(self) -> Plain:
        """A new workload."""
        self._number += 1
        self.names.append(f"w{self._number:05}")
        cpu, memory = self._chance.choice(MILLICORES), self._chance.choice(MEBIBYTES)
        return deployment(self.names[-1], 1, f"{cpu}m", f"{memory}Mi", "ReplicaSet")

    def take(self) -> str:
        """One that leaves."""
        return self.names.pop(self._chance.randrange(len(self.names)))


async def churn(cluster: SimulatedCluster, workloads: Workloads, costs: Costs, minutes: int) -> int:
    """Let pods leave and come for some minutes; the number of those that left."""
    departures, owed = 0, 0.0
    for _ in range(minutes):
        owed += SHARE * len(workloads.names)
        for _ in range(int(owed)):
            cluster.delete_replica_set(workloads.take())
            cluster.apply(workloads.add())
            departures, owed = departures + 1, owed - 1
        await costs.pass_time(MINUTE)
    return departures


async def live(seed: int, options: argparse.Namespace) -> Outcome:
    """One seed."""
    workloads = Workloads(seed)
    manifests = [workloads.add() for _ in range(options.pods)]
    nominate = not options.no_nominations
    async with simulated_cluster(seed, options.pool, *manifests, nominate_pods=nominate) as cluster:
        await cluster.until(partial(cluster.all_run, options.pods))
        costs = Costs(cluster)
        await churn(cluster, workloads, costs, options.warm_up)
        cluster.evictions.clear()
        costs.begin()
        launched = cluster.meter.launched
        departures = await churn(cluster, workloads, costs, round(60 * options.hours))
        evictions = cluster.evictions
        return {
            "seed": seed,
            "departures": departures,
            "evictions": evictions.total,
            "perDeparture": evictions.total / departures,
            "costOverFloor": costs.ratio,
            "launched": cluster.meter.launched - launched,
            "nodes": len(cluster.meter.running),
            "mostForOne": max(evictions.by_workload.values(), default=0),
            "waitingAtTheEnd": sum(not pod.node_name for pod in cluster.pods),
            "virtualSeconds": asyncio.get_running_loop().time(),
        }


def show(rows: list[Outcome]) -> None:
    """The seeds as a table."""
    print(f"{'seed':>5}{'left':>7}{'evicted':>9}{'per left':>10}{'cost/floor':>12}", end="")
    print(f"{'launched':>10}{'nodes':>7}{'worst':>7}")
    for row in rows:
        left, evicted, each, ratio, launched, nodes, worst = (row[name] for name in COLUMNS)
        print(f"{row['seed']:>5}{left:7}{evicted:9}{each:10.2f}{ratio:12.3f}{launched:10}{nodes:7}{worst:7}")


def one(options: argparse.Namespace, seed: int) -> Outcome:
    """One seed, on a virtual event loop."""
    found: Outcome = on_virtual_time(live(seed, options))
    return found


def main() -> int:
    arguments = parser(__doc__, pods=400)
    arguments.add_argument("--hours", type=float, default=1.5, help="virtual hours that are measured (%(default)s)")
    arguments.add_argument("--warm-up", type=int, default=30, help="virtual minutes before that (%(default)s)")
    arguments.add_argument("--policy", default="WhenEmptyOrUnderutilized", help="consolidationPolicy (%(default)s)")
    arguments.add_argument("--consolidate-after", default="0s", help="of the NodePool (%(default)s)")
    arguments.add_argument("--no-nominations", action="store_true", help="with --nominate-pods=false")
    options = arguments.parse_args()
    changes = {"consolidateAfter": options.consolidate_after, "consolidationPolicy": options.policy}
    options.pool = default_pool(**changes, minSavings=options.min_savings)
    rows = run_seeds(options.seeds, options.jobs, partial(one, options))
    show(rows)
    evictions, cost = mean(row["perDeparture"] for row in rows), mean(row["costOverFloor"] for row in rows)
    print(f"mean: {evictions:.2f} evictions for each departure, {cost:.3f} times the floor")
    bars = {
        f"at most {MOST_EVICTIONS:.1f} evictions for each departure: {evictions:.2f}": evictions <= MOST_EVICTIONS,
        f"at most {HIGHEST_COST} times the floor: {cost:.3f}": cost <= HIGHEST_COST,
    }
    return conclude(bars, {"seeds": rows, "perDeparture": evictions, "costOverFloor": cost}, options.json)


if __name__ == "__main__":
    sys.exit(main())
