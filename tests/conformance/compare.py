"""`make compare`: the same workload on Dovetail and on Karpenter, one after the other, each on a fresh control plane.

Four phases: scale out from nothing; scale in to 40 % and consolidate until nothing changes; let 1 % of the pods
leave and as many come every minute; replace every node because its template changed. Both controllers get the same
NodePool, the same budgets, the same batch windows and the same instance types at the same prices. Everything is
measured from outside: pods and nodes as the API server reports them, CPU time and memory from /proc of the controller's
process.
"""

import argparse
import dataclasses
import datetime as dt
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conformance.controllers import CONTROLLERS, karpenter_version, peer_cluster, require_built
from conformance.figures import ROWS, Figures, spread, table
from e2e.controlplane.stack import ControlPlane
from e2e.invariants import deleting, hourly, price
from e2e.loading import Kept
from e2e.running import NODE_CLASS, apply
from e2e.watching import Change, Watcher

SHAPES = (("100m", "256Mi"), ("500m", "1Gi"), ("700m", "3Gi"), ("1", "2Gi"), ("2", "4Gi"))
WORKLOADS = 10
STAYS = 0.4
"""The share of the pods that stays when the workload is scaled in."""
CHURN = 0.01
"""The share of the pods that leaves, and comes, every minute."""
QUIET = 90.0
"""Seconds without a change after which a cluster has settled."""
REVISION = "example.com/revision"
PRICE_LABEL = "eks-node-viewer/instance-price"
SETTINGS = {"BATCH_IDLE_DURATION": "1s", "BATCH_MAX_DURATION": "10s"}
Plain = dict[str, Any]
Prices = Mapping[tuple[str, str, str], float]
"""By instance type, zone and capacity type."""


def pool(revision: str) -> Plain:
    """A NodePool of ordinary on-demand instances; a fifth of its nodes may be disrupted at a time.

    In one zone: among offerings of equal price Karpenter's kwok provider draws a zone and Dovetail's takes the first.
    kube-scheduler prefers to spread the pods of a ReplicaSet over zones, so it would bind pods differently.
    """
    requirements = [
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8", "16"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]},
    ]
    ref = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    template = {
        "metadata": {"labels": {REVISION: revision}},
        "spec": {"nodeClassRef": ref, "requirements": requirements, "expireAfter": "Never"},
    }
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "30s",
        "budgets": [{"nodes": "20%"}],
    }
    spec = {"template": template, "disruption": disruption}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": spec}


def workload(number: int, replicas: int) -> Iterator[Plain]:
    """A Deployment of one of the shapes; a tenth of its pods may be unavailable."""
    name, (cpu, memory) = f"app-{number:02}", SHAPES[number % len(SHAPES)]
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    guard = {"maxUnavailable": "10%", "selector": {"matchLabels": labels}}
    yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": guard}


def evictions(changes: Iterable[Change]) -> int:
    """How many pods the eviction API removed: it puts the condition DisruptionTarget on each."""
    return len({change.thing["metadata"]["uid"] for change in changes if change.kind == "Pod" and _evicted(change)})


def _evicted(change: Change) -> bool:
    conditions = (change.thing.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "DisruptionTarget" and each["status"] == "True" for each in conditions)


def launched(changes: Iterable[Change]) -> int:
    """How many Nodes appeared."""
    return sum(change.kind == "Node" and change.before is None for change in changes)


def later_claims(changes: Iterable[Change]) -> set[str]:
    """NodeClaims, by uid, that were created after the first pod was bound.

    Until then a controller launches what it planned. Afterwards it launches for pods that found no room any more,
    because kube-scheduler had bound others to the nodes that were planned for them.
    """
    later, bound = set(), False
    for change in changes:
        if change.kind == "Pod" and change.after is not None:
            bound = bound or bool(change.after["spec"].get("nodeName"))
        elif change.kind == "NodeClaim" and change.before is None and bound:
            later.add(change.thing["metadata"]["uid"])
    return later


def node_price(node: Plain, prices: Prices) -> float:
    """What a node costs an hour by the common price list.

    Both controllers label a node with the price they bought it for, so a catalogue that differs is noticed.
    """
    listed, paid = price(node, prices), float(node["metadata"]["labels"][PRICE_LABEL])
    assert abs(listed - paid) < 1e-5, f"{node['metadata']['name']} costs {paid} $/h, and {listed} on the price list"
    return listed


