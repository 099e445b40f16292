"""A cluster under load: scaled out to many nodes, scaled in to two fifths, consolidated until nothing more is to gain.

`make load` lives through it with 500 nodes and 5,000 pods and prints the figures; the suite does with 60 and 600. The
controller is a process of its own under a service account of its own, so that the audit log has its requests alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from e2e.controlplane.api import eventually
from e2e.controlplane.process import Process
from e2e.controlplane.stack import ControlPlane
from e2e.invariants import Judge, deleting, hourly, judged, price, record_of, unrest
from e2e.running import ALONE, DOVETAIL, NODE_CLASS, apply, install_crds
from e2e.watching import Plain, Watcher

PODS_A_NODE = 10
SHAPES = (("500m", "1Gi"), ("700m", "1Gi"), ("1", "2Gi"))
STAYS = 0.4
CATALOG = {"DOVETAIL_CATALOG": "generic"}
QUIET = 90.0  # seconds without a change: a pass, its second look and the pause after it, on a machine that is busy
BUDGET = 0.2


@dataclass
class Figures:
    """What it took."""

    nodes: int = 0
    pods: int = 0
    nodes_after: int = 0
    pods_after: int = 0
    seconds_to_scale_out: float = 0.0
    seconds_to_rest: float = 0.0
    hourly_cost_before: float = 0.0
    hourly_cost_scaled_in: float = 0.0
    hourly_cost_after: float = 0.0
    evictions: int = 0
    most_nodes_away: int = 0
    cpu_seconds_scaling_out: float = 0.0
    cpu_seconds_consolidating: float = 0.0
    peak_memory_mib: float = 0.0
    restarts: int = 0
    requests: int = 0
    requests_by: dict[str, int] = field(default_factory=dict)
    requests_of_everyone: int = 0
    broken: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    planned: list[str] = field(default_factory=list)
    at_rest: bool = True


def pool(nodes: int) -> Plain:
    """Up to eight cores a node, a fifth of the nodes away at a time."""
    requirements = [
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    ref = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": ref, "requirements": requirements, "expireAfter": "Never"}}
    disruption = {"consolidateAfter": "5s", "minSavings": "0%", "budgets": [{"nodes": f"{BUDGET:.0%}"}]}
    spec = {"template": template, "disruption": disruption, "limits": {"cpu": str(nodes * 16)}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": spec}


def workload(number: int, replicas: int) -> list[Plain]:
    """A Deployment of one of three shapes, and a budget for a tenth of it."""
    name = f"app-{number:02}"
    cpu, memory = SHAPES[number % len(SHAPES)]
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    scaled = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    guard = {"maxUnavailable": "10%", "selector": {"matchLabels": labels}}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": scaled},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": guard},
    ]


class Kept:
    """A controller as a kubelet keeps it: measured while it runs, started again should it end."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.restarts = 0
        self.peak_memory_mib = 0.0
        self._earlier = self._latest = 0.0
        self._over = threading.Event()
        self._nodeclass_reconciler = threading.Thread(target=self._keep, name="keeper")

    def __enter__(self) -> Self:
        self._nodeclass_reconciler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._nodeclass_reconciler.join()
        self.process.stop(10)

    @property
    def cpu_seconds(self) -> float:
        """What all its lives used of the processors."""
        return self._earlier + self._latest

    def _keep(self) -> None:
        while not self._over.wait(0.2):
            if self.process.exit_code is not None:
                self._earlier, self._latest = self.cpu_seconds, 0.0
                self.restarts += 1
                self.process.start()
            try:
                self._measure(Path(f"/proc/{self.process.pid}"))
            except (OSError, StopIteration):
                continue  # it just ended

    def _measure(self, about: Path) -> None:
        spent = about.joinpath("stat").read_text().rpartition(")")[2].split()[11:13]
        lines = about.joinpath("status").read_text().splitlines()
        peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
        self._latest = sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")
        self.peak_memory_mib = max(self.peak_memory_mib, peak)


