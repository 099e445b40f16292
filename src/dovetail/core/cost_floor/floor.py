"""The least any set of nodes could cost for these pods: a proven floor, by a linear programme over fractions of nodes.

Pods may be split over nodes and nodes bought in parts, and of all constraints only requests, selectors, required node
affinity, taints of pools and the size of machines are kept. Each of these freedoms can only make it cheaper, so no real
cluster can cost less. Pods that fit no offering at all are left out, as they cost nothing while they wait.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from dovetail.core.cost_floor.discontinued_types import is_sold, with_past
from dovetail.core.cost_floor.linear_program import Array, BoundUnavailable, Mask, Positions, Programme
from dovetail.model.catalog import InstanceType
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import NodeSelector, Pod
from dovetail.model.pod_requests import spec_requests
from dovetail.model.requirement import Requirement
from dovetail.model.requirements import Requirements
from dovetail.model.resources import CPU, MEMORY, PODS, Resources
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import tolerates

__all__ = ["BoundUnavailable", "Floor", "lower_bound"]

RESOURCES = (CPU, MEMORY, PODS)
Kind = tuple[tuple[float, ...], Hashable]


@dataclass(frozen=True)
class Offer:
    """One way to buy one machine for one pool."""

    pool: NodePool
    requirements: Requirements
    size: tuple[float, ...]
    price: float


@dataclass(frozen=True)
class ExistingInstance:
    """A machine that runs."""

    claim: NodeClaim
    pool: str
    price: float


def lower_bound(snapshot: Snapshot) -> float:
    """Dollars an hour below which the pods on managed nodes cannot run on what can be bought, or was."""
    managed = [node for node in snapshot.nodes if node.managed]
    pools, catalogs = snapshot.nodepools, snapshot.catalogs
    machines = [each for node in managed if (each := _bought(node, snapshot)) is not None]
    past = [each for each in machines if not is_sold(each, pools, catalogs)]
    floor = Floor(*with_past(pools, catalogs, past))
    return floor.of(pod for node in managed for pod in node.pods)


def _bought(node: ClusterNode, snapshot: Snapshot) -> ExistingInstance | None:
    """What a node was bought at, as far as anybody still knows its price."""
    assert node.claim is not None, "only managed nodes are asked"
    kind = snapshot.types_by_pool.get(node.nodepool_name, {}).get(node.labels.get(INSTANCE_TYPE, ""))
    bought = kind.bought_with(node.labels) if kind is not None else None
    if bought is None:
        return None
    return ExistingInstance(_labelled(node.claim, node.labels), node.nodepool_name, bought.price)


def _labelled(claim: NodeClaim, labels: Mapping[str, str]) -> NodeClaim:
    """The claim, with what its node says about how it was bought."""
    known = {key: labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE) if key in labels}
    metadata = msgspec.structs.replace(claim.metadata, labels={**claim.metadata.labels, **known})
    return msgspec.structs.replace(claim, metadata=metadata)


class Floor:
    """The floor for one set of pools and prices."""

    def __init__(self, pools: Mapping[str, NodePool], catalogs: Mapping[str, tuple[InstanceType, ...]]) -> None:
        self._offers = list(_offers(pools, catalogs))
        self._price = np.array([offer.price for offer in self._offers])
        sizes = np.array([offer.size for offer in self._offers]).reshape(len(self._offers), len(RESOURCES))
        self._sizes, self._size_of = np.unique(sizes, axis=0, return_inverse=True)
        self._admitted: dict[Hashable, Mask] = {}

    def of(self, pods: Iterable[Pod]) -> float:
        """Dollars an hour for these pods; those of DaemonSets and those that are over do not count."""
        return self.on_average((pod, 1.0) for pod in pods if not pod.terminal)

    def on_average(self, pods: Iterable[tuple[Pod, float]]) -> float:
        """Dollars an hour over a time in which each pod was there for a share of it; one may stand for several alike.

        No more than the mean of the floors of its instants: the mean of what they would buy holds the mean of the pods.
        """
        kinds: defaultdict[Kind, float] = defaultdict(float)
        for pod, share in pods:
            if share > 0 and not pod.daemon and not pod.mirror:
                kinds[self._kind(pod)] += share
        return self._least(kinds)

    def _least(self, kinds: Mapping[Kind, float]) -> float:
        """Dollars an hour for so many pods of each kind."""
        if not kinds or not self._offers:
            return 0.0
        offers, allowed = self._choices([*kinds])
        some: Mask = np.asarray(allowed.any(axis=1))  # those that fit anywhere
        if not some.any():
            return 0.0
        needs, counts = np.array([need for need, _ in kinds])[some], np.array([*kinds.values()])[some]
        sizes, prices = self._sizes[self._size_of[offers]], self._price[offers]
        return Programme(needs, sizes, prices, allowed[some]).least(counts)

    def _kind(self, pod: Pod) -> Kind:
        """What it asks for, and where it may be."""
        spec = pod.spec
        where = (tuple(sorted(spec.node_selector.items())), _required(pod), tuple(spec.tolerations))
        if where not in self._admitted:
            self._admitted[where] = np.array([_admits(offer, pod) for offer in self._offers], dtype=bool)
        requests = spec_requests(spec)
        return (_number(CPU, requests), _number(MEMORY, requests), 1.0), where

    def _choices(self, kinds: list[Kind]) -> tuple[Positions, Mask]:
        """The offers worth having, and which kinds of pods may be on each.

        Offers that admit the same pods and have one size differ in price alone: the cheapest stands for them.
        """
        wheres = {where: number for number, where in enumerate(dict.fromkeys(where for _, where in kinds))}
        admitted = np.array([self._admitted[where] for where in wheres])
        admitting, admitting_of = np.unique(admitted, axis=1, return_inverse=True)
        cheapest: dict[tuple[int, int], int] = {}
        for offer in np.argsort(self._price, kind="stable"):
            cheapest.setdefault((admitting_of[offer], self._size_of[offer]), int(offer))
        offers = np.array(sorted(cheapest.values()), dtype=np.intp)
        needs = np.array([need for need, _ in kinds])
        fits: Mask = np.all(self._sizes[None, :, :] >= needs[:, None, :], axis=2)
        where_of = [wheres[where] for _, where in kinds]
        allowed = admitting[where_of][:, admitting_of[offers]] & fits[:, self._size_of[offers]]
        worth = self._sizes[self._size_of[offers]] / np.maximum(self._price[offers], 1e-9)[:, None]
        kept = _undominated(allowed, worth)
        return offers[kept], allowed[:, kept]


def _undominated(allowed: Mask, worth: Array) -> Positions:
    """Offers for which no other is open to all the same pods and gives as much of everything for a dollar."""
    columns = np.ascontiguousarray(allowed.T)
    open_to = columns.sum(axis=1)
    kept: list[int] = []
    for position in np.lexsort((-worth.sum(axis=1), -open_to)):
        if not open_to[position]:
            break
        better = np.nonzero((worth[kept] >= worth[position]).all(axis=1))[0]
        if not any((columns[kept[other]] >= columns[position]).all() for other in better):
            kept.append(int(position))
    return np.array(sorted(kept), dtype=np.intp)


def _offers(pools: Mapping[str, NodePool], catalogs: Mapping[str, tuple[InstanceType, ...]]) -> Iterator[Offer]:
    for name, pool in sorted(pools.items()):
        wanted = pool.requirements
        for type_ in catalogs.get(name, ()):
            if wanted.intersects(type_.requirements) is not None:
                continue
            size = tuple(_number(resource, type_.allocatable) for resource in RESOURCES)
            for offering in type_.offerings:
                if offering.available and wanted.intersects(offering.requirements) is None:
                    yield Offer(pool, wanted.add(type_.requirements, offering.requirements), size, offering.price)


def _admits(offer: Offer, pod: Pod) -> bool:
    taints = offer.pool.spec.template.spec.taints
    if any(taint.effect != "PreferNoSchedule" and not tolerates(pod.spec.tolerations, taint) for taint in taints):
        return False
    if offer.requirements.intersects(Requirements.from_labels(pod.spec.node_selector)) is not None:
        return False
    required = _required(pod)
    return required is None or any(
        offer.requirements.intersects(
            Requirements.of(Requirement.of(each.key, each.operator, each.values) for each in term.match_expressions)
        )
        is None
        for term in required.node_selector_terms
    )


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def _number(name: str, amounts: Resources) -> float:
    """An amount in units of like size, which solvers prefer: cores, GiB, pods."""
    amount = amounts.get(name)
    return 0.0 if amount is None else amount.number / (2**30 if name == MEMORY else 1)
