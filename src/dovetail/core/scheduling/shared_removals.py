"""Removals that end the same because nodes have equal pods.

Large clusters have many nodes of one price with equal pods. If such a node is full for each of its pods, it is no
candidate row of theirs, so its removal leaves the rows that could take them as they are: the pods are placed on the
same rows whichever of these nodes is removed. Only one removal of them is simulated.

The key is a value: the price, and for each run of plain pods the number of its candidate array in the problem (which
stands for tolerations, node alternatives and size class), the need, and the number of pods. An answer is the kind of
removal, the position of the blocking pod in the queue and the rows that take pods, and holds while the simulation is
unchanged. Replacements are not shared: a draft names its pods.
"""

from typing import Literal

from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.removal import PlainRun, PodsToReschedule, Removal
from dovetail.core.scheduling.resource_vector import Need, fits

RunKey = tuple[tuple[int, Need, int], ...]
"""For each run: the number of its candidate array, the need of a pod, and how many pods it has."""


class SharedRemovals:
    """Answers about nodes with equal pods, for one state of a simulation."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._answers: dict[tuple[RunKey, float | None], tuple[Literal["delete", "stay"], int, tuple[int, ...]]] = {}

    def clear(self) -> None:
        """Forget all answers, because the simulation changed."""
        self._answers.clear()

    def key(self, row: int, pods: PodsToReschedule) -> RunKey | None:
        """The key of a row, valid until its pods change; None if no other row has to end like it."""
        if self._problem.limits.remaining:
            return None  # what may be launched depends on the size of the removed node
        key: list[tuple[int, Need, int]] = []
        free = self._problem.free[row]
        for step in pods.steps:
            if not isinstance(step, PlainRun) or fits(free, step.shape.need):
                return None
            key.append((step.group, step.shape.need, len(step.entries)))
        return tuple(key)

    def find(self, key: RunKey, pods: PodsToReschedule, price: float | None) -> Removal | None:
        """The removal of a node whose equal was simulated; None if none was."""
        known = self._answers.get((key, price))
        if known is None:
            return None
        kind, position, rows = known
        return Removal(kind, price, blocker=pods.queue[position][0] if position >= 0 else None, rows=rows)

    def keep(self, key: RunKey, pods: PodsToReschedule, removal: Removal) -> None:
        """Keep the answer for equal nodes."""
        if removal.kind == "replace":
            return
        position = next((at for at, (pod, _) in enumerate(pods.queue) if pod is removal.blocker), -1)
        self._answers[key, removal.price] = removal.kind, position, removal.rows
