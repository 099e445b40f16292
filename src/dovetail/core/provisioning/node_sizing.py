"""Node sizing: chooses the nodes for many pods at once, by price.

The solver places one pod after the other and opens a draft when none takes the next pod. Which sizes the nodes get is
then a result of the order, not of prices. Here the pods of the solver's drafts are grouped into classes, and column
generation (`core/columns`) chooses nodes for all of them together. These pods are placed into the chosen nodes first,
and the rest as always, by the same solver, which checks every constraint.

The solver's own drafts are the upper bound: the chosen nodes are used only if they place the same pods and save more
than `LEAST_SAVING`. Nodes are chosen for pods that only taints, labels and size constrain, and for each NodePool apart,
since their weights, not prices, decide between NodePools. A NodeClaim lists all types that hold its pods, however its
node was chosen.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial

import numpy as np

from dovetail.core.columns.generation import cheapest_nodes
from dovetail.core.columns.packing import Packing
from dovetail.core.cost_floor.linear_program import WITHOUT_SOLVER, BoundUnavailable, Counts, cheapest_alike
from dovetail.core.scheduling.draft import Draft, cheapest
from dovetail.core.scheduling.draft_options import DraftOptions
from dovetail.core.scheduling.instance_type_table import InstanceTypeTable
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.purchasable import Purchasable
from dovetail.core.scheduling.single_node_fit import decided_by_size
from dovetail.core.scheduling.solver import Placement, ProposedNode, place_all
from dovetail.model.pod import Pod

LEAST_DRAFTS = 2
"""Pods that share one node are left there."""
LEAST_PODS = 10
"""Fewer pods of a NodePool are placed one by one."""
LEAST_SHARE = 0.5
"""The least share of these pods among all pods of the NodePool's drafts: with fewer, the others decide the cost."""
LEAST_SAVING = 0.01
"""The least saving, as a share of the cost."""
MOST_CLASSES = 256
"""With more classes, requests are rounded up, so that pods with similar requests share one."""
FINEST, COARSEST = 1024, 16
"""Requests are rounded up to multiples of the largest offer divided by such a number."""

NODE_COST = 0.01
"""What each node counts beyond its price, as a share of the mean price of the drafts.

Small nodes fit pods more closely, but each node also needs an address, images and a kubelet.
"""

Entry = tuple[Pod, PodShape]
ClassKey = tuple[DraftOptions, tuple[int, ...]]


WITHOUT_HIGHS = WITHOUT_SOLVER and "node sizes are not chosen by price without HiGHS: pip install 'dovetail[highs]'"
"""Why nodes are not chosen by price in this installation; empty if they are."""


def place_by_price(problem: Problem, *, respect_preferences: bool) -> Placement:
    """Place all pods, on chosen nodes where these cost less."""
    placed = place_all(problem, respect_preferences=respect_preferences)
    if WITHOUT_HIGHS or len(placed.drafts) < LEAST_DRAFTS:
        return placed
    proposed = [*_choose_nodes(problem, placed.drafts, respect_preferences=respect_preferences)]
    if not proposed:
        return placed
    chosen = place_all(problem, respect_preferences=respect_preferences, proposed=proposed)
    most = (1 - LEAST_SAVING) * sum(map(cheapest, placed.drafts))
    if chosen.refusals.keys() <= placed.refusals.keys() and sum(map(cheapest, chosen.drafts)) < most:
        return chosen
    return placed


def _choose_nodes(problem: Problem, drafts: Sequence[Draft], *, respect_preferences: bool) -> Iterator[ProposedNode]:
    """Nodes for the pods of these drafts that only taints, labels and size constrain."""
    level = cache(partial(_level, problem, respect_preferences))
    by_table: dict[InstanceTypeTable, list[Draft]] = {}
    for draft in drafts:
        by_table.setdefault(draft.options.type_table, []).append(draft)
    for type_table, each in by_table.items():
        root = Purchasable(problem).root(type_table)
        assert isinstance(root, DraftOptions), "the limits left room for a draft"
        classes = _PodClasses(root)
        for draft in each:
            entries = zip(draft.pods, draft.shapes, strict=True)
            classes.add([(entry, found) for entry in entries if (found := level(entry[1])) is not None])
        if classes.number >= max(LEAST_PODS, LEAST_SHARE * sum(len(draft.pods) for draft in each)):
            yield from classes.nodes(NODE_COST * sum(map(cheapest, each)) / len(each))


