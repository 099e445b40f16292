"""The linear programme under the floor: fractions of machines at the least price, every pod somewhere it may be.

With thousands of kinds of pods and offers nearly every pair of them is allowed and few are used. So pairs are asked in
as they are needed: the programme is solved with some, its prices say what a pod would pay on every machine, and pairs
that would be cheaper than what it pays now come in. When there are none, the answer is that of the whole programme.
Asked again for other numbers of pods, it begins where it ended.

The least any set of nodes could cost for these pods: a proven floor, by a linear programme over fractions of nodes.

Pods may be split over nodes and nodes bought in parts, and of all constraints only requests, selectors, required node
affinity, taints of pools and the size of machines are kept. Each of these freedoms can only make it cheaper, so no real
cluster can cost less. Pods that fit no offering at all are left out, as they cost nothing while they wait.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import highspy
import msgspec
import numpy as np
import numpy.typing as npt

from dovetail.core.cost_floor.discontinued_types import is_sold, with_past
from dovetail.model.catalog import InstanceType
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import NodeSelector, Pod, spec_requests
from dovetail.model.requirements import Requirement, Requirements
from dovetail.model.resources import CPU, MEMORY, PODS, Resources
from dovetail.model.snapshot import ClusterNode, Snapshot
from dovetail.model.taints import tolerates

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]

PAIRS_A_ROUND = 8
"""At most so many new pairs a kind of pod and round."""
EXACT = 1e-9
"""Of what a pod pays: less than this is no saving."""


class BoundUnavailable(Exception):
    """The solver could not answer."""


class Programme:
    """Kinds of pods (what one needs) and offers (size, price), and which may be on which."""

    def __init__(self, needs: Array, sizes: Array, prices: Array, allowed: Mask) -> None:
        self.needs = needs
        self.sizes = sizes
        self.prices = prices
        self.allowed = allowed
        self._solver = self._begin()
        self._chosen = self._likely()
        self._admit(*np.nonzero(self._chosen))

    def least(self, counts: Array) -> float:
        """What so many pods of each kind cost at least; every kind must be allowed on some offer."""
        every = np.arange(len(counts), dtype=np.int32)
        taken = self._solver.changeRowsBounds(len(counts), every, counts, counts)  # type: ignore[attr-defined]
        if taken != highspy.HighsStatus.kOk:
            raise BoundUnavailable(f"the solver does not take {counts} pods")
        while True:
            pays, asks = self._prices()
            saved = pays[:, None] - np.where(self.allowed & ~self._chosen, asks, np.inf)
            kinds, offers = _best(saved, EXACT * max(1.0, float(np.abs(pays).max())))
            if not len(kinds):
                return float(self._solver.getInfo().objective_function_value)
            self._chosen[kinds, offers] = True
            self._admit(kinds, offers)

    def _begin(self) -> highspy.Highs:
        """Rows for kinds (all placed) and for what each offer has; columns for how much of each offer is bought."""
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)  # noqa: FBT003 - its own way
        solver.setOptionValue("presolve", "off")  # would throw away what the round before found out
        solver.setOptionValue("simplex_strategy", 4)  # primal: stays feasible when columns come in
        kinds, (offers, resources) = len(self.needs), self.sizes.shape
        rows, held = kinds + offers * resources, offers * resources
        solver.addRows(
            rows,
            np.concatenate([np.zeros(kinds), np.full(held, -highspy.kHighsInf)]),
            np.zeros(rows),
            0,
            np.zeros(rows, dtype=np.int32),
            np.zeros(0, dtype=np.int32),
            np.zeros(0),
        )
        _add(solver, self.prices, kinds + np.arange(held).reshape(offers, resources), -self.sizes)
        return solver

    def _likely(self) -> Mask:
        """To begin with: where each kind is cheapest alone, and where if one resource were all that costs."""
        every = np.arange(len(self.needs))
        chosen = np.zeros_like(self.allowed)
        unit = self.prices[:, None] / np.maximum(self.sizes, EXACT)
        shares = self.needs[:, None, :] * unit[None, :, :]
        for cost in (shares.max(axis=2), *np.moveaxis(shares, 2, 0)):
            chosen[every, np.where(self.allowed, cost, np.inf).argmin(axis=1)] = True
        return chosen

    def _admit(self, kinds: Positions, offers: Positions) -> None:
        """Pods of these kinds may be on these offers: each is placed once and takes what it needs."""
        resources = self.needs.shape[1]
        taken = len(self.needs) + offers[:, None] * resources + np.arange(resources)
        rows = np.concatenate([kinds[:, None], taken], axis=1)
        values = np.concatenate([np.ones((len(kinds), 1)), self.needs[kinds]], axis=1)
        _add(self._solver, np.zeros(len(kinds)), rows, values)

    def _prices(self) -> tuple[Array, Array]:
        """What a pod of each kind pays now, and what it would pay on each offer."""
        solver = self._solver
        solver.run()
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise BoundUnavailable(f"the solver answered {solver.modelStatusToString(status)}")
        dual = np.array(solver.getSolution().row_dual)
        kinds = len(self.needs)
        return dual[:kinds], self.needs @ -dual[kinds:].reshape(self.sizes.shape).T


def _add(solver: highspy.Highs, costs: Array, rows: npt.NDArray[np.integer], values: Array) -> None:
    """New columns, each with as many entries as `rows` is wide."""
    number, wide = rows.shape
    solver.addCols(
        number,
        costs,
        np.zeros(number),
        np.full(number, highspy.kHighsInf),
        number * wide,
        np.arange(0, number * wide, wide, dtype=np.int32),
        rows.ravel().astype(np.int32),
        values.ravel(),
    )


def _best(saved: Array, least: float) -> tuple[Positions, Positions]:
    """The pairs that save most, some for each kind."""
    kinds = np.nonzero((saved > least).any(axis=1))[0]
    if not len(kinds):
        return kinds, kinds
    width = min(PAIRS_A_ROUND, saved.shape[1])
    offers = np.argpartition(-saved[kinds], width - 1, axis=1)[:, :width].ravel()
    kinds = np.repeat(kinds, width)
    better = saved[kinds, offers] > least
    return kinds[better], offers[better]


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
