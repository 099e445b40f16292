"""What the nodes of a provisioning plan cost, chosen by price and one by one, over the floor under any plan.

1,147 pods of the Deployments of `settle.py`, or half as many drawn from a recorded cluster (`data/openb_pods.csv`), are
planned for an empty cluster with EC2's types and two DaemonSets. The floor knows no DaemonSets and no whole nodes.
Seconds are those of the processor, for the whole plan. The bars are held against the mean of all seeds.

    .venv/bin/python bench/sizing.py [--json FILE] [--seeds 1,2,3] [--pods 1147]
"""

import argparse
import csv
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import settle
from builders import build, pod, snapshot
from dovetail.cloud.kwok.catalog import realistic_catalog
from dovetail.core.cost_floor.floor import Floor
from dovetail.core.provisioning.plan import plan_provisioning
from dovetail.model.kinds import DAEMON_SET, NODE_POOL
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.settings import DecisionOptions
from simulated_cluster import DAEMON_SETS, KWOK, Outcome, conclude, daemon_set, default_pool, mean, read_seeds

EC2 = {each.name: each for each in realistic_catalog()}
OPENB = Path(__file__).parent / "data" / "openb_pods.csv"
LARGEST = (60_000, 480_000)  # millicores and MiB
WAYS = {"by price": DecisionOptions(), "one by one": DecisionOptions(sizes_by_price=False)}


class Workload(NamedTuple):
    """Pods, and the NodePool that launches nodes for them."""

    pods: list[Pod]
    pool: NodePool


def pool_of(*without: str, burstable: bool = False) -> NodePool:
    """The NodePool of the other benchmarks, without the requirements on some labels."""
    plain = default_pool(burstable=burstable)
    template = plain["spec"]["template"]["spec"]
    template["requirements"] = [each for each in template["requirements"] if each["key"] not in without]
    found: NodePool = build(NODE_POOL, {**plain, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    return found


def deployments(seed: int, pods: int, pool: NodePool) -> Workload:
    """The Deployments of `settle.py`."""
    every = []
    for name, each in settle.draw(seed, pods).items():
        asked = each["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        every += [pod(f"{name}-{n}", asked["cpu"], asked["memory"]) for n in range(each["spec"]["replicas"])]
    return Workload(every, pool)


def recorded(seed: int, pods: int) -> Workload:
    """Pods of the recorded cluster that fit some type, on types of all sizes."""
    with OPENB.open(encoding="utf-8") as rows:
        kinds = [tuple(int(each) for each in row.values()) for row in csv.DictReader(rows)]
    kinds = [each for each in kinds if each[0] <= LARGEST[0] and each[1] <= LARGEST[1]]
    chance = random.Random(f"openb/{seed}")  # noqa: S311 - a benchmark is to be repeated
    drawn = chance.choices(kinds, [each[2] for each in kinds], k=pods // 2)
    every = [pod(f"p{n}", f"{cpu}m", f"{memory}Mi") for n, (cpu, memory, _) in enumerate(drawn)]
    return Workload(every, pool_of(f"{KWOK}/instance-cpu"))


WORKLOADS: dict[str, tuple[Callable[[int, int], Workload], float]] = {
    "EC2, on demand": (lambda seed, pods: deployments(seed, pods, pool_of()), 1.10),
    "burstable types": (lambda seed, pods: deployments(seed, pods, pool_of(burstable=True)), 1.15),
    "spot prices": (lambda seed, pods: deployments(seed, pods, pool_of(CAPACITY_TYPE)), 1.13),
    "recorded cluster": (recorded, 1.09),
}
"""Workloads, and the most that a plan by price may cost over the floor."""


def price(claim: NodeClaim) -> float:
    """The price of the cheapest offering of a claim's first type."""
    names = next(each.values for each in claim.spec.requirements if each.key == INSTANCE_TYPE)
    wanted = claim.requirements
    return min(each.price for each in EC2[names[0]].offerings if wanted.intersects(each.requirements) is None)


def plan(workload: Workload, options: DecisionOptions) -> Outcome:
    """The cost, the nodes and the time of a plan."""
    daemons = tuple(build(DAEMON_SET, daemon_set(name)) for name in DAEMON_SETS)
    empty = snapshot(workload.pods, pools=[workload.pool], types=tuple(EC2.values()))
    begun = time.process_time()
    launches = plan_provisioning(replace(empty, daemon_sets=daemons), options).launches
    seconds = time.process_time() - begun
    assert sum(len(each.pods) for each in launches) == len(workload.pods)
    return {"cost": sum(price(each.claim) for each in launches), "nodes": len(launches), "seconds": seconds}


def measure(name: str, seed: int, pods: int) -> Outcome:
    """One workload of one seed."""
    workload = WORKLOADS[name][0](seed, pods)
    pool = workload.pool
    floor = Floor({pool.name: pool}, {pool.name: tuple(EC2.values())}).of(workload.pods)
    found = {way: plan(workload, options) for way, options in WAYS.items()}
    return {way: {**each, "overFloor": each["cost"] / floor} for way, each in found.items()}


def show(name: str, rows: list[Outcome]) -> None:
    """The means of a workload, the way of each seed by price in brackets."""
    print(f"{name:18}", end="")
    for way in reversed(WAYS):
        over, nodes, seconds = (mean(row[way][each] for row in rows) for each in ("overFloor", "nodes", "seconds"))
        print(f" | {over:8.3f}{nodes:7.0f}{seconds:7.2f}", end="")
    print(f"   ({', '.join(format(row['by price']['overFloor'], '.3f') for row in rows)})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--seeds", type=read_seeds, default=[1, 2, 3], help="separated by commas (1,2,3)")
    parser.add_argument("--pods", type=int, default=1147, help="pods of the Deployments (%(default)s)")
    options = parser.parse_args()
    print(f"{'':18} | {'one by one':22} | {'by price':22}   by price, each seed")
    print(f"{'':18} | {'floor':>8}{'nodes':>7}{'s':>7} | {'floor':>8}{'nodes':>7}{'s':>7}")
    figures, bars = {}, {}
    for name, (_, bar) in WORKLOADS.items():
        rows = figures[name] = [measure(name, seed, options.pods) for seed in options.seeds]
        show(name, rows)
        found = mean(row["by price"]["overFloor"] for row in rows)
        bars[f"{name}: by price {found:.3f} of the floor, at most {bar}"] = found <= bar
    return conclude(bars, {"workloads": figures}, options.json)


if __name__ == "__main__":
    sys.exit(main())
