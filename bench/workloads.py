"""The workloads of a cluster to sweep: what their pods ask for, where they may run, and what else runs on every node.

About 28 % are bound to an architecture, a zone, a capacity type or to the dedicated, tainted NodePool. Of the pods,
a fifth or a little more are spread over zones (maxSkew 1, DoNotSchedule) or keep apart from each other on hosts.
"""

import random
from dataclasses import dataclass
from functools import cache

from catalogue import ZONES
from dovetail.model.cluster_objects import DaemonSet, DaemonSetSpec
from dovetail.model.kube_object import LabelSelector, ObjectMeta, OwnerReference
from dovetail.model.labels import ARCH, CAPACITY_TYPE, HOSTNAME, ON_DEMAND, ZONE
from dovetail.model.nodepool import NodeClaimTemplate, NodeClaimTemplateSpec, NodePool, NodePoolSpec, TemplateMetadata
from dovetail.model.pod import (
    Affinity,
    Container,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodTemplate,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from dovetail.model.resources import Quantity
from dovetail.model.taints import Taint, Toleration

DEDICATED = "dedicated"
ROLE = "example.com/role"
PATIENT = (
    Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute", 300),
    Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute", 300),
)
EVERYWHERE = (Toleration("", "Exists"),)
MIB = 1 << 20


@dataclass(frozen=True)
class Workload:
    """Equal pods. Empty words mean any; `cpu` is in thousandths, `memory` in bytes."""

    name: str
    namespace: str
    labels: dict[str, str]
    owners: tuple[OwnerReference, ...]
    spec: PodSpec
    cpu: int
    memory: int
    weight: float = 1.0
    dedicated: bool = False
    arch: str = ""
    zone: str = ""
    capacity_type: str = ""
    rule: str = ""


def workloads(count: int, seed: int) -> list[Workload]:
    """That many workloads, the same for the same seed."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    return [_workload(rng, number) for number in range(count)]


def _workload(rng: random.Random, number: int) -> Workload:
    name = f"app-{number:04}"
    labels = {"app": name, "tier": rng.choice(("web", "job", "data")), "release": f"r{rng.randrange(9)}"}
    cpu = 10 * round(5 * 40 ** rng.random())  # 50m to 2 cpu, small ones more often
    memory = 16 * MIB * round(cpu * rng.choice((1, 2, 4, 6)) * 1.024 / 16)
    bound, rule = _bound(rng), rng.choices(("", "spread", "apart"), (70, 15, 15))[0]
    rule = "" if "zone" in bound or "dedicated" in bound else rule
    selector = {
        key: bound[name] for key, name in ((ARCH, "arch"), (ZONE, "zone"), (CAPACITY_TYPE, "sold")) if name in bound
    }
    if "dedicated" in bound:
        selector[ROLE] = "dedicated"
    spec = PodSpec(
        containers=_containers(cpu, memory),
        node_selector=selector,
        tolerations=(*PATIENT, Toleration("dedicated", "Equal", "yes", "NoSchedule"))
        if "dedicated" in bound
        else PATIENT,
        topology_spread_constraints=_spread(name) if rule == "spread" else (),
        affinity=_apart(name) if rule == "apart" else None,
    )
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=f"{name}-5d8f", uid=name, controller=True)
    return Workload(
        name,
        f"team-{number % 8}",
        labels,
        (owner,),
        spec,
        cpu,
        memory,
        weight=rng.uniform(0.2, 1.8),
        dedicated="dedicated" in bound,
        arch=bound.get("arch", ""),
        zone=bound.get("zone", ""),
        capacity_type=bound.get("sold", ""),
        rule=rule,
    )


def _bound(rng: random.Random) -> dict[str, str]:
    drawn = rng.random()
    if drawn < 0.06:
        return {"dedicated": "yes"}
    if drawn < 0.13:
        return {"arch": rng.choice(("arm64", "amd64", "amd64"))}
    if drawn < 0.21:
        return {"zone": rng.choice(ZONES)}
    return {"sold": ON_DEMAND} if drawn < 0.28 else {}


def _containers(cpu: int, memory: int) -> tuple[Container, ...]:
    requests = {"cpu": Quantity.of(f"{cpu}m"), "memory": Quantity.of(memory)}
    return (Container(name="main", resources=ResourceRequirements(requests=requests)),)


def _spread(name: str) -> tuple[TopologySpreadConstraint, ...]:
    return (TopologySpreadConstraint(topology_key=ZONE, label_selector=LabelSelector(match_labels={"app": name})),)


def _apart(name: str) -> Affinity:
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=LabelSelector(match_labels={"app": name}))
    return Affinity(pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,)))


@cache
def daemons() -> tuple[Workload, ...]:
    """What runs on every node: a network agent, a log shipper and a storage plugin."""
    made = []
    for name, cpu, memory in (("network", 100, 128 * MIB), ("logs", 50, 100 * MIB), ("storage", 30, 60 * MIB)):
        owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name=name, uid=name, controller=True)
        spec = PodSpec(containers=_containers(cpu, memory), tolerations=EVERYWHERE, priority=2_000_001_000)
        made.append(Workload(name, "kube-system", {"app": name}, (owner,), spec, cpu, memory))
    return tuple(made)


def daemon_sets() -> tuple[DaemonSet, ...]:
    """The DaemonSets of those pods."""
    return tuple(
        DaemonSet(
            metadata=ObjectMeta(name=each.name, namespace=each.namespace, uid=each.name),
            spec=DaemonSetSpec(template=PodTemplate(metadata=ObjectMeta(labels=each.labels), spec=each.spec)),
        )
        for each in daemons()
    )


@cache
def pools() -> tuple[NodePool, ...]:
    """One NodePool for everybody, and one that only who tolerates it gets onto."""
    taint = Taint("dedicated", "yes", "NoSchedule")
    return _pool("default", "any", ()), _pool(DEDICATED, "dedicated", (taint,))


def _pool(name: str, role: str, taints: tuple[Taint, ...]) -> NodePool:
    template = NodeClaimTemplate(
        metadata=TemplateMetadata(labels={ROLE: role}), spec=NodeClaimTemplateSpec(taints=taints)
    )
    return NodePool(metadata=ObjectMeta(name=name, uid=name), spec=NodePoolSpec(template=template))
