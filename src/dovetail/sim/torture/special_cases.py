"""Draws rare settings and events, so that every invariant is exercised by some trials.

NodePools: `minSavings`, delays of minutes, `actionControls`, budgets with a schedule, repair policies, a protected
template.
Workloads: critical pods, unreadable do-not-disrupt values, a volume that detaches slowly, a critical DaemonSet.
Events: changes of disruption settings, several unhealthy nodes at once, a pause of all NodePools by the ConfigMap. Some
trials also run a replica in dry run. Each group has a separate random generator, so it changes no other piece.
"""

import random
from typing import Any

from dovetail.sim.torture.trial import TrialPiece

Plain = dict[str, Any]
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
UNREADABLE = ("soon", "0s", "-5m", "4 hours", "yes", "")
CRITICAL = "system-cluster-critical"
DETACH_DELAY = "volume-detach.stage.kwok.x-k8s.io/delay"
CLOSED_WINDOW = {"nodes": "0", "schedule": "10,40 * * * *", "duration": "12m"}

ACTION_CONTROLS: tuple[Plain, ...] = (
    {"Drift": {"disruptAfter": "4m"}},
    {"Emptiness": {"disruptAfter": "4m"}, "Consolidation": {"disruptAfter": "7m"}},
    {"Consolidation": {"disruptAfter": "5m", "budgets": [{"nodes": "1"}]}},
    {"All": {"budgets": [{"nodes": "1"}]}, "Drift": {"budgets": [{"nodes": "50%"}]}},
    {"Expiration": {"disruptAfter": "25m"}, "Drift": {"budgets": [{"nodes": "2"}, CLOSED_WINDOW]}},
    {"All": {"disruptAfter": "3m"}, "Emptiness": {"budgets": []}},
)
REPAIR: tuple[Plain, ...] = (
    {"policies": [{"conditionType": "Ready", "toleration": "4m"}]},
    {"defaultTolerationDuration": "6m", "policies": [{"conditionType": "MemoryPressure", "toleration": "3m"}]},
)


def _rng(seed: int, name: str) -> random.Random:
    return random.Random(f"{seed}/special/{name}")  # noqa: S311 - reproducible, not secret