class Comparison:
    """One controller's run."""

    def __init__(self, cluster: ControlPlane, name: str, asked: argparse.Namespace) -> None:
        self._cluster = cluster
        self._replicas = asked.pods // WORKLOADS
        self._churn_minutes: float = asked.churn_minutes
        self._prices = hourly("generic")
        self._stay = round(self._replicas * STAYS)
        self.figures = Figures(name, pods=self._replicas * WORKLOADS, load_before=os.getloadavg()[0])

    def run(self) -> Figures:
        """All four phases."""
        figures, namespace = self.figures, self._cluster.create_namespace("compare")
        with self._controller():
            self._phase("scale_out", lambda: self._scale_out(namespace))
            self._phase("settle", lambda: self._scale_in(namespace))
            self._phase("churn", lambda: self._churn(namespace))
            self._phase("drift", self._drift)
            figures.cpu_seconds, figures.restarts = self._kept.cpu_seconds, self._kept.restarts
            figures.peak_memory_mib = self._kept.peak_memory_mib
        figures.load_after = os.getloadavg()[0]
        return figures

    def scale_outs(self, times: int) -> list[float]:
        """Only the first phase, several times, each from nothing: what all nodes cost an hour in the end."""
        costs = []
        with self._controller():
            for number in range(times):
                namespace = self._cluster.create_namespace(f"compare-{number}")
                self._phase("scale_out", lambda namespace=namespace: self._scale_out(namespace))
                costs.append(self.figures.scale_out_cost)
                self._cluster.kubectl("delete", "namespace", namespace, "--wait=false")
                self._until(lambda: not self._seen.now("Pod"), "every pod is gone", 600)
                self._cluster.kubectl("delete", "nodeclaims", "--all", "--wait=false")
                self._until(lambda: not self._seen.now("Node") and not self._seen.now("NodeClaim"), "nothing left", 600)
        return costs

    @contextmanager
    def _controller(self) -> Iterator[None]:
        for manifest in (NODE_CLASS, pool("1")):
            apply(self._cluster, manifest)
        process = CONTROLLERS[self.figures.controller]().start(self._cluster, SETTINGS)
        with Watcher(self._cluster) as seen, Kept(process) as kept:
            self._seen, self._kept = seen, kept
            time.sleep(5)  # both have the lease and idle
            yield

    def _phase(self, name: str, act: Callable[[], float]) -> None:
        """Run a phase; `act` answers when it was over, on the monotonic clock."""
        began_at, began_wall, cpu = time.monotonic(), time.time(), self._kept.cpu_seconds
        ended_at = act()
        changes = [change for change in self._seen.history() if change.seen_at >= began_wall]
        self._set(name, "seconds", ended_at - began_at)
        self._set(name, "cpu_seconds", self._kept.cpu_seconds - cpu)
        self._set(name, "nodes", len(self._seen.now("Node")))
        self._set(name, "cost", self._cost())
        later = later_claims(changes)
        claims = [claim for claim in self._seen.now("NodeClaim") if claim["metadata"]["uid"] in later]
        self._set(name, "later_nodes", len(claims))
        self._set(name, "later_cost", sum(price(claim, self._prices) for claim in claims))
        self._set(name, "evictions", evictions(changes))
        self._set(name, "launched", launched(changes))
        told = {row: getattr(self.figures, row) for row in ROWS if row.startswith(name)}
        say(f"{self.figures.controller}: {json.dumps(told)}")

    def _set(self, phase: str, figure: str, value: float) -> None:
        if hasattr(self.figures, f"{phase}_{figure}"):
            setattr(self.figures, f"{phase}_{figure}", value)

    def _scale_out(self, namespace: str) -> float:
        manifests = [each for number in range(WORKLOADS) for each in workload(number, self._replicas)]
        apply(self._cluster, {"apiVersion": "v1", "kind": "List", "items": manifests}, namespace)
        return self._until(lambda: self._all_run(self.figures.pods), "every pod runs", 1200)

    def _scale_in(self, namespace: str) -> float:
        names = [f"deployment/app-{number:02}" for number in range(WORKLOADS)]
        self._cluster.kubectl("scale", "-n", namespace, f"--replicas={self._stay}", *names)
        self.figures.drift_pods = self._stay * WORKLOADS
        return self._until_quiet(3600)

    def _churn(self, namespace: str) -> float:
        """One Deployment loses a pod and another gains one, again and again: always as many pods."""
        rng, replicas, costs = random.Random(1), [self._stay] * WORKLOADS, []  # noqa: S311 - no secret
        period = 60 / (CHURN * sum(replicas))
        began_at = time.monotonic()
        for step in range(round(self._churn_minutes * 60 / period)):
            smaller = rng.choice([number for number in range(WORKLOADS) if replicas[number] > 1])
            larger = rng.choice([number for number in range(WORKLOADS) if number != smaller])
            for number, change in ((smaller, -1), (larger, 1)):
                replicas[number] += change
                self._scale(namespace, number, replicas[number])
            self.figures.churn_departures = step + 1
            while time.monotonic() < began_at + (step + 1) * period:
                costs.append(self._cost())
                time.sleep(1)
        self.figures.churn_mean_cost = statistics.mean(costs or [self._cost()])
        return time.monotonic()

    def _scale(self, namespace: str, number: int, replicas: int) -> None:
        self._cluster.kubectl("scale", "-n", namespace, f"--replicas={replicas}", f"deployment/app-{number:02}")

    def _drift(self) -> float:
        apply(self._cluster, pool("2"))
        return self._until(self._all_replaced, "every node is replaced", 3600)

    def _until(self, done: Callable[[], bool], what: str, within: float) -> float:
        deadline = time.monotonic() + within
        while not done():
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"{self.figures.controller}: not within {within:g} s: {what}; {self._kept.process.tail()}"
                )
            time.sleep(0.25)
        return time.monotonic()

    def _until_quiet(self, within: float) -> float:
        """Wait until no node came or went for a while; answers when the last one did."""
        last_change_at, last = time.monotonic(), None

        def quiet() -> bool:
            nonlocal last_change_at, last
            names = sorted(node["metadata"]["uid"] for node in self._seen.now("Node"))
            pods_to_reschedule = not self._all_run(self.figures.drift_pods) or any(
                map(deleting, self._seen.now("NodeClaim"))
            )
            if names != last or pods_to_reschedule:
                last_change_at, last = time.monotonic(), names
            return time.monotonic() - last_change_at > QUIET

        self._until(quiet, "nothing changes any more", within)
        return last_change_at

    def _all_run(self, wanted: int) -> bool:
        pods = self._seen.now("Pod")
        return len(pods) == wanted and all(pod["status"]["phase"] == "Running" for pod in pods)

    def _all_replaced(self) -> bool:
        nodes, claims = self._seen.now("Node"), self._seen.now("NodeClaim")
        current = all(node["metadata"]["labels"].get(REVISION) == "2" for node in nodes)
        return current and not any(map(deleting, [*nodes, *claims])) and self._all_run(self.figures.drift_pods)

    def _cost(self) -> float:
        return sum(node_price(node, self._prices) for node in self._seen.now("Node"))


