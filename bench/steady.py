"""Whether a cluster at constant load comes to rest: 1,000 passes after convergence move nothing.

Deployments of random sizes, those of `settle.py`, run until no pod was evicted for `--quiet` minutes of virtual time.
Then the benchmark makes 1,000 disruption passes, ten seconds of virtual time apart, and counts
evictions and launched nodes. The bar is 0 of both, on every seed.

    .venv/bin/python bench/steady.py [--json FILE] [--seeds 1,2,3] [--pods 400] [--min-savings 100%]
"""

import argparse
import asyncio
import sys
from functools import partial

from settle import draw
from simulated_cluster import (
    MINUTE,
    Outcome,
    SimulatedCluster,
    conclude,
    default_pool,
    on_virtual_time,
    parser,
    run_seeds,
    simulated_cluster,
)

PASSES = 1000
PASS_SECONDS = 10
LATEST = 24 * 60  # minutes


async def converge(cluster: SimulatedCluster, quiet: int) -> int:
    """Let time pass until nothing was evicted for some minutes; the minute of the last eviction."""
    last, before = 0, cluster.evictions.total
    for minute in range(1, LATEST):
        await asyncio.sleep(MINUTE)
        if cluster.evictions.total != before:
            last, before = minute, cluster.evictions.total
        elif minute - last >= quiet:
            return last
    raise TimeoutError(f"pods are still evicted after {LATEST} minutes")


async def live(seed: int, options: argparse.Namespace) -> Outcome:
    """One seed."""
    async with simulated_cluster(seed, options.pool, *draw(seed, options.pods).values()) as cluster:
        await cluster.until(partial(cluster.all_run, options.pods))
        minutes = await converge(cluster, options.quiet)
        cluster.evictions.clear()
        launched = cluster.meter.launched
        for _ in range(PASSES):
            await cluster.parts.parts.manager.disruption.run_pass()
            await asyncio.sleep(PASS_SECONDS)
        return {
            "seed": seed,
            "convergedAfterMinutes": minutes,
            "costOverFloor": cluster.meter.hourly / cluster.bound,
            "evictions": cluster.evictions.total,
            "launched": cluster.meter.launched - launched,
        }


def show(rows: list[Outcome]) -> None:
    """The seeds as a table."""
    print(f"{'seed':>5}{'minutes':>9}{'cost/floor':>12}{'evicted':>9}{'launched':>10}")
    for row in rows:
        minutes, ratio = row["convergedAfterMinutes"], row["costOverFloor"]
        print(f"{row['seed']:>5}{minutes:9}{ratio:12.3f}{row['evictions']:9}{row['launched']:10}")


def one(options: argparse.Namespace, seed: int) -> Outcome:
    """One seed, on a virtual event loop."""
    found: Outcome = on_virtual_time(live(seed, options))
    return found


def main() -> int:
    arguments = parser(__doc__, pods=400)
    arguments.add_argument("--quiet", type=int, default=90, help="minutes without an eviction (%(default)s)")
    options = arguments.parse_args()
    options.pool = default_pool(minSavings=options.min_savings)
    rows = run_seeds(options.seeds, options.jobs, partial(one, options))
    show(rows)
    moves = sum(row["evictions"] + row["launched"] for row in rows)
    bars = {f"no evictions and no launched nodes in {PASSES} passes: {moves}": moves == 0}
    return conclude(bars, {"seeds": rows, "moves": moves}, options.json)


if __name__ == "__main__":
    sys.exit(main())
