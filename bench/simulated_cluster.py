"""A simulated cluster with the real controllers on virtual time, for the benchmarks that count evictions and dollars.

The NodePool has the default settings: it consolidates at once (`consolidateAfter: 0s`) within a budget of 10 %. It buys
EC2's types with 2 to 16 CPUs, on demand. Two DaemonSets run on every node; their pods are neither counted nor part of
the floor. `Costs` divides what is billed by the floor under any plan for the same pods.
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from dovetail.cli.simulation.runner import infrequent_gc
from dovetail.core.cost_floor.floor import Floor
from dovetail.model import kinds
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, ON_DEMAND
from dovetail.model.pod import Pod
from dovetail.settings import Settings
from dovetail.sim.kubernetes.kinds import REPLICAS
from dovetail.sim.kubernetes.kubelet import KubeletTiming
from dovetail.sim.scenario.meter import HOUR, Meter
from dovetail.sim.virtual_loop import run
from dovetail.sim.world import ApiCall, WorldOptions
from dovetail.wiring.embedded import Embedded, embedded

MINUTE = 60.0
ALL_RUN_WITHIN = 30 * MINUTE
BURSTABLE = ("t3", "t3a", "t4g")
FAMILIES = [f"{kind}{generation}" for kind in "cmr" for generation in ("5", "6a", "6g", "6i", "7g", "7i")]
CPUS = ("2", "4", "8", "16")
DAEMON_SETS = ("logs", "network")
SETTINGS = Settings(catalog="realistic", disruption="on", watch_stale_after=timedelta(days=1))

KWOK = "karpenter.kwok.sh"
NODE_CLASS = {"apiVersion": f"{KWOK}/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}

Plain = dict[str, Any]
Outcome = dict[str, Any]


@dataclass(slots=True)
class Evictions:
    """Counts evictions by workload while the meter counts API calls."""

    meter: Meter
    by_workload: Counter[str] = field(default_factory=Counter)

    async def before(self, call: ApiCall) -> None:
        """Pass the call on."""
        await self.meter.before(call)

    async def after(self, call: ApiCall) -> None:
        """Count an eviction that the API server accepted; pods of DaemonSets leave with their node and do not count."""
        await self.meter.after(call)
        workload = call.key.name.partition("-")[0] if call.key is not None else ""
        if call.operation == "evict" and workload not in DAEMON_SETS:
            self.by_workload[workload] += 1

    @property
    def total(self) -> int:
        """All evictions since the last `clear`."""
        return sum(self.by_workload.values())

    def clear(self) -> None:
        """Start to count again."""
        self.by_workload.clear()


@dataclass
class SimulatedCluster:
    """A world with controllers, and what a benchmark reads from it."""

    parts: Embedded
    meter: Meter
    evictions: Evictions
    floor: Floor

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Pods that have not finished, without those of DaemonSets."""
        return tuple(pod for pod in self._workload_pods() if not pod.terminal and not pod.deleting)

    def _workload_pods(self) -> list[Pod]:
        return [pod for pod in self.parts.world.values(kinds.POD) if not pod.daemon]

    @property
    def bound(self) -> float:
        """The least cost of these pods, in dollars an hour."""
        return self.floor.of(self.pods)

    def all_run(self, number: int) -> bool:
        """Whether that many pods are ready, and no other exists."""
        pods = self._workload_pods()
        return len(pods) == number and all(pod.ready and not pod.deleting for pod in pods)

    def apply(self, *manifests: Plain) -> None:
        """`kubectl apply`."""
        for manifest in manifests:
            self.parts.world.apply(manifest)

    def delete_replica_set(self, name: str) -> None:
        """Delete a ReplicaSet, and with it its pods."""
        self.parts.world.api.delete(REPLICAS, Key("default", name))

    async def until(self, holds: Callable[[], bool], within: float = ALL_RUN_WITHIN) -> None:
        """Let time pass until something holds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while not holds():
            if loop.time() > deadline:
                raise TimeoutError(f"not within {within:.0f} s of virtual time")
            await asyncio.sleep(0.5)


@dataclass(slots=True)
class Costs:
    """What is billed over the floor, as a mean over time."""

    cluster: SimulatedCluster
    spent: float = 0.0
    floor: float = 0.0
    _billed: float = 0.0

    def begin(self) -> None:
        """Measure from now on."""
        self.spent = self.floor = 0.0
        self._billed = self.cluster.meter.spent(asyncio.get_running_loop().time())

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and add what it cost; the pods at its end stand for the whole of it."""
        await asyncio.sleep(seconds)
        billed = self.cluster.meter.spent(asyncio.get_running_loop().time())
        self.spent += billed - self._billed
        self._billed = billed
        self.floor += self.cluster.bound * seconds / HOUR

    @property
    def ratio(self) -> float:
        """Billed over the floor."""
        return self.spent / self.floor


