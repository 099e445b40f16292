"""Existing nodes as rows, and masks over them.

Rows are sorted by initialized first, then name: the order in which placement tries them. A NodeClaim without an
instance is a row as well. The values of one label are stored as an array of ids into its distinct values, so a
requirement is evaluated once for each distinct value and becomes a boolean mask over all rows. Taints work the same
way. Masks are computed once for each distinct question and shared.

A NodeClaim that is not launched has requirements and no labels yet; it is in a mask only if every outcome meets the
requirement. Rows keep their position while a simulation is updated.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.node_affinity import NODE_NAME, Alternative
from dovetail.model.labels import HOSTNAME
from dovetail.model.requirements import NORMALISED_LABELS, Requirement
from dovetail.model.snapshot import ClusterNode
from dovetail.model.taints import Taint, Toleration, untolerated

Mask = npt.NDArray[np.bool_]
SOFT = "PreferNoSchedule"


_SPELLINGS: dict[str, tuple[str, ...]] = {
    key: (key, *(old for old, new in NORMALISED_LABELS.items() if new == key))
    for key in sorted(set(NORMALISED_LABELS.values()))
}
"""Labels that are also written in an older way."""


class Labels:
    """The values of one label over all rows: distinct values, and the id of each row's value (-1: none)."""

    def __init__(self, key: str, existing_nodes: Sequence[ClusterNode]) -> None:
        numbers: dict[str, int] = {}
        ids = []
        for node_row in existing_nodes:
            value = _label(node_row, key)
            ids.append(-1 if value is None else numbers.setdefault(value, len(numbers)))
        self.distinct = tuple(numbers)
        self.ids = np.array(ids, dtype=np.int32)
        self.values: list[str | None] = [None if index < 0 else self.distinct[index] for index in ids]

    def admitted(self, wanted: Requirement) -> Mask:
        """The rows whose label meets the requirement."""
        table = [wanted.has(value) for value in self.distinct]
        return np.array([*table, wanted.tolerates_absence], dtype=np.bool_)[self.ids]


def _label(node_row: ClusterNode, key: str) -> str | None:
    if key == NODE_NAME:
        return node_row.name if node_row.node is not None else None
    value = next((node_row.labels[name] for name in _SPELLINGS.get(key, (key,)) if name in node_row.labels), None)
    if value is None and not node_row.launched:
        value = node_row.requirements.labels().get(key)
    return node_row.name if value is None and key == HOSTNAME else value


class ExistingNodes:
    """The nodes that may take pods, in the order they are tried.

    With `standing`, nodes that are being deleted and still exist come last: they take no pods, but their pods count.
    """

    def __init__(self, nodes: Sequence[ClusterNode], *, standing: bool = False) -> None:
        staying = [node for node in nodes if not node.leaving]
        staying.sort(key=lambda node: (not node.initialized, node.name))
        going = [node for node in nodes if still_standing(node)] if standing else []
        going.sort(key=lambda node: node.name)
        self.nodes = (*staying, *going)
        self.going = range(len(staying), len(self.nodes))
        self.row_by_name = {node.name: row for row, node in enumerate(self.nodes)}
        self.taints = [node.all_taints for node in self.nodes]
        self.undecided = [row for row, node in enumerate(self.nodes) if not node.launched]
        self._labels: dict[str, Labels] = {}
        self._met: dict[tuple[Alternative, ...], Mask] = {}
        self._tolerated: dict[tuple[tuple[Toleration, ...], bool], Mask] = {}
        distinct = {taints: index for index, taints in enumerate(dict.fromkeys(self.taints))}
        self._distinct_taints = tuple(distinct)
        self._taint_ids = np.array([distinct[taints] for taints in self.taints], dtype=np.int32)

    def __len__(self) -> int:
        return len(self.nodes)

    def replace(self, row: int, node: ClusterNode) -> None:
        """The same node with other pods."""
        self.nodes = (*self.nodes[:row], node, *self.nodes[row + 1 :])

    @property
    def has_soft_taints(self) -> bool:
        """Whether any node has a PreferNoSchedule taint."""
        return any(taint.effect == SOFT for taints in self._distinct_taints for taint in taints)

    def labels(self, key: str) -> Labels:
        """The values of one label."""
        if key not in self._labels:
            self._labels[key] = Labels(key, self.nodes)
        return self._labels[key]

    def meeting(self, alternatives: tuple[Alternative, ...]) -> Mask:
        """The rows that meet some alternative, whatever they become."""
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
        for row in self.undecided:
            met[row] = alternative.surely(self.nodes[row].requirements)
        return met

    def tolerated(self, tolerations: tuple[Toleration, ...], *, soft: bool) -> Mask:
        """The rows whose taints are all tolerated; with `soft`, PreferNoSchedule counts as tolerated."""
        if (tolerations, soft) not in self._tolerated:
            table = [
                untolerated(tolerations, hard(taints) if soft else taints) is None for taints in self._distinct_taints
            ]
            self._tolerated[tolerations, soft] = np.array([*table, True], dtype=np.bool_)[self._taint_ids]
        return self._tolerated[tolerations, soft]


def still_standing(node: ClusterNode) -> bool:
    """Whether a node is on its way out and the scheduler sees it all the same."""
    return node.node is not None and node.leaving


def hard(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints that keep pods away for good."""
    return tuple(taint for taint in taints if taint.effect != SOFT)
