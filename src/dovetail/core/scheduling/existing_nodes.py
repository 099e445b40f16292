"""Existing nodes as rows, and boolean masks over them.

Rows are sorted by initialized first, then name: the order in which placement tries them. A NodeClaim without an
instance is a row as well. The values of one label are stored as an array of ids into its distinct values, so a
requirement is evaluated once for each distinct value and becomes a mask over all rows. Taints work the same way. Masks
are computed once for each distinct input and shared.

A NodeClaim that is not launched has requirements and no labels yet; it is in a mask only if every node it can become
meets the requirement. Rows keep their position while a simulation is updated.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.node_affinity import NODE_NAME, Alternative
from dovetail.model.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE
from dovetail.model.requirements import NORMALIZED_LABELS, Requirement
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import PREFER_NO_SCHEDULE, Taint, Toleration, untolerated

Mask = npt.NDArray[np.bool_]

_SPELLINGS: dict[str, tuple[str, ...]] = {
    key: (key, *(old for old, new in NORMALIZED_LABELS.items() if new == key))
    for key in sorted(set(NORMALIZED_LABELS.values()))
}
"""For each label that has deprecated keys, all its keys, the current one first."""


PRICE_LABELS = (NODEPOOL, INSTANCE_TYPE, ZONE, CAPACITY_TYPE)
"""The labels by which a node's offering is found in the catalog."""


class Labels:
    """The values of one label over all rows: distinct values, and the id of each row's value (-1: none)."""

    def __init__(self, key: str, nodes: Sequence[ClusterNode]) -> None:
        numbers: dict[str, int] = {}
        ids = []
        for node in nodes:
            value = _label(node, key)
            ids.append(-1 if value is None else numbers.setdefault(value, len(numbers)))
        self.distinct = tuple(numbers)
        self.ids = np.array(ids, dtype=np.int32)
        self.values: list[str | None] = [None if index < 0 else self.distinct[index] for index in ids]

    def admitted(self, wanted: Requirement) -> Mask:
        """The rows whose label meets the requirement."""
        table = [wanted.has(value) for value in self.distinct]
        return np.array([*table, wanted.tolerates_absence], dtype=np.bool_)[self.ids]


def _label(node: ClusterNode, key: str) -> str | None:
    if key == NODE_NAME:
        return node.name if node.node is not None else None
    value = next((node.labels[name] for name in _SPELLINGS.get(key, (key,)) if name in node.labels), None)
    if value is None and not node.launched:
        value = node.requirements.labels().get(key)
    return node.name if value is None and key == HOSTNAME else value


class ExistingNodes:
    """The nodes that may take pods, in the order they are tried.

    With `include_deleting`, nodes that are being deleted and still exist come last (`deleting_rows`): they take no
    pods, but their pods count for topology.
    """

    def __init__(self, nodes: Sequence[ClusterNode], *, include_deleting: bool = False) -> None:
        staying = [node for node in nodes if not node.leaving]
        staying.sort(key=lambda node: (not node.initialized, node.name))
        deleting = [node for node in nodes if is_deleting_and_present(node)] if include_deleting else []
        deleting.sort(key=lambda node: node.name)
        self.nodes = (*staying, *deleting)
        self.deleting_rows = range(len(staying), len(self.nodes))
        self.row_by_name = {node.name: row for row, node in enumerate(self.nodes)}
        self.taints = [node.all_taints for node in self.nodes]
        self.unlaunched_rows = [row for row, node in enumerate(self.nodes) if not node.launched]
        self._labels: dict[str, Labels] = {}
        self._met: dict[tuple[Alternative, ...], Mask] = {}
        self._tolerated: dict[tuple[tuple[Toleration, ...], bool], Mask] = {}
        distinct = {taints: index for index, taints in enumerate(dict.fromkeys(self.taints))}
        self._distinct_taints = tuple(distinct)
        self._taint_ids = np.array([distinct[taints] for taints in self.taints], dtype=np.int32)

    def __len__(self) -> int:
        return len(self.nodes)

    def replace(self, row: int, node: ClusterNode) -> None:
        """Replace the node of a row by the same node with other pods, or other values of labels that were not read."""
        self.nodes = (*self.nodes[:row], node, *self.nodes[row + 1 :])

    @property
    def has_soft_taints(self) -> bool:
        """Whether any node has a PreferNoSchedule taint."""
        return any(taint.effect == PREFER_NO_SCHEDULE for taints in self._distinct_taints for taint in taints)

    def labels(self, key: str) -> Labels:
        """The values of one label."""
        if key not in self._labels:
            self._labels[key] = Labels(key, self.nodes)
        return self._labels[key]

    def same_labels(self, row: int, after: ClusterNode) -> bool:
        """Whether a node has the same values of all labels that were read so far, and of those that decide its price.

        A label that is read later is read from the nodes as they are then.
        """
        before = self.nodes[row]
        return all(_label(before, key) == _label(after, key) for key in {*self._labels, *PRICE_LABELS})

    def meeting(self, alternatives: tuple[Alternative, ...]) -> Mask:
        """The rows that match some alternative; a NodeClaim that is not launched must match whatever it becomes."""
        if alternatives not in self._met:
            met = np.zeros(len(self.nodes), dtype=np.bool_)
            for alternative in alternatives:
                met |= self._meeting_one(alternative)
            self._met[alternatives] = met
        return self._met[alternatives]

    def _meeting_one(self, alternative: Alternative) -> Mask:
        met = np.ones(len(self.nodes), dtype=np.bool_)
        for expression in alternative.expressions:
            met &= self.labels(expression.key).admitted(expression)
        for row in self.unlaunched_rows:
            met[row] = alternative.always_matches(self.nodes[row].requirements)
        return met

    def tolerated(self, tolerations: tuple[Toleration, ...], *, soft: bool) -> Mask:
        """The rows whose taints are all tolerated; with `soft`, PreferNoSchedule counts as tolerated."""
        if (tolerations, soft) not in self._tolerated:
            table = [
                untolerated(tolerations, hard(taints) if soft else taints) is None for taints in self._distinct_taints
            ]
            self._tolerated[tolerations, soft] = np.array([*table, True], dtype=np.bool_)[self._taint_ids]
        return self._tolerated[tolerations, soft]


def is_deleting_and_present(node: ClusterNode) -> bool:
    """Whether a node is being deleted and still exists, so that the scheduler still counts it."""
    return node.node is not None and node.leaving


def hard(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints without PreferNoSchedule."""
    return tuple(taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE)