@asynccontextmanager
async def simulated_cluster(
    seed: int, pool: Plain, *workloads: Plain, nominate_pods: bool = True
) -> AsyncIterator[SimulatedCluster]:
    """A cluster with this NodePool, and these workloads applied at once."""
    settings = replace(SETTINGS, nominate_pods=nominate_pods)
    options = WorldOptions(
        seed=seed,
        keeps_log=False,
        history_limit=20_000,
        kubelet=replace(KubeletTiming(), heartbeat=24 * HOUR),
        bookmark_every=1800.0,
        watch_lifetime=(3600.0, 7200.0),
    )
    async with embedded(options, settings, seen=False) as parts:
        meter = Meter()
        meter.watch(parts.world, asyncio.get_running_loop().time)
        parts.world.interference = evictions = Evictions(meter)
        for manifest in (NODE_CLASS, pool, *map(daemon_set, DAEMON_SETS), *workloads):
            parts.world.apply(manifest)
        (read,) = parts.world.values(kinds.NODE_POOL)
        types = await parts.parts.provider.instance_types(read)
        yield SimulatedCluster(parts, meter, evictions, Floor({read.name: read}, {read.name: types}))


def default_pool(*, burstable: bool = False, **disruption: Any) -> Plain:
    """The NodePool of the benchmarks; `disruption` changes its defaults, except where it is None."""
    values = {
        CAPACITY_TYPE: [ON_DEMAND],
        f"{KWOK}/instance-family": [*FAMILIES, *(BURSTABLE if burstable else ())],
        f"{KWOK}/instance-cpu": [*CPUS],
    }
    requirements = [{"key": key, "operator": "In", "values": each} for key, each in values.items()]
    template = {
        "nodeClassRef": {"group": KWOK, "kind": "KWOKNodeClass", "name": "default"},
        "requirements": requirements,
    }
    written = {key: value for key, value in disruption.items() if value is not None}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": template}, "disruption": {"consolidateAfter": "0s", **written}},
    }


def deployment(name: str, replicas: int, cpu: str, memory: str, kind: str = "Deployment") -> Plain:
    """A workload of equal pods."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def daemon_set(name: str) -> Plain:
    """A small pod on every node, as a log collector or a network agent."""
    return deployment(name, 1, "100m", "128Mi", "DaemonSet")


def run_seeds(seeds: Sequence[int], jobs: int, one: Callable[[int], Outcome]) -> list[Outcome]:
    """The outcome of each seed, in this process or in several."""
    if jobs == 1 or len(seeds) == 1:
        return [one(seed) for seed in seeds]
    with ProcessPoolExecutor(jobs) as executor:
        return [*executor.map(one, seeds)]


def on_virtual_time(story: Any) -> Any:
    """The result of a coroutine, on a virtual event loop."""
    with infrequent_gc():
        return run(story, limit=40 * 24 * HOUR)


def parser(doc: str | None, pods: int) -> argparse.ArgumentParser:
    """The options that these benchmarks share."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", type=Path, help="write the figures to this file as well")
    made.add_argument("--seeds", type=read_seeds, default=[1, 2, 3], help="separated by commas (1,2,3)")
    made.add_argument("--jobs", type=int, default=1, help="processes, one seed each (%(default)s)")
    made.add_argument("--pods", type=int, default=pods, help="pods at the beginning (%(default)s)")
    made.add_argument("--min-savings", help="of the NodePool (the default of NodePools)")
    return made


def read_seeds(text: str) -> list[int]:
    """`1,2,5` as numbers."""
    return [int(each) for each in text.split(",")]


def conclude(bars: Mapping[str, bool], figures: Outcome, path: Path | None) -> int:
    """Print the bars, write the figures, and return the exit code."""
    for said, met in bars.items():
        print(f"{'met   ' if met else 'MISSED'} {said}")
    if path is not None:
        path.write_text(json.dumps({**figures, "bars": dict(bars)}, indent=2) + "\n", encoding="utf-8")
    return 0 if all(bars.values()) else 1


def mean(numbers: Iterable[float]) -> float:
    """The arithmetic mean."""
    every = [*numbers]
    return sum(every) / len(every)
