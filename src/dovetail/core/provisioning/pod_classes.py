"""Pods of one NodePool by class: pods with equal draft options and equal requests are interchangeable.

`nodes` chooses the cheapest nodes for all of them. Where there are too many classes, those with similar requests are
merged; a merged class counts with the largest requests of its pods, so that a node holds whichever pods it gets.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from dovetail.core.columns.generation import cheapest_nodes
from dovetail.core.columns.packing import Packing
from dovetail.core.cost_floor.linear_program import BoundUnavailable, Counts, cheapest_alike
from dovetail.core.scheduling.draft_options import DraftOptions
from dovetail.core.scheduling.pod_shapes import PodShape
from dovetail.core.scheduling.preferences import PreferenceLevel
from dovetail.core.scheduling.solver import ProposedNode
from dovetail.model.pod import Pod

MOST_CLASSES = 256
"""With more classes, requests are rounded up, so that pods with similar requests share one."""
FINEST, COARSEST = 1024, 16
"""Requests are rounded up to multiples of the largest offer divided by such a number."""

Entry = tuple[Pod, PodShape]
ClassKey = tuple[DraftOptions, tuple[int, ...]]


class PodClasses:
    """Pods of one NodePool by class: equal draft options and requests."""

    def __init__(self, root: DraftOptions, level: Callable[[PodShape], PreferenceLevel | None]) -> None:
        """`level` has the only preference level of a shape that taints, labels and size alone constrain."""
        self._root = root
        self._level = level
        self._pods: dict[ClassKey, deque[Entry]] = {}
        self._groups: list[list[ClassKey]] = []
        self._keys: dict[PodShape, ClassKey | None] = {}

    def add(self, pods: Iterable[Entry]) -> None:
        """Add the pods of a node; they fit on one together. Pods that the NodePool takes no more are left out."""
        keys = []
        for entry in pods:
            shape = entry[1]
            if shape not in self._keys:
                self._keys[shape] = self._key(shape)
            key = self._keys[shape]
            if key is not None:
                self._pods.setdefault(key, deque()).append(entry)
                keys.append(key)
        self._groups.append(keys)

    def _key(self, shape: PodShape) -> ClassKey | None:
        level = self._level(shape)
        options = self._root.narrow(level.alternatives[0]) if level is not None else ""
        if isinstance(options, str):
            return None
        need = [0] * self._root.net.shape[1]
        for column, amount in shape.need:
            need[column] = amount
        return options, tuple(need)

    def nodes(self, node_cost: float) -> Iterator[ProposedNode]:
        """The nodes that are cheapest for these pods. Each costs `node_cost` more than its price."""
        numbers, groups = self._counts()
        if not numbers:
            return
        queues: list[deque[Entry]] = [deque() for _ in groups.T]
        for key, pods in self._pods.items():
            queues[numbers[key]].extend(pods)
        try:
            for column in cheapest_nodes(self._packing(numbers, groups, node_cost), np.unique(groups, axis=0)):
                taken = zip(queues, column, strict=True)
                chosen = tuple(queue.popleft() for queue, count in taken for _ in range(count))
                yield ProposedNode(self._root.type_table, chosen)
        except BoundUnavailable:
            return  # the pods that are left are placed one by one

    def _counts(self) -> tuple[dict[ClassKey, int], Counts]:
        """The number of the class of each key, and the pods of each class by group."""
        merged = self._merged()
        order = {key: number for number, key in enumerate(dict.fromkeys(merged.values()))}
        numbers = {key: order[merged[key]] for key in self._pods}
        groups = np.zeros((len(self._groups), len(order)), dtype=np.int64)
        for group, keys in enumerate(self._groups):
            for key in keys:
                groups[group, numbers[key]] += 1
        return numbers, groups

    def _merged(self) -> dict[ClassKey, ClassKey]:
        """The class that each class becomes part of, so that there are at most `MOST_CLASSES`, if that is possible."""
        merged = {key: key for key in self._pods}
        parts, largest = FINEST, self._root.net.max(axis=0).tolist()
        while len({*merged.values()}) > MOST_CLASSES and parts >= COARSEST:
            steps = [max(1, most // parts) for most in largest]
            merged = {key: (key[0], _rounded_up(key[1], steps)) for key in self._pods}
            parts //= 2
        return merged

    def _packing(self, numbers: dict[ClassKey, int], groups: Counts, node_cost: float) -> Packing:
        """The classes with the largest requests of their keys, and the offers that admit all their keys."""
        table = self._root.type_table
        needs = np.zeros((groups.shape[1], self._root.net.shape[1]), dtype=np.int64)
        admitted = np.ones((groups.shape[1], len(table.offerings)), dtype=np.bool_)
        for key, number in numbers.items():
            needs[number] = np.maximum(needs[number], key[1])
            admitted[number] &= key[0].offerings
        sizes = table.net[table.type_of]
        if self._root.diversity:
            admitted &= [bool(self._root.left(size)) for size in sizes.tolist()]
        offers = cheapest_alike(table.price, admitted, sizes)
        sizes = sizes[offers]
        allowed = admitted[:, offers] & (sizes[None, :, :] >= needs[:, None, :]).all(axis=2)
        demand = np.where(allowed.any(axis=1), groups.sum(axis=0), 0)  # the rest is placed one by one
        return Packing(needs, demand, sizes, table.price[offers] + node_cost, allowed).undominated()


def _rounded_up(need: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    return tuple(-(-amount // step) * step for amount, step in zip(need, steps, strict=True))