@contextmanager
def accountable(cluster: ControlPlane, variables: dict[str, str]) -> Iterator[Kept]:
    """`dovetail run` as a service account whose every request is on record."""
    if not cluster.api.get("/api/v1/namespaces/dovetail").ok:
        cluster.create_namespace("dovetail")
    cluster.audit_log.write_text("") if cluster.audit_log.exists() else None
    access = cluster.token_kubeconfig("load", cluster.service_account_token("dovetail", "load", 7200))
    subject = {"kind": "ServiceAccount", "namespace": "dovetail", "name": "load"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    cluster.api.post(bindings, {"metadata": {"name": "load"}, "roleRef": role, "subjects": [subject]})
    environment = {**os.environ, **ALONE, "DOVETAIL_LOG_FORMAT": "text", "DOVETAIL_DISRUPTION": "on", **variables}
    with Kept(cluster.launch("load", DOVETAIL, "run", "--kubeconfig", str(access), env=environment)) as kept:
        yield kept
    cluster.api.delete(f"{bindings}/load")


def requests_on_record(cluster: ControlPlane) -> Counter[str]:
    """What the controller asked of the API server, by verb and resource."""
    seen: Counter[str] = Counter()
    for line in cluster.audit_log.read_text().splitlines():
        entry = json.loads(line)
        about = entry["objectRef"]
        resource = "/".join(filter(None, (about["resource"], about.get("subresource", ""))))
        refused = entry.get("responseStatus", {}).get("code", 200)
        seen[f"{entry['verb']} {resource}" + (f" ({refused})" if refused >= 400 else "")] += 1
    return seen


def planned(cluster: ControlPlane) -> list[str]:
    """What `dovetail plan` would do next: the nodes of each command."""
    command = [DOVETAIL, "plan", "--kubeconfig", str(cluster.kubeconfig), "--output", "json"]
    asked = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **CATALOG})
    return [" ".join(each["nodes"]) for each in json.loads(asked.stdout)["commands"]]


def requests_served(cluster: ControlPlane) -> int:
    """What the API server was asked by everyone, watches included."""
    text = cluster.api.get("/metrics").expect()
    lines = (line for line in text.splitlines() if line.startswith("apiserver_request_total{"))
    return int(sum(float(line.rpartition(" ")[2]) for line in lines))


