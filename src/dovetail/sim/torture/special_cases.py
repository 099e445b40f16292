"""What stories have now and then beyond the ordinary, so that every invariant is put to the test.

Pools: waits of minutes, action controls, windows, repair policies, a protected template. Workloads: critical pods,
values of do-not-disrupt that cannot be read, a volume that detaches late, a critical DaemonSet. People: changes of the
disruption terms, several sick nodes at once, a pause of every NodePool by the ConfigMap. And a replica in a dry run.
Each has its own dice, so that it changes nothing else in a story.
"""

import random
from typing import Any

from dovetail.sim.torture.trial import TrialPiece

Plain = dict[str, Any]
PROTECTION = "karpenter.sh/do-not-disrupt"
UNREADABLE = ("soon", "0s", "-5m", "4 hours", "yes", "")
CRITICAL = "system-cluster-critical"
DETACHING = "volume-detach.stage.kwok.x-k8s.io/delay"
NIGHT = {"nodes": "0", "schedule": "10,40 * * * *", "duration": "12m"}

ACTION_CONTROLS: tuple[Plain, ...] = (
    {"Drift": {"disruptAfter": "4m"}},
    {"Emptiness": {"disruptAfter": "4m"}, "Consolidation": {"disruptAfter": "7m"}},
    {"Consolidation": {"disruptAfter": "5m", "budgets": [{"nodes": "1"}]}},
    {"All": {"budgets": [{"nodes": "1"}]}, "Drift": {"budgets": [{"nodes": "50%"}]}},
    {"Expiration": {"disruptAfter": "25m"}, "Drift": {"budgets": [{"nodes": "2"}, NIGHT]}},
    {"All": {"disruptAfter": "3m"}, "Emptiness": {"budgets": []}},
)
REPAIR: tuple[Plain, ...] = (
    {"policies": [{"conditionType": "Ready", "toleration": "4m"}]},
    {"defaultTolerationDuration": "6m", "policies": [{"conditionType": "MemoryPressure", "toleration": "3m"}]},
)


def _dice(seed: int, name: str) -> random.Random:
    return random.Random(f"{seed}/special/{name}")  # noqa: S311 - reproducible, not secret


def add_pool_terms(seed: int, number: int, spec: Plain) -> None:
    """Terms that few pools have."""
    dice = _dice(seed, f"pool/{number}")
    disruption = spec["disruption"]
    if dice.random() < 0.25:
        disruption["consolidateAfter"] = dice.choice(("3m", "5m", "8m"))
    if dice.random() < 0.2:
        disruption["actionControls"] = dice.choice(ACTION_CONTROLS)
    if dice.random() < 0.15:
        disruption["budgets"] = [*disruption["budgets"], NIGHT]
    if dice.random() < 0.2:
        spec["repair"] = dice.choice(REPAIR)
    if dice.random() < 0.04:
        metadata = spec["template"]["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), PROTECTION: "true"}


def add_workload_terms(seed: int, number: int, deployment: Plain) -> None:
    """Terms that few workloads have."""
    dice = _dice(seed, f"workload/{number}")
    template = deployment["spec"]["template"]
    if dice.random() < 0.12:
        template["spec"]["priorityClassName"] = CRITICAL
    if dice.random() < 0.06:
        template["metadata"]["annotations"][PROTECTION] = dice.choice(UNREADABLE)


def draw_special_pieces(seed: int, peace_at: float) -> list[TrialPiece]:
    """What is there, or happens, in few stories."""
    pieces: list[TrialPiece] = []
    dice = _dice(seed, "scene")
    if dice.random() < 0.15:
        pieces.append(
            TrialPiece("s0", 0, "Volume", {"manifests": deployment_with_volume(dice.choice(("20s", "45s", "100s")))})
        )
    if dice.random() < 0.15:
        pieces.append(TrialPiece("s1", 0, "DaemonSet", {"manifests": [_critical_daemon_set()]}))
    if dice.random() < 0.06:
        pieces.append(TrialPiece("s2", 0, "dry run", {"manifests": []}))
    return [
        *pieces,
        *_changes_of_terms(seed, peace_at),
        *_illnesses(seed, peace_at),
        *_pauses_of_everything(seed, peace_at),
    ]


def _changes_of_terms(seed: int, peace_at: float) -> list[TrialPiece]:
    dice = _dice(seed, "terms")
    choices: tuple[Plain, ...] = (
        {"consolidationPolicy": "WhenEmpty"},
        {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
        {"consolidateAfter": "4m"},
        {"consolidateAfter": "Never"},
        {"consolidationGracePeriod": "4m"},
    )
    found = []
    for number in range(dice.choice((0, 0, 1, 2))):
        at, terms = dice.uniform(60, peace_at), {"which": dice.randrange(1000), "terms": dice.choice(choices)}
        found.append(TrialPiece(f"t{number}", round(at, 1), "change disruption terms", terms))
    return found


def _illnesses(seed: int, peace_at: float) -> list[TrialPiece]:
    """One node, or several at once, for as long as it takes."""
    dice = _dice(seed, "illnesses")
    if dice.random() >= 0.3:
        return []
    at, first, number = dice.uniform(120, peace_at * 0.7), dice.randrange(1000), dice.choice((1, 1, 2, 3))
    condition, status = dice.choice((("Ready", "False"), ("NetworkUnavailable", "True"), ("MemoryPressure", "True")))
    terms = {"condition": condition, "status": status}
    return [
        TrialPiece(f"i{n}", round(at + n, 1), "node is sick", {"which": first + n, **terms})
        for n in range(number)
        if at + n < peace_at
    ]


def _pauses_of_everything(seed: int, peace_at: float) -> list[TrialPiece]:
    """Everything is paused by the ConfigMap and resumed minutes later; often its watch is behind just then."""
    dice = _dice(seed, "pauses")
    found: list[TrialPiece] = []
    for number in range(dice.choice((0, 0, 0, 1, 2))):
        at, until = dice.uniform(60, peace_at), dice.choice(("true", "true", "soon", "600"))
        resumed_at, resumed = at + dice.uniform(90, 900), dice.choice(("false", None))
        behind_at, seconds = at + dice.uniform(-30, 10), dice.choice((25, 120, 240))
        found.append(TrialPiece(f"g{number}", round(at, 1), "pause everything", {"until": until}))
        found.append(TrialPiece(f"g{number}u", round(resumed_at, 1), "pause everything", {"until": resumed}))
        if dice.random() < 0.4:
            terms = {"kind": "ConfigMap", "seconds": seconds}
            found.append(TrialPiece(f"g{number}w", round(behind_at, 1), "watch is silent", terms))
    return [each for each in found if each.at < peace_at]


def deployment_with_volume(detaching: str) -> list[Plain]:
    """One pod with a disk that takes its time to detach."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk", "annotations": {DETACHING: detaching}},
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
