"""A packing: classes of equal pods, and the offers of nodes that may hold them, as arrays.

A column is one node: how many pods of each class it has. `prices_of` finds the cheapest offer for a column. Amounts
are whole numbers, so whether pods fit is exact.
"""

from dataclasses import dataclass

import numpy as np

from dovetail.core.cost_floor.linear_program import Array, Counts, Mask, undominated


@dataclass(frozen=True, eq=False)
class Packing:
    """`needs` and `allowed` have a row for each class, `sizes` and `prices` one for each offer."""

    needs: Counts
    demand: Counts
    sizes: Counts
    prices: Array
    allowed: Mask
    """Class by offer: whether an offer admits the class and holds at least one pod of it."""

    def undominated(self) -> "Packing":
        """The same without offers that another dominates: as large, as cheap, and open to the same classes.

        Nodes are whole, so what an offer has per dollar does not decide.
        """
        worth = np.hstack([self.sizes.astype(np.float64), -self.prices[:, None]])
        kept = undominated(self.allowed, worth)
        return Packing(self.needs, self.demand, self.sizes[kept], self.prices[kept], self.allowed[:, kept])

    def prices_of(self, columns: Counts) -> Array:
        """The price of the cheapest offer for each column; infinite if none holds it."""
        totals = columns @ self.needs
        refused = (columns > 0).astype(np.int64) @ (~self.allowed).astype(np.int64)
        holds = (self.sizes[None, :, :] >= totals[:, None, :]).all(axis=2) & (refused == 0)
        prices: Array = np.where(holds, self.prices[None, :], np.inf).min(axis=1)
        return prices
