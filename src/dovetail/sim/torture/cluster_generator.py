"""Draws the initial objects of a trial from its seed: NodePools with varied settings, and workloads.

Clusters are small, so that a trial takes about a second: bugs show when many things happen at once, not in large
clusters. Every object has a separate random generator, so a change to one draw leaves the other objects unchanged.
"""

import random
from typing import Any

from dovetail.sim.torture.special_cases import add_rare_pool_settings, add_rare_workload_settings
from dovetail.sim.torture.trial import TrialPiece

Plain = dict[str, Any]

ZONES = ("test-zone-a", "test-zone-b", "test-zone-c")
CLASS_REF = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
NODE_CLASS: Plain = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
    "spec": {},
}
PRIORITIES = {"low": -10, "high": 1000}
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
POD_STOP_DELAY = "pod-delete.stage.kwok.x-k8s.io/delay"
NODE_READY_DELAY = "node-ready.stage.kwok.x-k8s.io/delay"
TOLERATES_ALL = [{"operator": "Exists"}]


def draw_initial_objects(seed: int) -> list[TrialPiece]:
    """Draw NodePools and workloads."""
    rng = _rng(seed, "scene")
    pieces = [TrialPiece("p0", 0, "NodePool", {"manifest": draw_pool(seed, 0)}, needed=True)]
    pieces += [
        TrialPiece(f"p{n}", 0, "NodePool", {"manifest": draw_pool(seed, n)}) for n in range(1, rng.choice((1, 2, 2, 3)))
    ]
    for number in range(rng.randint(2, 4)):
        pieces.append(TrialPiece(f"w{number}", 0, "Deployment", {"manifests": _deployment(seed, number)}))
    if rng.random() < 0.4:
        pieces.append(TrialPiece("d0", 0, "DaemonSet", {"manifests": [_daemon_set(seed)]}))
    if rng.random() < 0.5:
        pieces.append(TrialPiece("j0", 0, "Job", {"manifests": [draw_job(seed, 0)]}))
    return pieces


def _rng(seed: int, name: str) -> random.Random:
    return random.Random(f"{seed}/{name}")  # noqa: S311 - reproducible, not secret


def draw_pool(seed: int, number: int) -> Plain:
    """Draw a NodePool. Every pod can run on pool 0, so that every trial can settle."""
    rng = _rng(seed, f"pool/{number}")
    cpus = rng.choice((["2"], ["2", "4"], ["2", "4", "8"], ["4"]))
    requirements: list[Plain] = [
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": cpus},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": _capacity_types(rng)},
    ]
    template: Plain = {"nodeClassRef": CLASS_REF, "requirements": requirements}
    if rng.random() < 0.35:
        template["terminationGracePeriod"] = rng.choice(("90s", "5m", "15m"))
    template["expireAfter"] = rng.choice(("Never", "Never", "25m", "50m", "100m"))
    spec: Plain = {"template": {"metadata": _slow_start(seed, number), "spec": template}}
    spec["disruption"] = _disruption(rng)
    if number:
        spec["weight"] = rng.choice((1, 10, 50))
    if rng.random() < 0.4:
        spec["limits"] = rng.choice(({"cpu": "8"}, {"cpu": "16"}, {"nodes": "3"}, {"cpu": "24", "memory": "64Gi"}))
    if rng.random() < 0.35:
        spec["repair"] = rng.choice(({}, {"defaultTolerationDuration": "5m"}))
    add_rare_pool_settings(seed, number, spec)
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": f"pool-{number}"}, "spec": spec}


def _slow_start(seed: int, number: int) -> Plain:
    """Metadata of a template whose nodes may take minutes to become ready, which delays replacements."""
    rng = _rng(seed, f"slow/{number}")
    delay = rng.choice(("", "", "40s", "100s", "200s"))
    return {"annotations": {NODE_READY_DELAY: delay}} if delay else {}


def _capacity_types(rng: random.Random) -> list[str]:
    return rng.choice((["on-demand"], ["spot"], ["on-demand", "spot"], ["on-demand"]))


def _disruption(rng: random.Random) -> Plain:
    disruption: Plain = {
        "consolidationPolicy": rng.choice(
            (
                "WhenEmptyOrUnderutilized",
                "WhenEmptyOrUnderutilized",
                "WhenEmptyOrUnderutilized",
                "WhenEmpty",
                "Balanced",
            )
        ),
        "consolidateAfter": rng.choice(("0s", "0s", "30s", "5m", "Never")),
        "budgets": draw_budgets(rng),
    }
    if rng.random() < 0.25:
        disruption["consolidationGracePeriod"] = rng.choice(("1m", "5m"))
    if rng.random() < 0.3:
        disruption["expireAfter"] = rng.choice(("20m", "45m", "90m"))
    return disruption