def _level(problem: Problem, respect_preferences: bool, shape: PodShape) -> PreferenceLevel | None:
    levels = shape.preference_levels(respect_preferences=respect_preferences, soft_taints=problem.soft_taints)
    return decided_by_size(shape, levels)


class _PodClasses:
    """Pods of one NodePool by class: equal draft options and requests."""

    def __init__(self, root: DraftOptions) -> None:
        self.number = 0
        self._root = root
        self._pods: dict[ClassKey, deque[Entry]] = {}
        self._drafts: list[list[ClassKey]] = []

    def add(self, pods: Iterable[tuple[Entry, PreferenceLevel]]) -> None:
        """Add the pods of a draft."""
        keys = []
        for entry, level in pods:
            options = self._root.narrow(level.alternatives[0])
            if isinstance(options, str):
                continue  # the limits no longer allow its types
            need = [0] * self._root.net.shape[1]
            for column, amount in entry[1].need:
                need[column] = amount
            key = (options, tuple(need))
            self._pods.setdefault(key, deque()).append(entry)
            keys.append(key)
        self._drafts.append(keys)
        self.number += len(keys)

    def nodes(self, node_cost: float) -> Iterator[ProposedNode]:
        """The nodes that are cheapest for these pods. Each costs `node_cost` more than its price."""
        merged = self._merged()
        numbers = {key: number for number, key in enumerate(dict.fromkeys(merged.values()))}
        queues: list[deque[Entry]] = [deque() for _ in numbers]
        for key, pods in self._pods.items():
            queues[numbers[merged[key]]].extend(pods)
        known = np.zeros((len(self._drafts), len(numbers)), dtype=np.int64)
        for draft, keys in enumerate(self._drafts):
            for key in keys:
                known[draft, numbers[merged[key]]] += 1
        packing = self._packing([*numbers], np.array([len(queue) for queue in queues]), node_cost)
        try:
            for column in cheapest_nodes(packing, np.unique(known, axis=0)):
                taken = zip(queues, column, strict=True)
                chosen = tuple(queue.popleft() for queue, count in taken for _ in range(count))
                yield ProposedNode(self._root.type_table, chosen)
        except BoundUnavailable:
            return  # the pods that are left are placed one by one

    def _merged(self) -> dict[ClassKey, ClassKey]:
        """The class that each class becomes part of, so that there are at most `MOST_CLASSES`, if that is possible."""
        merged = {key: key for key in self._pods}
        parts, largest = FINEST, self._root.net.max(axis=0).tolist()
        while len({*merged.values()}) > MOST_CLASSES and parts >= COARSEST:
            steps = [max(1, most // parts) for most in largest]
            merged = {key: (key[0], _rounded_up(key[1], steps)) for key in self._pods}
            parts //= 2
        return merged

    def _packing(self, keys: Sequence[ClassKey], demand: Counts, node_cost: float) -> Packing:
        table = self._root.type_table
        needs = np.array([need for _, need in keys], dtype=np.int64)
        admitted = np.array([options.offerings for options, _ in keys])
        sizes = table.net[table.type_of]
        if self._root.diversity:
            admitted &= [bool(self._root.left(size)) for size in sizes.tolist()]
        offers = cheapest_alike(table.price, admitted, sizes)
        sizes = sizes[offers]
        fits = (sizes[None, :, :] >= needs[:, None, :]).all(axis=2)
        return Packing(needs, demand, sizes, table.price[offers] + node_cost, admitted[:, offers] & fits).undominated()


def _rounded_up(need: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    return tuple(-(-amount // step) * step for amount, step in zip(need, steps, strict=True))
