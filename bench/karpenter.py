"""Karpenter's own scheduling benchmark as values: its fake instance types, its NodePool, its mixes of pods.

Upstream draws labels and requests from one generator, seed 42. `data/karpenter_draws.txt.gz` holds what it drew, one
line for each number of pods: the number, then a digit a draw. A digit counts into LABELS, CPU or MEMORY, in the order
in which the functions below take them.
"""

import gzip
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.kube_object import LabelSelector, ObjectMeta
from dovetail.model.labels import ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ON_DEMAND, OS, SPOT, ZONE
from dovetail.model.nodepool import NodePool, NodePoolSpec
from dovetail.model.pod import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    ResourceRequirements,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import Quantity
from dovetail.model.snapshot import Snapshot

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
DRAWS = Path(__file__).with_name("data") / "karpenter_draws.txt.gz"
TYPES = 400
LABELS = "abcdefg"
CPU = ("100m", "250m", "500m", "1", "1500m")
MEMORY = ("100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")
SOLD = ((SPOT, 1), (SPOT, 2), (ON_DEMAND, 1), (ON_DEMAND, 2), (ON_DEMAND, 3))
NGINX = {"app": "nginx"}

Digits = Iterator[int]
Made = tuple[dict[str, str], PodSpec]


def empty_cluster() -> tuple[Snapshot, NodePool]:
    """One NodePool with limits far away, and nothing running."""
    limits = {"cpu": Quantity.of("10000000"), "memory": Quantity.of("10000000Gi")}
    pool = NodePool(metadata=ObjectMeta(name="default", uid="pool"), spec=NodePoolSpec(limits=limits))
    types = tuple(_instance_type(index) for index in range(TYPES))
    return Snapshot(AT, (), (), {pool.name: pool}, (), {pool.name: types}), pool


def _instance_type(index: int) -> InstanceType:
    cpu, memory = index + 1, 2 * (index + 1)
    price = 0.1 * cpu + 0.1 * memory * 2**30 / 1e9
    name = f"fake-it-{index}"
    labels = {INSTANCE_TYPE: [name], ARCH: ["amd64"], OS: ["linux", "windows", "darwin"]}
    labels |= {ZONE: [f"test-zone-{zone}" for zone in (1, 2, 3)], CAPACITY_TYPE: [SPOT, ON_DEMAND]}
    return InstanceType(
        name,
        Requirements.of(Requirement.of(key, "In", values) for key, values in labels.items()),
        tuple(
            Offering(Requirements.from_labels({CAPACITY_TYPE: sold, ZONE: f"test-zone-{zone}"}), price)
            for sold, zone in SOLD
        ),
        {"cpu": Quantity.of(cpu), "memory": Quantity.of(f"{memory}Gi"), "pods": Quantity.of(10 * cpu)},
        {"cpu": Quantity.of("100m"), "memory": Quantity.of("10Mi")},
    )


def sizes() -> list[int]:
    """The numbers of pods upstream runs with, as far as the draws are kept."""
    return [int(line.partition(" ")[0]) for line in _lines()]


def diverse_pods(count: int) -> list[Pod]:
    """A fifth each: plain, spread over zones, spread over hosts, together in a zone, apart on hosts."""
    line = next(line for line in _lines() if line.startswith(f"{count} "))
    digits = map(int, line.split()[1])
    share = count // 5
    kinds: list[tuple[int, Callable[[Digits], Made]]] = [
        (share, _plain),
        (share, lambda drawn: _spread(drawn, ZONE)),
        (share, lambda drawn: _spread(drawn, HOSTNAME)),
        (share, _together),
        (share, _apart),
        (count - 5 * share, _plain),
    ]
    made = [make(digits) for number, make in kinds for _ in range(number)]
    assert next(digits, None) is None, "every draw belongs to a pod"
    return _pods(made)


def preferring_pods(count: int = 4000) -> list[Pod]:
    """Pods that would all like the first zone, a zone of their own and a host of their own."""
    zone = NodeSelectorRequirement(key=ZONE, operator="In", values=("test-zone-1",))
    affinity = Affinity(
        node_affinity=NodeAffinity(
            preferred_during_scheduling_ignored_during_execution=(
                PreferredTerm(weight=1, preference=NodeSelectorTerm(match_expressions=(zone,))),
            )
        ),
        pod_anti_affinity=PodAffinity(
            preferred_during_scheduling_ignored_during_execution=(
                WeightedPodAffinityTerm(weight=10, pod_affinity_term=_term(ZONE, "app", "nginx")),
                WeightedPodAffinityTerm(weight=1, pod_affinity_term=_term(HOSTNAME, "app", "nginx")),
            )
        ),
    )
    return _pods([(NGINX, PodSpec(containers=_container("100m", "4Gi"), affinity=affinity))] * count)


def _lines() -> list[str]:
    return gzip.decompress(DRAWS.read_bytes()).decode().splitlines()


def _pods(made: list[Made]) -> list[Pod]:
    """As a client decodes them: names and uids of their own, equal parts shared."""
    metas = (
        ObjectMeta(name=f"pod-{number}", namespace="default", uid=f"{number:08}", creation_timestamp=AT, labels=labels)
        for number, (labels, _) in enumerate(made)
    )
    return [Pod(metadata=meta, spec=spec) for meta, (_, spec) in zip(metas, made, strict=True)]


def _requests(drawn: Digits) -> tuple[Container, ...]:
    return _container(CPU[next(drawn)], MEMORY[next(drawn)])


def _plain(drawn: Digits) -> Made:
    labels = _labels("my-label", next(drawn))
    return labels, PodSpec(containers=_requests(drawn))


def _spread(drawn: Digits, key: str) -> Made:
    labels, constraint = _labels("my-label", next(drawn)), _constraint(key, next(drawn))
    return labels, PodSpec(containers=_requests(drawn), topology_spread_constraints=constraint)


def _together(drawn: Digits) -> Made:
    value = next(drawn)
    return _labels("my-affininity", value), PodSpec(containers=_requests(drawn), affinity=_near(value))


def _apart(drawn: Digits) -> Made:
    return NGINX, PodSpec(containers=_requests(drawn), affinity=_far())


@cache
def _labels(key: str, drawn: int) -> dict[str, str]:
    return {key: LABELS[drawn]}


@cache
def _container(cpu: str, memory: str) -> tuple[Container, ...]:
    requests = {"cpu": Quantity.of(cpu), "memory": Quantity.of(memory)}
    return (Container(name="main", resources=ResourceRequirements(requests=requests)),)


@cache
def _constraint(key: str, drawn: int) -> tuple[TopologySpreadConstraint, ...]:
    selector = LabelSelector(match_labels={"my-label": LABELS[drawn]})
    return (TopologySpreadConstraint(topology_key=key, max_skew=1, label_selector=selector),)


@cache
def _near(drawn: int) -> Affinity:
    term = _term(ZONE, "my-affininity", LABELS[drawn])
    return Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,)))


@cache
def _far() -> Affinity:
    term = _term(HOSTNAME, "app", "nginx")
    return Affinity(pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,)))


def _term(key: str, label: str, value: str) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels={label: value}))
