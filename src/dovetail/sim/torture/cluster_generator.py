"""What a cluster of a story consists of: NodePools of every temper and the workloads they serve, drawn from the seed.

Clusters are small, so that a seed costs about a second: trouble comes from what happens at once, not from size.
"""

import random
from typing import Any

from dovetail.sim.torture.special_cases import add_pool_terms, add_workload_terms
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
PROTECTION = "karpenter.sh/do-not-disrupt"
STOPPING = "pod-delete.stage.kwok.x-k8s.io/delay"
STARTING = "node-ready.stage.kwok.x-k8s.io/delay"
TOLERATES_ALL = [{"operator": "Exists"}]


def draw_scene(seed: int) -> list[TrialPiece]:
    """Pools and workloads."""
    dice = _dice(seed, "scene")
    pieces = [TrialPiece("p0", 0, "NodePool", {"manifest": draw_pool(seed, 0)}, needed=True)]
    pieces += [
        TrialPiece(f"p{n}", 0, "NodePool", {"manifest": draw_pool(seed, n)})
        for n in range(1, dice.choice((1, 2, 2, 3)))
    ]
    for number in range(dice.randint(2, 4)):
        pieces.append(TrialPiece(f"w{number}", 0, "Deployment", {"manifests": _deployment(seed, number)}))
    if dice.random() < 0.4:
        pieces.append(TrialPiece("d0", 0, "DaemonSet", {"manifests": [_daemon_set(seed)]}))
    if dice.random() < 0.5:
        pieces.append(TrialPiece("j0", 0, "Job", {"manifests": [draw_job(seed, 0)]}))
    return pieces


def _dice(seed: int, name: str) -> random.Random:
    return random.Random(f"{seed}/{name}")  # noqa: S311 - reproducible, not secret


def draw_pool(seed: int, number: int) -> Plain:
    """A NodePool. Pool 0 takes every pod, so that a story can always end well."""
    dice = _dice(seed, f"pool/{number}")
    cpus = dice.choice((["2"], ["2", "4"], ["2", "4", "8"], ["4"]))
    requirements: list[Plain] = [
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": cpus},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": _capacity_types(dice)},
    ]
    template: Plain = {"nodeClassRef": CLASS_REF, "requirements": requirements}
    if dice.random() < 0.35:
        template["terminationGracePeriod"] = dice.choice(("90s", "5m", "15m"))
    template["expireAfter"] = dice.choice(("Never", "Never", "25m", "50m", "100m"))
    spec: Plain = {"template": {"metadata": _slow_start(seed, number), "spec": template}}
    spec["disruption"] = _disruption(dice)
    if number:
        spec["weight"] = dice.choice((1, 10, 50))
    if dice.random() < 0.4:
        spec["limits"] = dice.choice(({"cpu": "8"}, {"cpu": "16"}, {"nodes": "3"}, {"cpu": "24", "memory": "64Gi"}))
    if dice.random() < 0.35:
        spec["repair"] = dice.choice(({}, {"defaultTolerationDuration": "5m"}))
    add_pool_terms(seed, number, spec)
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": f"pool-{number}"}, "spec": spec}


def _slow_start(seed: int, number: int) -> Plain:
    """The metadata of a template whose nodes may take minutes to become ready: replacements come late."""
    dice = _dice(seed, f"slow/{number}")
    delay = dice.choice(("", "", "40s", "100s", "200s"))
    return {"annotations": {STARTING: delay}} if delay else {}


def _capacity_types(dice: random.Random) -> list[str]:
    return dice.choice((["on-demand"], ["spot"], ["on-demand", "spot"], ["on-demand"]))


