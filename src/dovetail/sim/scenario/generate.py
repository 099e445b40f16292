"""Generates the initial cluster of a scenario: its nodes, their instance types, and the pods on them.

Nodes and workloads are divided among the NodePools by share. Pods are assigned to random nodes of their pool, some
nodes getting more than others; then each node becomes the cheapest offering, in a random zone, that its pool allows and
that its pods fill to at most the `filled` share. The result has exactly the requested numbers of nodes and pods, and
depends only on the seed. Do not change the order of the random draws: recorded results depend on it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.kube_object import Fault
from dovetail.model.nodepool import NodePool
from dovetail.model.resources import CPU, MEMORY, PODS, Quantity, Resources
from dovetail.sim.scenario.document import Generate, PodSize
from dovetail.sim.scenario.parsing import ScenarioInvalid

PODS_A_WORKLOAD = 15
Amounts = tuple[int, int, int]
"""Millicores of cpu, bytes of memory, number of pods."""
Catalogs = Mapping[str, tuple[InstanceType, ...]]


@dataclass(frozen=True, slots=True)
class GeneratedWorkload:
    """A workload of equal pods, which run on nodes of one pool."""

    name: str
    size: PodSize
    pool: NodePool


@dataclass(slots=True)
class GeneratedNode:
    """One node with its pods; `type` and `offering` are chosen last."""

    name: str
    pool: NodePool
    age: float  # seconds before the start
    workloads: list[GeneratedWorkload] = field(default_factory=list)  # one entry for each pod
    type: InstanceType | None = None
    offering: Offering | None = None
    requested: Amounts = (0, 0, 0)

    def requests_with(self, workload: GeneratedWorkload) -> Amounts:
        """The requests of its pods and one more pod."""
        cpu, memory, pods = self.requested
        return cpu + workload.size.cpu.milli, memory + workload.size.memory.units, pods + 1

    def add_pod(self, workload: GeneratedWorkload) -> None:
        """Add one pod of the workload."""
        self.requested = self.requests_with(workload)
        self.workloads.append(workload)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An offering with its instance type and allocatable resources."""

    type: InstanceType
    offering: Offering
    allocatable: Amounts


def generate(spec: Generate, seed: int, pools: Sequence[NodePool], catalogs: Catalogs) -> tuple[GeneratedNode, ...]:
    """The nodes of the cluster with their pods; `ScenarioInvalid` if the pods do not fit."""
    random = Random(f"{seed if spec.seed is None else spec.seed}/generate")  # noqa: S311 - reproducible, not secret
    chosen = _pool_shares(spec, pools)
    nodes = [*_create_nodes(spec, chosen, random)]
    catalog = _Catalog(catalogs, spec.filled.number)
    faults: list[Fault] = []
    for pods, pool_nodes in _pods_by_pool(spec, chosen, nodes, random):
        left = _assign_pods(pods, pool_nodes, catalog, random)
        if left:
            faults.append(_capacity_fault(pool_nodes[0].pool, len(pool_nodes), left, str(spec.filled)))
    if faults:
        raise ScenarioInvalid(faults)
    for node in nodes:
        catalog.choose_offering(node, random)
    return tuple(nodes)


def _pool_shares(spec: Generate, pools: Sequence[NodePool]) -> dict[str, tuple[NodePool, float]]:
    """The pools to use, each with its share of the total."""
    known = {pool.name: pool for pool in pools}
    missing = sorted(set(spec.nodepools) - set(known))
    if missing:
        names = ", ".join(sorted(known)) or "none"
        raise ScenarioInvalid(
            Fault(f"spec.generate.nodepools.{name}", f"there is no such NodePool; there are: {names}")
            for name in missing
        )
    shares = spec.nodepools or dict.fromkeys(sorted(known), 1.0)
    total = sum(shares.values())
    return {name: (known[name], share / total) for name, share in sorted(shares.items())}


def _counts(number: int, shares: Sequence[float]) -> list[int]:
    """Divide a number into integer parts by share; the largest fractions round up."""
    exact = [number * share for share in shares]
    parts = [int(each) for each in exact]
    by_fraction = sorted(range(len(parts)), key=lambda at: (parts[at] - exact[at], at))
    for at in by_fraction[: number - sum(parts)]:
        parts[at] += 1
    return parts


def _create_nodes(
    spec: Generate, chosen: Mapping[str, tuple[NodePool, float]], random: Random
) -> Iterator[GeneratedNode]:
    counts = _counts(spec.nodes, [share for _, share in chosen.values()])
    for (name, (pool, _)), count in zip(chosen.items(), counts, strict=True):
        for number in range(count):
            yield GeneratedNode(f"{name}-g{number:04}", pool, random.uniform(0.0, spec.age.seconds))


