"""A cluster to sweep: N nodes with some fifteen pods each, of every kind, packed tightly or with a quarter gone.

Every node is given large pods at random, becomes the cheapest offering that holds them, and is topped up with whatever
still fits. So small pods could move, but nothing cheaper holds the rest: a cluster that was consolidated before. Pods
of a workload share the parts of their spec, as decoded pods do.
"""

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec
import numpy as np
import numpy.typing as npt

from catalogue import KNOWN, ZONES, catalogue
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.kube_object import Condition, ObjectMeta
from dovetail.model.labels import (
    ARCH,
    HOSTNAME,
    INITIALIZED,
    NODEPOOL,
    ON_DEMAND,
    REGISTERED,
    SPOT,
)
from dovetail.model.node import Node, NodeSpec, NodeStatus
from dovetail.model.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod, PodStatus
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import Taint
from workloads import DEDICATED, Workload, daemon_sets, daemons, pools, workloads

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
DRAWN = (6, 10)  # large pods a node is chosen for, before it is topped up
LARGE = (500, 2 << 30)  # thousandths of cpu, or bytes of memory
FREE = {"converged": 0.012, "settling": 0.03, "slack": 0.012}  # topping up ends below this share of cpu or memory
GONE = 0.25
RUNNING = PodStatus(phase="Running")
READY = (Condition(type="Ready", status="True"),)

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sold:
    """One offering, flat."""

    type: InstanceType
    offering: Offering
    arch: str
    zone: str
    capacity_type: str


