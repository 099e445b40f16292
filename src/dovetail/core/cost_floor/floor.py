"""The cost floor: the least that any set of nodes could cost for some pods, by linear programming.

Pods may be split over nodes and nodes launched in fractions. Of all constraints only requests, node selectors, required
node affinity, taints of NodePools and the size of instances are kept. Each relaxation can only lower the cost, so no
real cluster costs less. Pods that fit no offering are left out, since they stay pending and cost nothing.

Pods are grouped by kind (requests, selectors, tolerations) and offerings by size and the pods they admit. The program
itself is in `linear_program`.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from dovetail.core.cost_floor.discontinued_types import add_discontinued, is_still_offered
from dovetail.core.cost_floor.linear_program import LinearProgram, Mask, Positions, cheapest_alike, undominated
from dovetail.model.catalog import InstanceType
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import NodeSelector, Pod, spec_requests
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import CPU, MEMORY, PODS, Resources
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import tolerates

RESOURCES = (CPU, MEMORY, PODS)
Kind = tuple[tuple[float, ...], Hashable]


@dataclass(frozen=True)
class Offer:
    """One offering of one instance type, launched by one NodePool."""

    pool: NodePool
    requirements: Requirements
    size: tuple[float, ...]
    price: float


@dataclass(frozen=True)
class ExistingInstance:
    """The instance of a node, with the price it was launched at."""

    claim: NodeClaim
    pool: str
    price: float


def lower_bound(snapshot: Snapshot) -> float:
    """The cost floor of the pods on managed nodes, in dollars per hour, including instances discontinued since."""
    managed = [node for node in snapshot.nodes if node.managed]
    pools, catalogs = snapshot.nodepools, snapshot.catalogs
    instances = [each for node in managed if (each := _existing_instance(node, snapshot)) is not None]
    past = [each for each in instances if not is_still_offered(each, pools, catalogs)]
    floor = Floor(*add_discontinued(pools, catalogs, past))
    return floor.of(pod for node in managed for pod in node.pods)


def _existing_instance(node: ClusterNode, snapshot: Snapshot) -> ExistingInstance | None:
    """The instance of a managed node; None if its price is not known."""
    assert node.claim is not None, "the node is managed"
    offering = snapshot.offering_of(node)
    if offering is None:
        return None
    return ExistingInstance(_with_node_labels(node.claim, node.labels), node.nodepool_name, offering.price)


def _with_node_labels(claim: NodeClaim, labels: Mapping[str, str]) -> NodeClaim:
    """The claim, with the instance type, zone and capacity type of its node as labels."""
    known = {key: labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE) if key in labels}
    metadata = msgspec.structs.replace(claim.metadata, labels={**claim.metadata.labels, **known})
    return msgspec.structs.replace(claim, metadata=metadata)


class Floor:
    """The cost floor for one set of NodePools and prices."""

    def __init__(self, pools: Mapping[str, NodePool], catalogs: Mapping[str, tuple[InstanceType, ...]]) -> None:
        self._offers = list(_offers(pools, catalogs))
        self._price = np.array([offer.price for offer in self._offers])
        self._sizes = np.array([offer.size for offer in self._offers]).reshape(len(self._offers), len(RESOURCES))
        self._admitted: dict[Hashable, Mask] = {}

    def of(self, pods: Iterable[Pod]) -> float:
        """Dollars per hour for these pods; DaemonSet pods, static pods and terminal pods do not count."""
        return self.on_average((pod, 1.0) for pod in pods if not pod.terminal)

    def on_average(self, pods: Iterable[tuple[Pod, float]]) -> float:
        """Dollars per hour over a period in which each pod existed for a share of the time.

        A share may exceed 1, for several equal pods. The result is at most the mean of the floors at each instant,
        because the mean of their nodes holds the mean of the pods.
        """
        kinds: defaultdict[Kind, float] = defaultdict(float)
        for pod, share in pods:
            if share > 0 and not pod.daemon and not pod.mirror:
                kinds[self._kind(pod)] += share
        return self._least(kinds)

    def _least(self, kinds: Mapping[Kind, float]) -> float:
        """Dollars per hour for these numbers of pods of each kind."""
        if not kinds or not self._offers:
            return 0.0
        offers, allowed = self._choices([*kinds])
        some: Mask = np.asarray(allowed.any(axis=1))  # the kinds that some offer admits
        if not some.any():
            return 0.0
        needs, counts = np.array([need for need, _ in kinds])[some], np.array([*kinds.values()])[some]
        return LinearProgram(needs, self._sizes[offers], self._price[offers], allowed[some]).least(counts)

    def _kind(self, pod: Pod) -> Kind:
        """The requests of a pod, and its constraints on nodes."""
        spec = pod.spec
        where = (tuple(sorted(spec.node_selector.items())), _required(pod), tuple(spec.tolerations))
        if where not in self._admitted:
            self._admitted[where] = np.array([_admits(offer, pod) for offer in self._offers], dtype=bool)
        requests = spec_requests(spec)
        return (_number(CPU, requests), _number(MEMORY, requests), 1.0), where

    def _choices(self, kinds: list[Kind]) -> tuple[Positions, Mask]:
        """The offers that can be part of an optimum, and which kinds of pods each admits.

        Of offers that admit the same pods and have the same size, only the cheapest is kept.
        """
        wheres = {where: number for number, where in enumerate(dict.fromkeys(where for _, where in kinds))}
        admitted = np.array([self._admitted[where] for where in wheres])
        offers = cheapest_alike(self._price, admitted, self._sizes)
        sizes = self._sizes[offers]
        needs = np.array([need for need, _ in kinds])
        fits: Mask = np.all(sizes[None, :, :] >= needs[:, None, :], axis=2)
        allowed = admitted[[wheres[where] for _, where in kinds]][:, offers] & fits
        worth = sizes / np.maximum(self._price[offers], 1e-9)[:, None]
        kept = undominated(allowed, worth)
        return offers[kept], allowed[:, kept]


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
    """An amount as cores, GiB or pods: LP solvers are more accurate with numbers of similar size."""
    amount = amounts.get(name)
    return 0.0 if amount is None else amount.number / (2**30 if name == MEMORY else 1)