def draw_budgets(rng: random.Random) -> list[Plain]:
    """Draw budgets: permissive, strict, by reason, or with a schedule."""
    choices: tuple[list[Plain], ...] = (
        [{"nodes": "100%"}],
        [{"nodes": "1"}],
        [{"nodes": "1"}],
        [{"nodes": "2"}],
        [{"nodes": "34%"}],
        [{"nodes": "10%"}],
        [{"nodes": "100%"}, {"nodes": "1", "reasons": ["Drifted"]}],
        [{"nodes": "50%"}, {"nodes": "0", "action": "Consolidation"}],
        [{"nodes": "2"}, {"nodes": "0", "schedule": "*/20 * * * *", "duration": "8m"}],
        [{"nodes": "1", "reasons": ["Underutilized"]}, {"nodes": "2", "reasons": ["Empty", "Expired"]}],
    )
    return rng.choice(choices)


def _deployment(seed: int, number: int) -> list[Plain]:
    rng = _rng(seed, f"workload/{number}")
    name = f"app-{number}"
    pod: Plain = {
        "containers": [_container(rng.choice(("250m", "500m", "900m", "1500m")))],
        "terminationGracePeriodSeconds": rng.choice((5, 30, 60)),
    }
    annotations: dict[str, str] = {}
    if rng.random() < 0.3:
        annotations[DO_NOT_DISRUPT] = rng.choice(("true", "4m", "15m", "25m"))
    if rng.random() < 0.25:
        annotations[POD_STOP_DELAY] = rng.choice(("20s", "45s", "75s"))
    if rng.random() < 0.2:
        pod["priorityClassName"] = rng.choice(tuple(PRIORITIES))
    _place(rng, name, pod)
    if _rng(seed, f"tolerations/{number}").random() < 0.08:
        pod["tolerations"] = TOLERATES_ALL
    manifests: list[Plain] = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": rng.randint(1, 8),
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": pod},
            },
        }
    ]
    add_rare_workload_settings(seed, number, manifests[0])
    if rng.random() < 0.6:
        manifests.append(_pdb(rng, name))
    return manifests


def _container(cpu: str) -> Plain:
    return {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}


def _place(rng: random.Random, name: str, pod: Plain) -> None:
    """Add topology spread, anti-affinity or a node selector."""
    selector = {"matchLabels": {"app": name}}
    draw = rng.random()
    if draw < 0.15:
        spread = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "labelSelector": selector}
        pod["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": "DoNotSchedule"}]
    elif draw < 0.3:
        spread = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 2, "labelSelector": selector}
        when_unsatisfiable = rng.choice(("DoNotSchedule", "ScheduleAnyway"))
        pod["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": when_unsatisfiable}]
    elif draw < 0.4:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif draw < 0.5:
        pod["nodeSelector"] = {"topology.kubernetes.io/zone": rng.choice(ZONES)}


def _pdb(rng: random.Random, name: str) -> Plain:
    spec = rng.choice(({"maxUnavailable": 1}, {"maxUnavailable": "34%"}, {"minAvailable": 1}, {"maxUnavailable": 0}))
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def _daemon_set(seed: int) -> Plain:
    """A pod on every node. If it tolerates every taint it also runs on nodes that are being drained."""
    pod: Plain = {"containers": [_container("100m")]}
    if _rng(seed, "daemons").random() < 0.4:
        pod["tolerations"] = TOLERATES_ALL
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": pod},
        },
    }


def pod_on(node: str, name: str, tolerates: str) -> Plain:
    """A pod with `spec.nodeName` that tolerates nothing, the taint `dedicated`, or everything."""
    tolerations: dict[str, list[Plain]] = {
        "nothing": [],
        "dedicated taint": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "everything": TOLERATES_ALL,
    }
    spec = {"nodeName": node, "containers": [_container("50m")], "tolerations": tolerations[tolerates]}
    meta = {"name": name, "namespace": "default", "labels": {"app": "by-name"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def draw_job(seed: int, number: int) -> Plain:
    """Draw a Job with a few pods."""
    rng = _rng(seed, f"job/{number}")
    template: Plain = {"spec": {"restartPolicy": "Never", "containers": [_container("500m")]}}
    if rng.random() < 0.4:
        template["metadata"] = {"annotations": {DO_NOT_DISRUPT: "true", "sim.dovetail/run-seconds": "400"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}", "namespace": "default"},
        "spec": {"parallelism": rng.randint(1, 3), "completions": 4, "template": template},
    }
