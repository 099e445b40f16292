"""The least any set of nodes could cost for these pods: a proven floor, by a linear programme over fractions of nodes.

Pods may be split over nodes and nodes bought in parts, and of all constraints only requests, selectors, required node
affinity, taints of pools and the size of machines are kept. Each of these freedoms can only make it cheaper, so no real
cluster can cost less. Pods that fit no offering at all are left out, as they cost nothing while they wait.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

from dovetail.model.catalog import InstanceType
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import NodeSelector, Pod
from dovetail.model.requests import spec_requests
from dovetail.model.requirement import Requirement
from dovetail.model.requirements import Requirements
from dovetail.model.resources import CPU, MEMORY, PODS, Resources
from dovetail.model.snapshot import Snapshot
from dovetail.model.taints import tolerates

RESOURCES = (CPU, MEMORY, PODS)
Kind = tuple[tuple[float, ...], Hashable]
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class BoundUnavailable(Exception):
    """The solver could not answer."""


@dataclass(frozen=True)
class Offer:
    """One way to buy one machine for one pool."""

    pool: NodePool
    requirements: Requirements
    size: tuple[float, ...]
    price: float


def lower_bound(snapshot: Snapshot) -> float:
    """Dollars an hour below which these pods cannot run on what can be bought."""
    return Floor(snapshot.nodepools, snapshot.catalogs).of(pod for node in snapshot.nodes for pod in node.pods)


class Floor:
    """The floor for one set of pools and prices; what was found out about a pod is kept for the next question."""

    def __init__(self, pools: Mapping[str, NodePool], catalogs: Mapping[str, tuple[InstanceType, ...]]) -> None:
        self._offers = list(_offers(pools, catalogs))
        self._price = np.array([offer.price for offer in self._offers])
        self._size = np.array([offer.size for offer in self._offers]).reshape(len(self._offers), len(RESOURCES))
        self._allowed: dict[Hashable, Mask] = {}
        self._kinds: dict[str, Kind] = {}  # by uid

    def of(self, pods: Iterable[Pod]) -> float:
        """Dollars an hour for these pods; those of DaemonSets and those that are over do not count."""
        kinds: Counter[Kind] = Counter()
        for pod in pods:
            if not pod.daemon and not pod.mirror and not pod.terminal:
                kinds[self._kind(pod)] += 1
        if not kinds or not self._offers:
            return 0.0
        needs = np.array([need for need, _ in kinds])
        fits = (self._size[None, :, :] >= needs[:, None, :]).all(axis=2)
        allowed = np.array([self._allowed[kind] for _, kind in kinds]) & fits
        some = allowed.any(axis=1)
        counts = np.array(list(kinds.values()), dtype=float)[some]
        if not len(counts):
            return 0.0
        kept = self._undominated(allowed[some])
        return _solve(counts, needs[some], self._size[kept], self._price[kept], allowed[some][:, kept])

    def _kind(self, pod: Pod) -> Kind:
        """What it asks for, and where it may be."""
        known = self._kinds.get(pod.metadata.uid)
        if known is None:
            spec = pod.spec
            where = (tuple(sorted(spec.node_selector.items())), _required(pod), tuple(spec.tolerations))
            if where not in self._allowed:
                self._allowed[where] = np.array([_admits(offer, pod) for offer in self._offers], dtype=bool)
            requests = spec_requests(spec)
            known = self._kinds[pod.metadata.uid] = ((_number(CPU, requests), _number(MEMORY, requests), 1.0), where)
        return known

    def _undominated(self, allowed: Mask) -> npt.NDArray[np.intp]:
        """Offers worth having: of those open to the same pods, none gives more of everything for a dollar."""
        worth = self._size / np.maximum(self._price, 1e-9)[:, None]
        groups: dict[bytes, list[int]] = {}
        for position in range(len(self._offers)):
            column = allowed[:, position]
            if column.any():
                groups.setdefault(column.tobytes(), []).append(position)
        kept: list[int] = []
        for members in groups.values():
            front: list[int] = []
            for position in sorted(members, key=lambda each: (-worth[each].sum(), each)):
                if not any((worth[other] >= worth[position]).all() for other in front):
                    front.append(position)
            kept.extend(front)
        return np.array(sorted(kept), dtype=np.intp)


def _offers(pools: Mapping[str, NodePool], catalogs: Mapping[str, tuple[InstanceType, ...]]) -> Iterator[Offer]:
    for name, pool in sorted(pools.items()):
        for type_ in catalogs.get(name, ()):
            if pool.requirements.intersects(type_.requirements) is None:
                yield from _ways(pool, type_)


def _ways(pool: NodePool, type_: InstanceType) -> Iterator[Offer]:
    size = tuple(_number(name, type_.allocatable) for name in RESOURCES)
    for offering in type_.offerings:
        if offering.available and pool.requirements.intersects(offering.requirements) is None:
            both = pool.requirements.add(type_.requirements, offering.requirements)
            yield Offer(pool, both, size, offering.price)


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
    return 0.0 if amount is None else amount.nano / 1e9 / (2**30 if name == MEMORY else 1)


def _solve(counts: Array, needs: Array, sizes: Array, prices: Array, allowed: Mask) -> float:
    """Minimise the price of fractional nodes such that every pod is somewhere it may be."""
    pairs = np.argwhere(allowed)
    offers, resources = len(prices), needs.shape[1]
    model = highspy.HighsLp()
    model.num_col_ = offers + len(pairs)
    model.num_row_ = len(counts) + offers * resources
    model.col_cost_ = np.concatenate([prices, np.zeros(len(pairs))])
    model.col_lower_ = np.zeros(model.num_col_)
    model.col_upper_ = np.full(model.num_col_, highspy.kHighsInf)
    model.row_lower_ = np.concatenate([counts, np.full(offers * resources, -highspy.kHighsInf)])
    model.row_upper_ = np.concatenate([counts, np.zeros(offers * resources)])
    starts, rows, values = _columns(pairs, needs, sizes, len(counts))
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = starts, rows, values
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)  # noqa: FBT003 - its own way
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise BoundUnavailable(f"the solver answered {solver.modelStatusToString(solver.getModelStatus())}")
    return float(solver.getInfo().objective_function_value)


def _columns(
    pairs: npt.NDArray[np.intp], needs: Array, sizes: Array, kinds: int
) -> tuple[list[int], list[int], list[float]]:
    """The matrix by columns: a node gives its size, a pod on an offer takes its need and is placed."""
    starts, rows, values = [0], [], []
    resources = needs.shape[1]
    for offer in range(len(sizes)):
        rows += [kinds + offer * resources + resource for resource in range(resources)]
        values += [-float(sizes[offer, resource]) for resource in range(resources)]
        starts.append(len(rows))
    for kind, offer in pairs:
        rows += [int(kind), *(kinds + int(offer) * resources + resource for resource in range(resources))]
        values += [1.0, *(float(needs[kind, resource]) for resource in range(resources))]
        starts.append(len(rows))
    return starts, rows, values