class Load:
    """One run."""

    def __init__(self, cluster: ControlPlane, namespace: str, nodes: int, enough: float = 0.0) -> None:
        """`enough`: at which share of the cost before it is over. Unless given, when nothing more happens."""
        self._cluster = cluster
        self._enough = enough
        self.patience = 2400.0
        self._namespace = namespace
        self._workloads = max(3, nodes // 25)
        self._replicas = nodes * PODS_A_NODE // self._workloads
        self._nodes = nodes
        self._prices = hourly("generic")
        self.figures = Figures(pods=self._workloads * self._replicas)

    def live(self) -> Figures:
        """From nothing to rest."""
        cluster, figures = self._cluster, self.figures
        served = requests_served(cluster)
        for manifest in (NODE_CLASS, pool(self._nodes)):
            apply(cluster, manifest)
        with Watcher(cluster) as seen, accountable(cluster, CATALOG) as kept:
            self._scale_out(seen, kept)
            self._scale_in(seen, kept)
            figures.peak_memory_mib, figures.restarts = kept.peak_memory_mib, kept.restarts
            assert "Traceback" not in kept.process.log.read_text(), kept.process.tail(60)
        self._look_back(seen)
        requests = requests_on_record(cluster)
        figures.requests, figures.requests_by = requests.total(), dict(requests.most_common())
        figures.requests_of_everyone = requests_served(cluster) - served
        return figures

    def _scale_out(self, seen: Watcher, kept: Kept) -> None:
        figures, began_at = self.figures, time.monotonic()
        manifests = [each for number in range(self._workloads) for each in workload(number, self._replicas)]
        apply(self._cluster, {"apiVersion": "v1", "kind": "List", "items": manifests}, self._namespace)
        eventually(lambda: self._runs(seen, figures.pods), "every pod runs", within=1200, every=0.5)
        figures.seconds_to_scale_out = time.monotonic() - began_at
        figures.nodes, figures.hourly_cost_before = len(seen.now("Node")), self._cost(seen)
        figures.cpu_seconds_scaling_out = kept.cpu_seconds

    def _scale_in(self, seen: Watcher, kept: Kept) -> None:
        figures, began_at = self.figures, time.monotonic()
        replicas = round(self._replicas * STAYS)
        names = [f"deployment/app-{number:02}" for number in range(self._workloads)]
        self._cluster.kubectl("scale", "-n", self._namespace, f"--replicas={replicas}", *names)
        figures.pods_after = replicas * self._workloads
        eventually(lambda: self._runs(seen, figures.pods_after), "the others stopped", within=600, every=0.5)
        figures.hourly_cost_scaled_in = self._cost(seen)
        last_change_at = self._cheaper(seen) if self._enough else self._rest(seen, began_at)
        figures.seconds_to_rest = last_change_at - began_at
        figures.nodes_after, figures.hourly_cost_after = len(seen.now("Node")), self._cost(seen)
        figures.cpu_seconds_consolidating = kept.cpu_seconds - figures.cpu_seconds_scaling_out

    def _cheaper(self, seen: Watcher) -> float:
        limit = self._enough * self.figures.hourly_cost_before
        eventually(lambda: self._cost(seen) <= limit, "it is cheap enough", within=240, every=0.5)
        eventually(lambda: not unrest(self._cluster), "nothing is left half done", within=60, every=0.5)
        return time.monotonic()

    def _rest(self, seen: Watcher, began_at: float) -> float:
        """Wait until nothing has happened for a while and nothing is planned; say when the last change was."""
        still_since, last = began_at, None

        def quiet() -> bool:
            nonlocal still_since, last
            nodes = sorted(node["metadata"]["name"] for node in seen.now("Node"))
            pods_to_reschedule = any(record_of(claim) or deleting(claim) for claim in seen.now("NodeClaim"))
            if nodes != last or pods_to_reschedule:
                still_since, last = time.monotonic(), nodes
            if time.monotonic() - still_since <= QUIET or unrest(self._cluster):
                return False
            self.figures.planned = planned(self._cluster)
            return not self.figures.planned

        deadline = time.monotonic() + self.patience
        while not quiet() and time.monotonic() < deadline:
            time.sleep(1)
        self.figures.left = unrest(self._cluster)
        self.figures.at_rest = quiet()
        return still_since

    def _runs(self, seen: Watcher, wanted: int) -> bool:
        pods = [pod for pod in seen.now("Pod") if pod["metadata"]["namespace"] == self._namespace]
        return len(pods) == wanted and all(pod["status"]["phase"] == "Running" for pod in pods)

    def _cost(self, seen: Watcher) -> float:
        return sum(price(node, self._prices) for node in seen.now("Node"))

    def _look_back(self, seen: Watcher) -> None:
        most = 0
        there: set[str] = set()
        for change in seen.history():
            if change.kind == "Node":
                (there.discard if change.after is None else there.add)(change.thing["metadata"]["uid"])
                most = max(most, len(there))
        judge: Judge = judged(seen.history(), {"default": -int(-most * BUDGET // 1)})
        self.figures.broken = judge.broken
        self.figures.evictions = len(judge.evicted)
        self.figures.most_nodes_away = judge.most_away.get("default", 0)


def told(figures: Figures) -> str:
    """The figures, for people."""
    rows = {name.replace("_", " "): value for name, value in asdict(figures).items() if name != "requests_by"}
    lines = [f"{name:28} {f'{value:,.2f}' if isinstance(value, float) else value}" for name, value in rows.items()]
    return "\n".join([*lines, "requests by", *(f"  {count:7,}  {what}" for what, count in figures.requests_by.items())])


def main() -> int:
    """Run it on a control plane of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--patience", type=float, default=2400.0, help="seconds it has to come to rest")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    parser.add_argument("--directory", type=Path, help="keep logs there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        figures = _live(asked.directory or Path(temporary), asked.nodes, asked.patience)
    sys.stdout.write(told(figures) + "\n")
    if asked.json:
        asked.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")
    return 1 if figures.broken or figures.left or not figures.at_rest else 0


def _live(directory: Path, nodes: int, patience: float) -> Figures:
    with ControlPlane(directory) as cluster:
        install_crds(cluster)
        load = Load(cluster, cluster.create_namespace("load"), nodes)
        load.patience = patience
        try:
            return load.live()
        except BaseException:
            sys.stderr.write((directory / "load.log").read_text()[-4000:])
            sys.stderr.write(told(load.figures) + "\n")
            raise


if __name__ == "__main__":
    sys.exit(main())
