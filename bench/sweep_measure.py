"""One sweep of one cluster, timed: `sweep_measure.py NODES REGIME SAMPLE` prints the figures as JSON.

Base and sweep are run several times over the same snapshot; the shortest of each is taken. `SAMPLE` nodes are given to
the reference solver as well.
"""

import gc
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cluster import cluster, usable
from dovetail.core.scheduling.removal import Removal
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.model.nodepool import NodePool
from dovetail.model.snapshot import Snapshot

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

REPEATS = 3


def resident_mb() -> float:
    """What the process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def peak_mb() -> float:
    """The most the process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def sweep_once(snapshot: Snapshot, pools: Sequence[NodePool]) -> tuple[float, float, dict[str, Removal]]:
    """Seconds for the base, seconds for the sweep, and the answers."""
    begun = time.process_time()
    swept = RemovalSimulation(snapshot, pools)
    built = time.process_time()
    answers = {swept.name(row): swept.remove(row) for row in swept.rows}
    return built - begun, time.process_time() - built, answers


def ask_reference(
    snapshot: Snapshot, pools: Sequence[NodePool], sample: int, answers: Mapping[str, Removal]
) -> dict[str, Any]:
    """The reference solver's time for some nodes, and whether it says the same."""
    removal = import_module("reference.sweep").removal
    rng = random.Random(3)  # noqa: S311 - not for secrets
    chosen = rng.sample(snapshot.nodes, sample)
    begun = time.process_time()
    theirs = {node.name: removal(snapshot, node, pools).kind for node in chosen}
    each = (time.process_time() - begun) / sample
    agreed = sum(answers[name].kind == kind for name, kind in theirs.items())
    return {"sampled": sample, "each": each, "whole": each * len(snapshot.nodes), "agreed": agreed}


def cpu_used(snapshot: Snapshot) -> float:
    """The share of cpu that is asked for."""
    asked = sum(
        container.resources.requests["cpu"].milli
        for node in snapshot.nodes
        for pod in node.pods
        for container in pod.spec.containers
    )
    return asked / sum(node.allocatable["cpu"].milli for node in snapshot.nodes)


def main() -> None:
    nodes, regime, sample = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    before = resident_mb()
    snapshot = cluster(nodes, regime)
    gc.collect()
    held = resident_mb() - before
    pools = usable(snapshot)
    runs = [sweep_once(snapshot, pools)]
    peak = peak_mb()
    answers = runs[0][2]
    runs += [sweep_once(snapshot, pools) for _ in range(REPEATS - 1)]
    base, removal_simulation = min(run[0] for run in runs), min(run[1] for run in runs)
    workload_pods = [pod for node in snapshot.nodes for pod in node.pods if not pod.daemon]
    figures: dict[str, Any] = {
        "nodes": nodes,
        "regime": regime,
        "pods": len(workload_pods),
        "classes": len({pod.metadata.labels["app"] for pod in workload_pods}),
        "cpu_used": cpu_used(snapshot),
        "answers": Counter(answer.kind for answer in answers.values()),
        "base": base,
        "sweep": removal_simulation,
        "whole": base + removal_simulation,
        "each_us": (base + removal_simulation) / nodes * 1e6,
        "snapshot_mb": held,
        "peak_mb": peak,
    }
    if sample:
        reference = ask_reference(snapshot, pools, sample, answers)
        figures["reference"] = {**reference, "times_faster": reference["whole"] / figures["whole"]}
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
