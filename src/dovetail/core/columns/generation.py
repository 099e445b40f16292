"""Column generation: few columns that cover the pods of a packing with nodes at nearly the least cost.

1. A linear program covers all pods with columns, of which fractions may be used. Its dual prices say what a pod of
   each class costs. The knapsacks of these prices are columns whose pods cost more than their node; they are added, and
   the program is solved again, until there are none or `ROUNDS` is reached.
2. Diving: columns that are used at least once are taken as often as whole numbers allow, otherwise the one that is used
   most is taken once. The program is solved again for the pods that are left, with new columns for them.

The work is limited by counts, never by time, so that equal input gives equal output. Where the limit ends the dive,
some pods are not covered.
"""

from collections.abc import Iterator

import numpy as np

from dovetail.core.columns.knapsack import Knapsacks
from dovetail.core.columns.packing import Packing
from dovetail.core.cost_floor.linear_program import Array, Counts, CoveringProgram

ROUNDS = 40
"""The most rounds of new columns before the dive."""
ROUNDS_OF_DIVE = 2
"""The most rounds of new columns at each step of the dive."""
STEPS = 200
"""The most steps of the dive."""
PER_ROUND = 30
"""The most columns that a round adds."""
MOST_CELLS = 4_000_000
"""The most cells of knapsacks that are computed for one packing."""
WHOLE = 1e-6
LEAST_SAVING = 1e-6
"""The least that a new column saves, as a share of the highest price."""


def cheapest_nodes(packing: Packing, known: Counts) -> Iterator[Counts]:
    """Columns that together cover the packing. `known` are columns that cover it already, at a higher cost.

    Yields the pods of one node at a time, and no pod twice.
    """
    generation = _Generation(packing, known)
    demand = packing.demand.copy()
    generation.generate(demand, ROUNDS)
    for _ in range(STEPS):
        if not demand.any():
            return
        columns, times = generation.choose(demand)
        for column, number in zip(columns, times, strict=True):
            for _ in range(number):
                pods = np.minimum(column, demand)
                if pods.any():
                    demand = demand - pods
                    yield pods


class _Generation:
    """The columns of a packing, and the program that chooses among them."""

    def __init__(self, packing: Packing, known: Counts) -> None:
        self._packing = packing
        self._knapsacks = Knapsacks(packing)
        self._program = CoveringProgram(len(packing.demand))
        self._columns: list[Counts] = []
        self._seen: set[bytes] = set()
        self._cells = 0
        self._least_saving = LEAST_SAVING * float(packing.prices.max())
        singles = np.eye(len(packing.demand), dtype=np.int64)
        self._add(known, packing.prices_of(known))
        self._add(singles, packing.prices_of(singles))

    def generate(self, demand: Counts, rounds: int) -> Array:
        """Add columns in rounds; how often each column is used for these pods."""
        used, values = self._program.cover(demand)
        for _ in range(rounds):
            self._cells += self._knapsacks.cells(demand)
            if self._cells > MOST_CELLS or not self._improve(demand, values):
                break
            used, values = self._program.cover(demand)
        return used

    def choose(self, demand: Counts) -> tuple[list[Counts], list[int]]:
        """The next nodes of the dive, and how often each is taken."""
        used = self.generate(demand, ROUNDS_OF_DIVE)
        whole = np.floor(used + WHOLE).astype(np.int64)
        if not whole.any():
            whole[np.argmax(used)] = 1
        chosen = np.flatnonzero(whole)
        return [self._columns[each] for each in chosen], whole[chosen].tolist()

    def _improve(self, demand: Counts, values: Array) -> bool:
        """Add the columns that lower the cost most; whether there are any."""
        columns = self._knapsacks.fill(values, demand)
        prices = self._packing.prices[self._knapsacks.offer_of]
        saved = columns @ values - prices
        best = np.argsort(-saved, kind="stable")
        best = best[saved[best] > self._least_saving]
        _, first = np.unique(columns[best], axis=0, return_index=True)
        best = best[np.sort(first)][:PER_ROUND]
        return self._add(columns[best], prices[best])

    def _add(self, columns: Counts, prices: Array) -> bool:
        new = [at for at, each in enumerate(columns) if each.tobytes() not in self._seen and np.isfinite(prices[at])]
        if new:
            self._seen.update(columns[at].tobytes() for at in new)
            self._columns.extend(columns[new])
            self._program.add(columns[new], prices[new])
        return bool(new)
