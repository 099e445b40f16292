"""What a scale-out buys, how much is moved afterwards, and where a scale-in ends.

Deployments of random sizes, 1,147 pods in all, are applied to an empty cluster; an hour after the last pod is ready,
each Deployment is scaled to half, and two hours pass. The benchmark prints the most that was bought at any time of the
scale-out over the floor under any plan, evictions per pod in the hour after it, the cost at the end over the floor, and
evictions per pod that is left. The controllers are the real ones, with default settings. The bars are held against the
mean of all seeds.

    .venv/bin/python bench/settle.py [--json FILE] [--seeds 1,2,3] [--pods 1147] [--burstable] [--no-nominations]
"""

import argparse
import asyncio
import random
import sys
from functools import partial

from simulated_cluster import (
    MINUTE,
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

MILLICORES = (50, 100, 250, 500, 750, 1000, 1500, 2000, 3000)
MEBIBYTES = (128, 256, 512, 1024, 2048, 4096, 6144, 8192)
MOST_REPLICAS = 30
HOUR = 60  # minutes
BARS = {
    "peakOverFloor": (1.13, "bought at the peak of the scale-out, over the floor"),
    "evictionsAfterScaleOut": (0.05, "evictions per pod in the hour after the scale-out"),
    "settledOverFloor": (1.08, "cost after the scale-in, over the floor"),
    "evictionsPerPodLeft": (0.5, "evictions per pod left by the scale-in"),
}
BURSTABLE_BARS = {"peakOverFloor": 1.15, "settledOverFloor": 1.18}


def draw(seed: int, pods: int) -> dict[str, Plain]:
    """Deployments with that many pods in all, by name."""
    chance = random.Random(f"settle/{seed}")  # noqa: S311 - a benchmark is to be repeated
    every: dict[str, Plain] = {}
    while pods:
        name = f"w{len(every):04}"
        replicas = min(pods, chance.randint(1, MOST_REPLICAS))
        pods -= replicas
        every[name] = deployment(name, replicas, f"{chance.choice(MILLICORES)}m", f"{chance.choice(MEBIBYTES)}Mi")
    return every


async def scale_out(cluster: SimulatedCluster, pods: int) -> float:
    """Wait until all pods are ready; the most that was paid until then, in dollars an hour."""
    most = 0.0

    def all_run() -> bool:
        nonlocal most
        most = max(most, cluster.meter.hourly)
        return cluster.all_run(pods)

    await cluster.until(all_run)
    return most


async def settle(cluster: SimulatedCluster, minutes: int) -> int:
    """Let time pass; the minute of the last eviction."""
    last, before = 0, cluster.evictions.total
    for minute in range(1, minutes + 1):
        await asyncio.sleep(MINUTE)
        if cluster.evictions.total != before:
            last, before = minute, cluster.evictions.total
    return last


def halve(cluster: SimulatedCluster, workloads: dict[str, Plain]) -> int:
    """Scale each Deployment to half; the number of pods that are left."""
    left = 0
    for name, workload in workloads.items():
        replicas = max(1, workload["spec"]["replicas"] // 2)
        workloads[name] = {**workload, "spec": {**workload["spec"], "replicas": replicas}}
        left += replicas
    cluster.apply(*workloads.values())
    return left


async def live(seed: int, options: argparse.Namespace) -> Outcome:
    """One seed."""
    workloads = draw(seed, options.pods)
    nominate = not options.no_nominations
    async with simulated_cluster(seed, options.pool, *workloads.values(), nominate_pods=nominate) as cluster:
        peak = await scale_out(cluster, options.pods) / cluster.bound
        cluster.evictions.clear()
        out_minutes = await settle(cluster, HOUR)
        after_an_hour, out = cluster.meter.hourly / cluster.bound, cluster.evictions.total
        cluster.evictions.clear()
        left = halve(cluster, workloads)
        in_minutes = await settle(cluster, 2 * HOUR)
        return {
            "seed": seed,
            "pods": options.pods,
            "peakOverFloor": peak,
            "evictionsAfterScaleOut": out / options.pods,
            "lastEvictionMinute": out_minutes,
            "hourLaterOverFloor": after_an_hour,
            "podsLeft": left,
            "settledOverFloor": cluster.meter.hourly / cluster.bound,
            "evictionsPerPodLeft": cluster.evictions.total / left,
            "settledAfterMinutes": in_minutes,
            "mostForOneWorkload": max(cluster.evictions.by_workload.values(), default=0),
        }


def show(rows: list[Outcome]) -> None:
    """The seeds as a table."""
    print(f"{'':5}| {'scale-out of':22} {'an hour later':>13} | {'scale-in':31}")
    print(f"{'seed':>5}| {'pods':>6}{'peak':>8}{'evict.':>8}{'min':>5}{'cost':>9} | ", end="")
    print(f"{'pods':>6}{'cost':>8}{'evict.':>8}{'min':>5}")
    for row in rows:
        print(
            f"{row['seed']:>5}| {row['pods']:6}{row['peakOverFloor']:8.3f}{row['evictionsAfterScaleOut']:8.2f}"
            f"{row['lastEvictionMinute']:5}{row['hourLaterOverFloor']:9.3f} | {row['podsLeft']:6}"
            f"{row['settledOverFloor']:8.3f}{row['evictionsPerPodLeft']:8.2f}{row['settledAfterMinutes']:5}"
        )


def one(options: argparse.Namespace, seed: int) -> Outcome:
    """One seed, on a virtual event loop."""
    found: Outcome = on_virtual_time(live(seed, options))
    return found


def main() -> int:
    arguments = parser(__doc__, pods=1147)
    arguments.add_argument("--burstable", action="store_true", help="with burstable types, and the bars for them")
    arguments.add_argument("--no-nominations", action="store_true", help="with --nominate-pods=false")
    options = arguments.parse_args()
    options.pool = default_pool(burstable=options.burstable, minSavings=options.min_savings)
    rows = run_seeds(options.seeds, options.jobs, partial(one, options))
    show(rows)
    found = {name: mean(row[name] for row in rows) for name in BARS}
    highest = BURSTABLE_BARS if options.burstable else {name: bar for name, (bar, _) in BARS.items()}
    bars = {f"{BARS[name][1]}: {found[name]:.3f}, at most {bar}": found[name] <= bar for name, bar in highest.items()}
    return conclude(bars, {"seeds": rows, **found}, options.json)


if __name__ == "__main__":
    sys.exit(main())