def machine() -> Plain:
    """Where it was measured."""
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return {"cores": os.cpu_count(), "memory_gib": round(int(memory.split()[1]) / 2**20)}


def say(line: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def measure(name: str, asked: argparse.Namespace, directory: Path) -> Figures:
    """Run one controller on a control plane of its own."""
    with peer_cluster(directory / name) as cluster:
        return Comparison(cluster, name, asked).run()


def measure_scale_outs(name: str, asked: argparse.Namespace, directory: Path) -> list[float]:
    """Scale out several times on one control plane."""
    with peer_cluster(directory / name) as cluster:
        return Comparison(cluster, name, asked).scale_outs(asked.scale_outs)


def main() -> int:
    """Run both and print the table."""
    parser = argparse.ArgumentParser(prog="make compare", description=__doc__)
    parser.add_argument(
        "--pods", type=int, default=500, help=f"how many pods are scaled out, in {WORKLOADS} Deployments"
    )
    parser.add_argument("--churn-minutes", type=float, default=20, help="how long pods leave and come")
    parser.add_argument("--controller", choices=(*CONTROLLERS, "both"), default="both")
    parser.add_argument("--scale-outs", type=int, help="measure only scaling out, so many times, and print the costs")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    parser.add_argument("--directory", type=Path, help="keep the logs there")
    asked = parser.parse_args()
    require_built()
    names = list(CONTROLLERS) if asked.controller == "both" else [asked.controller]
    with tempfile.TemporaryDirectory(prefix="compare-") as temporary:
        if asked.scale_outs:
            each = [(name, measure_scale_outs(name, asked, asked.directory or Path(temporary))) for name in names]
            say("\n" + "\n".join(spread(name, costs) for name, costs in each))
            return 0
        runs = [measure(name, asked, asked.directory or Path(temporary)) for name in names]
    say("\n" + table(runs))
    about = {"date": dt.datetime.now(dt.UTC).date().isoformat(), "karpenter": karpenter_version(), **machine()}
    say(f"{about['date']}, Karpenter {about['karpenter']}, {about['cores']} cores, {about['memory_gib']} GiB")
    if asked.json:
        asked.json.write_text(json.dumps({**about, "runs": list(map(dataclasses.asdict, runs))}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