def _disruption(dice: random.Random) -> Plain:
    disruption: Plain = {
        "consolidationPolicy": dice.choice(
            (
                "WhenEmptyOrUnderutilized",
                "WhenEmptyOrUnderutilized",
                "WhenEmptyOrUnderutilized",
                "WhenEmpty",
                "Balanced",
            )
        ),
        "consolidateAfter": dice.choice(("0s", "0s", "30s", "5m", "Never")),
        "budgets": draw_budgets(dice),
    }
    if dice.random() < 0.25:
        disruption["consolidationGracePeriod"] = dice.choice(("1m", "5m"))
    if dice.random() < 0.3:
        disruption["expireAfter"] = dice.choice(("20m", "45m", "90m"))
    return disruption


def draw_budgets(dice: random.Random) -> list[Plain]:
    """Budgets: loose, tight, by reason, by the hour."""
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
    return dice.choice(choices)


def _deployment(seed: int, number: int) -> list[Plain]:
    dice = _dice(seed, f"workload/{number}")
    name = f"app-{number}"
    pod: Plain = {
        "containers": [_container(dice.choice(("250m", "500m", "900m", "1500m")))],
        "terminationGracePeriodSeconds": dice.choice((5, 30, 60)),
    }
    annotations: dict[str, str] = {}
    if dice.random() < 0.3:
        annotations[PROTECTION] = dice.choice(("true", "4m", "15m", "25m"))
    if dice.random() < 0.25:
        annotations[STOPPING] = dice.choice(("20s", "45s", "75s"))
    if dice.random() < 0.2:
        pod["priorityClassName"] = dice.choice(tuple(PRIORITIES))
    _place(dice, name, pod)
    if _dice(seed, f"tolerations/{number}").random() < 0.08:
        pod["tolerations"] = TOLERATES_ALL
    manifests: list[Plain] = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": dice.randint(1, 8),
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": pod},
            },
        }
    ]
    add_workload_terms(seed, number, manifests[0])
    if dice.random() < 0.6:
        manifests.append(_pdb(dice, name))
    return manifests


def _container(cpu: str) -> Plain:
    return {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}


def _place(dice: random.Random, name: str, pod: Plain) -> None:
    """Where the pods want to be."""
    selector = {"matchLabels": {"app": name}}
    wish = dice.random()
    if wish < 0.15:
        spread = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "labelSelector": selector}
        pod["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": "DoNotSchedule"}]
    elif wish < 0.3:
        spread = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 2, "labelSelector": selector}
        how = dice.choice(("DoNotSchedule", "ScheduleAnyway"))
        pod["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": how}]
    elif wish < 0.4:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif wish < 0.5:
        pod["nodeSelector"] = {"topology.kubernetes.io/zone": dice.choice(ZONES)}


def _pdb(dice: random.Random, name: str) -> Plain:
    spec = dice.choice(({"maxUnavailable": 1}, {"maxUnavailable": "34%"}, {"minAvailable": 1}, {"maxUnavailable": 0}))
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def _daemon_set(seed: int) -> Plain:
    """A pod on every node; one that tolerates every taint comes to nodes that are leaving, and stays."""
    pod: Plain = {"containers": [_container("100m")]}
    if _dice(seed, "daemons").random() < 0.4:
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
    """A pod that names its node, and tolerates nothing, what other people's taints forbid, or everything."""
    tolerations: dict[str, list[Plain]] = {
        "nothing": [],
        "NoSchedule of others": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "everything": TOLERATES_ALL,
    }
    spec = {"nodeName": node, "containers": [_container("50m")], "tolerations": tolerations[tolerates]}
    meta = {"name": name, "namespace": "default", "labels": {"app": "by-name"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def draw_job(seed: int, number: int) -> Plain:
    """A Job of a few pods."""
    dice = _dice(seed, f"job/{number}")
    template: Plain = {"spec": {"restartPolicy": "Never", "containers": [_container("500m")]}}
    if dice.random() < 0.4:
        template["metadata"] = {"annotations": {PROTECTION: "true", "sim.dovetail/run-seconds": "400"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}", "namespace": "default"},
        "spec": {"parallelism": dice.randint(1, 3), "completions": 4, "template": template},
    }
