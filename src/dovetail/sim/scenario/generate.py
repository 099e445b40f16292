"""Makes up a cluster to start from: which workloads run on which nodes, and what machines those are.

Workloads are shared out among the NodePools, their pods are dealt to the nodes of their pool, and each node becomes the
cheapest machine of a zone that holds its pods and is then no fuller than was asked for. So there are exactly as many
nodes and pods as wanted, every node is one its pool could have bought, and the seed alone decides the rest.
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
"""Thousandths of cpu, bytes of memory, pods."""
Catalogs = Mapping[str, tuple[InstanceType, ...]]


@dataclass(frozen=True, slots=True)
class GeneratedWorkload:
    """Equal pods of one workload, at home in one pool."""

    name: str
    size: PodSize
    pool: NodePool


@dataclass(slots=True)
class GeneratedNode:
    """One node: of which pool, how long it has been there, its pods, and what it turned out to be."""

    name: str
    pool: NodePool
    age: float  # seconds before the start
    workloads: list[GeneratedWorkload] = field(default_factory=list)  # one entry a pod
    type: InstanceType | None = None
    offering: Offering | None = None
    taken: Amounts = (0, 0, 0)

    def with_one_more(self, workload: GeneratedWorkload) -> Amounts:
        """What its pods would take with one more."""
        cpu, memory, pods = self.taken
        return cpu + workload.size.cpu.milli, memory + workload.size.memory.units, pods + 1

    def take(self, workload: GeneratedWorkload) -> None:
        """One more pod runs here."""
        self.taken = self.with_one_more(workload)
        self.workloads.append(workload)


@dataclass(frozen=True, slots=True)
class GeneratedOffering:
    """An offering, flat."""

    type: InstanceType
    offering: Offering
    room: Amounts


def generate(wanted: Generate, seed: int, pools: Sequence[NodePool], catalogs: Catalogs) -> tuple[GeneratedNode, ...]:
    """The machines of the cluster with their pods; `ScenarioInvalid` when they cannot be had."""
    random = Random(f"{seed if wanted.seed is None else wanted.seed}/generate")  # noqa: S311 - reproducible, not secret
    chosen = _shared(wanted, pools)
    machines = [*_machines(wanted, chosen, random)]
    shop = _Catalog(catalogs, wanted.filled.number)
    faults: list[Fault] = []
    for workloads, home in _staffing(wanted, chosen, machines, random):
        left = _deal(workloads, home, shop, random)
        if left:
            faults.append(_too_much(home[0].pool, len(home), left, str(wanted.filled)))
    if faults:
        raise ScenarioInvalid(faults)
    for machine in machines:
        shop.buy(machine, random)
    return tuple(machines)


def _shared(wanted: Generate, pools: Sequence[NodePool]) -> dict[str, tuple[NodePool, float]]:
    """The pools that take part, each with its share."""
    known = {pool.name: pool for pool in pools}
    missing = sorted(set(wanted.nodepools) - set(known))
    if missing:
        there = ", ".join(sorted(known)) or "none"
        raise ScenarioInvalid(
            Fault(f"spec.generate.nodepools.{name}", f"there is no such NodePool; there are: {there}")
            for name in missing
        )
    shares = wanted.nodepools or dict.fromkeys(sorted(known), 1.0)
    total = sum(shares.values())
    return {name: (known[name], share / total) for name, share in sorted(shares.items())}


def _counts(number: int, shares: Sequence[float]) -> list[int]:
    """A whole number in parts by share: what is left over goes to those that are owed most."""
    exact = [number * share for share in shares]
    parts = [int(each) for each in exact]
    owed = sorted(range(len(parts)), key=lambda at: (parts[at] - exact[at], at))
    for at in owed[: number - sum(parts)]:
        parts[at] += 1
    return parts


def _machines(
    wanted: Generate, chosen: Mapping[str, tuple[NodePool, float]], random: Random
) -> Iterator[GeneratedNode]:
    counts = _counts(wanted.nodes, [share for _, share in chosen.values()])
    for (name, (pool, _)), count in zip(chosen.items(), counts, strict=True):
        for number in range(count):
            yield GeneratedNode(f"{name}-g{number:04}", pool, random.uniform(0.0, wanted.age.seconds))


def _staffing(
    wanted: Generate, chosen: Mapping[str, tuple[NodePool, float]], machines: Sequence[GeneratedNode], random: Random
) -> Iterator[tuple[list[GeneratedWorkload], list[GeneratedNode]]]:
    """For each pool that has machines: a crew for each pod, and where they may be."""
    by_pool = {name: [each for each in machines if each.pool.name == name] for name in chosen}
    staffed = {name: value for name, value in chosen.items() if by_pool[name]}
    whole = sum(share for _, share in staffed.values())
    shares = [share / whole for _, share in staffed.values()]
    number = max(wanted.workloads or wanted.pods // PODS_A_WORKLOAD, len(staffed))
    parts = zip(staffed.items(), _counts(wanted.pods, shares), _counts(number, shares), strict=True)
    for (name, (pool, _)), pods, workloads in parts:
        sizes = random.choices(wanted.mix, [each.weight for each in wanted.mix], k=max(1, workloads))
        made = [GeneratedWorkload(f"{name}-w{at:03}", size, pool) for at, size in enumerate(sizes)]
        liked = [random.uniform(0.3, 1.7) for _ in made]
        first = made[:pods]  # each has at least one, as far as there are enough
        yield [*first, *random.choices(made, liked, k=pods - len(first))], by_pool[name]


def _deal(
    workloads: Sequence[GeneratedWorkload], machines: Sequence[GeneratedNode], shop: "_Catalog", random: Random
) -> int:
    """Give machines their pods, some more than others; says how many pods no machine could take."""
    liked = [random.uniform(0.5, 1.5) for _ in machines]
    left = 0
    for workload, likely in zip(workloads, random.choices(machines, liked, k=len(workloads)), strict=True):
        others = sorted(machines, key=lambda each: len(each.workloads)) if not shop.holds(likely, workload) else ()
        taker = next((each for each in (likely, *others) if shop.holds(each, workload)), None)
        if taker is None:
            left += 1
        else:
            taker.take(workload)
    return left


class _Catalog:
    """What each pool could buy, by zone, cheapest first."""

    def __init__(self, catalogs: Catalogs, filled: int) -> None:
        self._catalogs = catalogs
        self._filled = filled
        self._wares: dict[str, dict[str, list[GeneratedOffering]]] = {}
        self._sizes: dict[str, list[Amounts]] = {}

    def holds(self, machine: GeneratedNode, workload: GeneratedWorkload) -> bool:
        """Whether its pool could buy a machine for its pods and one more."""
        needed = self._full(machine.with_one_more(workload))
        return any(_within(needed, room) for room in self._largest(machine.pool))

    def buy(self, machine: GeneratedNode, random: Random) -> None:
        """Make it the cheapest machine of some zone that holds its pods."""
        zones, needed = self._zones(machine.pool), self._full(machine.taken)
        for zone in random.sample(sorted(zones), len(zones)):
            for generated_offering in zones[zone]:
                if _within(needed, generated_offering.room):
                    machine.type, machine.offering = generated_offering.type, generated_offering.offering
                    return
        raise ScenarioInvalid([Fault("spec.generate", f"NodePool {machine.pool.name} may buy no machine at all")])

    def _full(self, taken: Amounts) -> Amounts:
        """What a machine must have so that this fills it as much as wanted."""
        return (-(-taken[0] * 100 // self._filled), -(-taken[1] * 100 // self._filled), taken[2])

    def _largest(self, pool: NodePool) -> list[Amounts]:
        """The sizes of machines that no other the pool may buy exceeds."""
        if pool.name not in self._sizes:
            every = {generated_offering.room for wares in self._zones(pool).values() for generated_offering in wares}
            self._sizes[pool.name] = [
                room for room in sorted(every) if not any(room != other and _within(room, other) for other in every)
            ]
        return self._sizes[pool.name]

    def _zones(self, pool: NodePool) -> dict[str, list[GeneratedOffering]]:
        if pool.name not in self._wares:
            zones: dict[str, list[GeneratedOffering]] = {}
            for type_ in self._catalogs.get(pool.name, ()):
                for offering in type_.offerings:
                    both = type_.requirements.add(offering.requirements)
                    if offering.available and pool.requirements.intersects(both) is None:
                        zones.setdefault(offering.zone, []).append(
                            GeneratedOffering(type_, offering, _room(type_.allocatable))
                        )
            for wares in zones.values():
                wares.sort(key=lambda each: (each.offering.price, each.type.name, each.offering.capacity_type))
            self._wares[pool.name] = zones
        return self._wares[pool.name]


def _within(needed: Amounts, room: Amounts) -> bool:
    return needed[0] <= room[0] and needed[1] <= room[1] and needed[2] <= room[2]


def _room(amounts: Resources) -> Amounts:
    nothing = Quantity.of(0)
    return (
        amounts.get(CPU, nothing).milli,
        amounts.get(MEMORY, nothing).units,
        amounts.get(PODS, nothing).units,
    )


def _too_much(pool: NodePool, nodes: int, left: int, filled: str) -> Fault:
    return Fault(
        "spec.generate",
        f"{nodes} of the largest machines that NodePool {pool.name} may buy, {filled} full, leave {left} pods over",
        remedy="ask for more nodes, for fewer or smaller pods, or let the pool buy larger machines",
    )