def cluster(nodes: int, regime: str, seed: int = 1) -> Snapshot:
    """`converged` is tight, `settling` a little less, `slack` has a quarter of its pods gone."""
    made = _Filling(workloads(nodes // 5, seed), FREE[regime], seed).fill(nodes)
    if regime == "slack":
        rng = random.Random(seed)  # noqa: S311 - not for secrets
        made = [
            replace(node, pods=tuple(pod for pod in node.pods if pod.daemon or rng.random() >= GONE)) for node in made
        ]
    types = catalogue()
    return Snapshot(
        at=AT,
        nodes=tuple(made),
        unbound_pods=(),
        nodepools={pool.name: pool for pool in pools()},
        daemon_sets=daemon_sets(),
        catalogs={pool.name: types for pool in pools()},
        well_known=KNOWN,
        namespaces={f"team-{number}": {} for number in range(8)},
    )


class _Filling:
    """Fills one node after the other. A workload that is spread goes where it has the fewest pods."""

    def __init__(self, every: list[Workload], free: float, seed: int) -> None:
        self._every = every
        self._free = free
        self._rng = np.random.default_rng(seed)
        self._cpu = np.array([each.cpu for each in every], dtype=np.float64)
        self._memory = np.array([each.memory for each in every], dtype=np.float64)
        self._weight = np.array([each.weight for each in every], dtype=np.float64)
        self._large = (self._cpu >= LARGE[0]) | (self._memory >= LARGE[1])
        self._pool = np.array([each.dedicated for each in every])
        self._arch = np.array([each.arch for each in every])
        self._sold_as = np.array([each.capacity_type for each in every])
        self._zone = np.array([each.zone for each in every])
        self._spread = np.array([each.rule == "spread" for each in every])
        self._apart = np.array([each.rule == "apart" for each in every])
        self._in_zone = np.zeros((len(every), len(ZONES)))
        sold = [
            Sold(each, offering, each.requirements.labels()[ARCH], offering.zone, offering.capacity_type)
            for each in catalogue()
            for offering in each.offerings
        ]
        self._sold = sorted(sold, key=lambda each: each.offering.price)
        self._net = np.array([_net(each.type) for each in self._sold])
        self._pods = 0

    def fill(self, count: int) -> list[ClusterNode]:
        return [self._node(number) for number in range(count)]

    def _node(self, number: int) -> ClusterNode:
        dedicated = bool(self._rng.random() < 0.06)
        arch = "arm64" if self._rng.random() < 0.15 else "amd64"
        zone = int(self._rng.integers(len(ZONES)))
        sold_as = ON_DEMAND if self._rng.random() < 0.15 else SPOT
        suits = self._suiting(dedicated, arch, zone, sold_as)
        drawn = self._draw(suits)
        bought, net = self._cheapest(drawn, ZONES[zone])
        if (bought.arch, bought.zone, bought.capacity_type) != (arch, ZONES[zone], sold_as):
            zone = ZONES.index(bought.zone)
            suits = self._suiting(dedicated, bought.arch, zone, bought.capacity_type)
        drawn = self._top_up(drawn, suits, net)
        np.add.at(self._in_zone[:, zone], drawn, 1)
        return self._made(number, drawn, bought, dedicated=dedicated)

    def _suiting(self, dedicated: bool, arch: str, zone: int, sold_as: str) -> npt.NDArray[np.bool_]:
        even = self._in_zone[:, zone] <= self._in_zone.min(axis=1)
        return np.asarray(
            (self._pool == dedicated)
            & np.isin(self._arch, ("", arch))
            & np.isin(self._zone, ("", ZONES[zone]))
            & np.isin(self._sold_as, ("", sold_as))
            & (~self._spread | even)
        )

    def _draw(self, suits: npt.NDArray[np.bool_]) -> list[int]:
        large = suits & self._large
        weight = np.where(large if large.any() else suits, self._weight, 0.0)  # small clusters have few workloads
        chosen = self._rng.choice(len(weight), int(self._rng.integers(*DRAWN)), p=weight / weight.sum()).tolist()
        once = self._spread | self._apart  # a second pod of a spread workload could tip the balance
        return [each for place, each in enumerate(chosen) if not once[each] or each not in chosen[:place]]

    def _cheapest(self, drawn: list[int], zone: str) -> tuple[Sold, Numbers]:
        """The cheapest offering that holds the pods and is all they ask for."""
        wanted = {
            "arch": {*self._arch[drawn].tolist()} - {""},
            "capacity_type": {*self._sold_as[drawn].tolist()} - {""},
            "zone": {*self._zone[drawn].tolist()} - {""},
        }
        if self._spread[drawn].any():
            wanted["zone"].add(zone)
        need = np.array([self._cpu[drawn].sum(), self._memory[drawn].sum(), len(drawn)])
        for place in np.flatnonzero((self._net >= need).all(axis=1)).tolist():
            each = self._sold[place]
            if all(getattr(each, name) in values for name, values in wanted.items() if values):
                return each, self._net[place]
        raise AssertionError("the catalogue has something for every bundle")

    def _top_up(self, drawn: list[int], suits: npt.NDArray[np.bool_], net: Numbers) -> list[int]:
        drawn, suits = [*drawn], suits.copy()
        once = self._spread | self._apart
        suits[[each for each in drawn if once[each]]] = False
        cpu, memory = net[0] - self._cpu[drawn].sum(), net[1] - self._memory[drawn].sum()
        end = self._rng.uniform(0.0, self._free)
        while min(cpu / net[0], memory / net[1]) > end:
            fits = np.flatnonzero(suits & (self._cpu <= cpu) & (self._memory <= memory))
            if not len(fits):
                break
            chosen = int(self._rng.choice(fits, p=self._weight[fits] / self._weight[fits].sum()))
            drawn.append(chosen)
            suits[chosen] = suits[chosen] and not once[chosen]
            cpu, memory = cpu - self._cpu[chosen], memory - self._memory[chosen]
        return drawn

    def _made(self, number: int, drawn: list[int], bought: Sold, *, dedicated: bool) -> ClusterNode:
        name = f"node-{number:05}"
        labels = {
            **bought.type.requirements.labels(),
            **bought.offering.requirements.labels(),
            HOSTNAME: name,
            NODEPOOL: DEDICATED if dedicated else "default",
            "example.com/role": "dedicated" if dedicated else "any",
            REGISTERED: "true",
            INITIALIZED: "true",
        }
        taints = (Taint("dedicated", "yes", "NoSchedule"),) if dedicated else ()
        capacity, allocatable = bought.type.capacity, bought.type.allocatable
        node = Node(
            metadata=ObjectMeta(name=name, uid=f"node-{number}", creation_timestamp=AT, labels=labels),
            spec=NodeSpec(provider_id=f"cloud:///{name}", taints=taints),
            status=NodeStatus(conditions=READY, capacity=capacity, allocatable=allocatable),
        )
        claim = NodeClaim(
            metadata=ObjectMeta(name=f"claim-{number:05}", uid=f"claim-{number}", creation_timestamp=AT, labels=labels),
            spec=NodeClaimSpec(taints=taints),
            status=NodeClaimStatus(
                node_name=name, provider_id=f"cloud:///{name}", capacity=capacity, allocatable=allocatable
            ),
        )
        here = [*(self._every[each] for each in drawn), *daemons()]
        return ClusterNode(node, claim, tuple(self._pod(each, name) for each in here))

    def _pod(self, workload: Workload, node: str) -> Pod:
        self._pods += 1
        number = self._pods
        meta = ObjectMeta(
            name=f"{workload.name}-{number:06x}",
            namespace=workload.namespace,
            uid=f"pod-{number:08}",
            creation_timestamp=AT,
            labels=workload.labels,
            owner_references=workload.owners,
        )
        return Pod(metadata=meta, spec=msgspec.structs.replace(workload.spec, node_name=node), status=RUNNING)


def _net(each: InstanceType) -> tuple[float, float, float]:
    """What a type has for pods once its daemons run: thousandths of cpu, bytes, pods."""
    have = each.allocatable
    overhead = daemons()
    return (
        have["cpu"].milli - sum(daemon.cpu for daemon in overhead),
        have["memory"].units - sum(daemon.memory for daemon in overhead),
        have["pods"].units - len(overhead),
    )


def usable(snapshot: Snapshot) -> list[NodePool]:
    """The NodePools in the order they are tried."""
    return sorted(snapshot.nodepools.values(), key=lambda pool: (-pool.weight, pool.name))