def _pods_by_pool(
    spec: Generate, chosen: Mapping[str, tuple[NodePool, float]], nodes: Sequence[GeneratedNode], random: Random
) -> Iterator[tuple[list[GeneratedWorkload], list[GeneratedNode]]]:
    """For each pool with nodes: the workload of each of its pods, and its nodes."""
    by_pool = {name: [each for each in nodes if each.pool.name == name] for name in chosen}
    used = {name: value for name, value in chosen.items() if by_pool[name]}
    whole = sum(share for _, share in used.values())
    shares = [share / whole for _, share in used.values()]
    number = max(spec.workloads or spec.pods // PODS_A_WORKLOAD, len(used))
    parts = zip(used.items(), _counts(spec.pods, shares), _counts(number, shares), strict=True)
    for (name, (pool, _)), pods, count in parts:
        sizes = random.choices(spec.mix, [each.weight for each in spec.mix], k=max(1, count))
        workloads = [GeneratedWorkload(f"{name}-w{at:03}", size, pool) for at, size in enumerate(sizes)]
        weights = [random.uniform(0.3, 1.7) for _ in workloads]
        first = workloads[:pods]  # one pod for each workload, as far as there are enough pods
        yield [*first, *random.choices(workloads, weights, k=pods - len(first))], by_pool[name]


def _assign_pods(
    workloads: Sequence[GeneratedWorkload], nodes: Sequence[GeneratedNode], catalog: "_Catalog", random: Random
) -> int:
    """Assign each pod to a random node, or to the node with the fewest pods if it does not fit there.

    Returns the number of pods that fit no node.
    """
    weights = [random.uniform(0.5, 1.5) for _ in nodes]
    left = 0
    for workload, preferred in zip(workloads, random.choices(nodes, weights, k=len(workloads)), strict=True):
        if catalog.fits(preferred, workload):
            preferred.add_pod(workload)
            continue
        others = sorted(nodes, key=lambda each: len(each.workloads))
        node = next((each for each in others if catalog.fits(each, workload)), None)
        if node is None:
            left += 1
        else:
            node.add_pod(workload)
    return left


class _Catalog:
    """The offerings that each pool allows, by zone, cheapest first."""

    def __init__(self, catalogs: Catalogs, filled: int) -> None:
        self._catalogs = catalogs
        self._filled = filled
        self._zones_by_pool: dict[str, dict[str, list[_Candidate]]] = {}
        self._sizes: dict[str, list[Amounts]] = {}

    def fits(self, node: GeneratedNode, workload: GeneratedWorkload) -> bool:
        """Whether its pool allows an offering for the node's pods and one more."""
        needed = self._required_capacity(node.requests_with(workload))
        return any(_fits(needed, allocatable) for allocatable in self._largest(node.pool))

    def choose_offering(self, node: GeneratedNode, random: Random) -> None:
        """Set the cheapest offering, in a random zone, that fits the node's pods."""
        zones, needed = self._zones(node.pool), self._required_capacity(node.requested)
        for zone in random.sample(sorted(zones), len(zones)):
            for candidate in zones[zone]:
                if _fits(needed, candidate.allocatable):
                    node.type, node.offering = candidate.type, candidate.offering
                    return
        raise ScenarioInvalid([Fault("spec.generate", f"NodePool {node.pool.name} allows no available offering")])

    def _required_capacity(self, requested: Amounts) -> Amounts:
        """The allocatable resources that these requests fill to the `filled` share."""
        return (-(-requested[0] * 100 // self._filled), -(-requested[1] * 100 // self._filled), requested[2])

    def _largest(self, pool: NodePool) -> list[Amounts]:
        """The Pareto-maximal node sizes of the pool: what fits any node fits one of these."""
        if pool.name not in self._sizes:
            every = {candidate.allocatable for offerings in self._zones(pool).values() for candidate in offerings}
            self._sizes[pool.name] = [
                size for size in sorted(every) if not any(size != other and _fits(size, other) for other in every)
            ]
        return self._sizes[pool.name]

    def _zones(self, pool: NodePool) -> dict[str, list[_Candidate]]:
        if pool.name not in self._zones_by_pool:
            zones: dict[str, list[_Candidate]] = {}
            for type_ in self._catalogs.get(pool.name, ()):
                for offering in type_.offerings:
                    both = type_.requirements.add(offering.requirements)
                    if offering.available and pool.requirements.intersects(both) is None:
                        zones.setdefault(offering.zone, []).append(
                            _Candidate(type_, offering, _amounts(type_.allocatable))
                        )
            for offerings in zones.values():
                offerings.sort(key=lambda each: (each.offering.price, each.type.name, each.offering.capacity_type))
            self._zones_by_pool[pool.name] = zones
        return self._zones_by_pool[pool.name]


def _fits(needed: Amounts, allocatable: Amounts) -> bool:
    return needed[0] <= allocatable[0] and needed[1] <= allocatable[1] and needed[2] <= allocatable[2]


def _amounts(amounts: Resources) -> Amounts:
    nothing = Quantity.of(0)
    return (
        amounts.get(CPU, nothing).milli,
        amounts.get(MEMORY, nothing).units,
        amounts.get(PODS, nothing).units,
    )


def _capacity_fault(pool: NodePool, nodes: int, left: int, filled: str) -> Fault:
    return Fault(
        "spec.generate",
        f"{left} pods do not fit {nodes} nodes of the largest types that NodePool {pool.name} allows, {filled} full",
        remedy="use more nodes, fewer or smaller pods, or let the NodePool use larger instance types",
    )