def add_rare_pool_settings(seed: int, number: int, spec: Plain) -> None:
    """Add settings that few NodePools have."""
    rng = _rng(seed, f"pool/{number}")
    disruption = spec["disruption"]
    if rng.random() < 0.25:
        disruption["consolidateAfter"] = rng.choice(("3m", "5m", "8m"))
    if rng.random() < 0.2:
        disruption["actionControls"] = rng.choice(ACTION_CONTROLS)
    if rng.random() < 0.15:
        disruption["budgets"] = [*disruption["budgets"], CLOSED_WINDOW]
    if rng.random() < 0.2:
        spec["repair"] = rng.choice(REPAIR)
    restraint = _rng(seed, f"restraint/{number}").random()
    if restraint < 0.8:  # the default restrains so much that commands would be rare
        disruption["minSavings"] = "0%" if restraint < 0.5 else "10%"
    if rng.random() < 0.04:
        metadata = spec["template"]["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), DO_NOT_DISRUPT: "true"}


def add_rare_workload_settings(seed: int, number: int, deployment: Plain) -> None:
    """Add settings that few workloads have."""
    rng = _rng(seed, f"workload/{number}")
    template = deployment["spec"]["template"]
    if rng.random() < 0.12:
        template["spec"]["priorityClassName"] = CRITICAL
    if rng.random() < 0.06:
        template["metadata"]["annotations"][DO_NOT_DISRUPT] = rng.choice(UNREADABLE)


def draw_special_pieces(seed: int, faults_end_at: float) -> list[TrialPiece]:
    """Draw the objects and events that few trials have."""
    pieces: list[TrialPiece] = []
    rng = _rng(seed, "scene")
    if rng.random() < 0.15:
        pieces.append(
            TrialPiece("s0", 0, "Volume", {"manifests": deployment_with_volume(rng.choice(("20s", "45s", "100s")))})
        )
    if rng.random() < 0.15:
        pieces.append(TrialPiece("s1", 0, "DaemonSet", {"manifests": [_critical_daemon_set()]}))
    if rng.random() < 0.06:
        pieces.append(TrialPiece("s2", 0, "dry run", {"manifests": []}))
    return [
        *pieces,
        *_settings_changes(seed, faults_end_at),
        *_unhealthy_nodes(seed, faults_end_at),
        *_pauses_of_all_pools(seed, faults_end_at),
    ]


def _settings_changes(seed: int, faults_end_at: float) -> list[TrialPiece]:
    rng = _rng(seed, "terms")
    choices: tuple[Plain, ...] = (
        {"consolidationPolicy": "WhenEmpty"},
        {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
        {"consolidateAfter": "4m"},
        {"consolidateAfter": "Never"},
        {"consolidationGracePeriod": "4m"},
    )
    found = []
    for number in range(rng.choice((0, 0, 1, 2))):
        at, parameters = rng.uniform(60, faults_end_at), {"which": rng.randrange(1000), "settings": rng.choice(choices)}
        found.append(TrialPiece(f"t{number}", round(at, 1), "change disruption settings", parameters))
    return found


def _unhealthy_nodes(seed: int, faults_end_at: float) -> list[TrialPiece]:
    """Make one or several nodes unhealthy until they are repaired or the faults end."""
    rng = _rng(seed, "illnesses")
    if rng.random() >= 0.3:
        return []
    at, first, number = rng.uniform(120, faults_end_at * 0.7), rng.randrange(1000), rng.choice((1, 1, 2, 3))
    condition, status = rng.choice((("Ready", "False"), ("NetworkUnavailable", "True"), ("MemoryPressure", "True")))
    parameters = {"condition": condition, "status": status}
    return [
        TrialPiece(f"i{n}", round(at + n, 1), "node is unhealthy", {"which": first + n, **parameters})
        for n in range(number)
        if at + n < faults_end_at
    ]


def _pauses_of_all_pools(seed: int, faults_end_at: float) -> list[TrialPiece]:
    """Pause all NodePools by the ConfigMap and resume minutes later; often the ConfigMap watch is silent then."""
    rng = _rng(seed, "pauses")
    found: list[TrialPiece] = []
    for number in range(rng.choice((0, 0, 0, 1, 2))):
        at, until = rng.uniform(60, faults_end_at), rng.choice(("true", "true", "soon", "600"))
        resumed_at, resumed = at + rng.uniform(90, 900), rng.choice(("false", None))
        watch_silent_at, seconds = at + rng.uniform(-30, 10), rng.choice((25, 120, 240))
        found.append(TrialPiece(f"g{number}", round(at, 1), "pause all pools", {"until": until}))
        found.append(TrialPiece(f"g{number}u", round(resumed_at, 1), "pause all pools", {"until": resumed}))
        if rng.random() < 0.4:
            parameters = {"kind": "ConfigMap", "seconds": seconds}
            found.append(TrialPiece(f"g{number}w", round(watch_silent_at, 1), "watch is silent", parameters))
    return [each for each in found if each.at < faults_end_at]


def deployment_with_volume(detach_delay: str) -> list[Plain]:
    """A Deployment with one pod and a volume that takes this long to detach."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk", "annotations": {DETACH_DELAY: detach_delay}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "disk.example.com", "volumeHandle": "disk"},
            "claimRef": {"name": "data", "namespace": "default"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "volumeName": "disk",
            "storageClassName": "",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    }
    pod = {
        "containers": [_container("400m")],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    return [volume, claim, _workload("Deployment", "with-disk", {"replicas": 1}, pod)]


def _critical_daemon_set() -> Plain:
    pod = {"containers": [_container("50m")], "priorityClassName": "system-node-critical"}
    return _workload("DaemonSet", "critical-agent", {}, pod)


def _container(cpu: str) -> Plain:
    return {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}


def _workload(kind: str, name: str, spec: Plain, pod: Plain) -> Plain:
    template = {"metadata": {"labels": {"app": name}, "annotations": {}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "selector": {"matchLabels": {"app": name}}, "template": template},
    }
