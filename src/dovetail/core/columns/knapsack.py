"""Knapsacks: for each offer, pods whose values together are as large as possible.

With several resources that is hard, so it is approximated: classes are taken in the order of their value per weighted
use of the offer, as many pods of each as fit. Each offer is filled once for every weighting of the resources (one
resource alone, two in equal parts, all), because which resource is scarce depends on the offer and on the values. All
offers and weightings are filled together, one class after the other.

A fill costs O(classes x offers x weightings x resources); `cells` is that number without the resources.
"""

import numpy as np

from dovetail.core.columns.packing import Packing
from dovetail.core.cost_floor.linear_program import Array, Counts, Positions

LEAST_VALUE = 1e-12
SCALE = 1e-6
"""Added to the use of an offer, so that a pod without requests has a finite value per use."""


class Knapsacks:
    """The knapsacks of a packing."""

    def __init__(self, packing: Packing) -> None:
        self._needs, self._sizes = packing.needs, packing.sizes
        offers, resources = packing.sizes.shape
        weights = _weightings(resources)
        shares = packing.needs[None, :, :] / np.maximum(packing.sizes, 1)[:, None, :]
        uses = np.einsum("onr,wr->won", shares, weights) + SCALE
        self._use = uses.reshape(len(weights) * offers, -1)
        self._allowed = np.tile(packing.allowed.T, (len(weights), 1))
        self.offer_of: Positions = np.tile(np.arange(offers), len(weights))
        """The offer of each row that `fill` returns."""
        self._at_most = np.where(packing.needs > 0, packing.needs, 1)

    def cells(self, most: Counts) -> int:
        """What a fill costs."""
        return int(np.count_nonzero(most)) * len(self._use)

    def fill(self, values: Array, most: Counts) -> Counts:
        """Columns with at most `most` pods of each class, one for each offer and weighting."""
        wanted = (values > LEAST_VALUE) & (most > 0)
        density = np.where(self._allowed & wanted, values / self._use, -1.0)
        order = np.argsort(-density, axis=1, kind="stable")[:, : np.count_nonzero(wanted)]
        left = self._sizes[self.offer_of]
        rows = np.arange(len(left))
        columns = np.zeros((len(left), len(most)), dtype=np.int64)
        for classes in order.T:
            needs = self._needs[classes]
            fitting = np.where(needs > 0, left // self._at_most[classes], most[classes][:, None]).min(axis=1)
            taken = np.where(density[rows, classes] > 0, np.minimum(fitting, most[classes]), 0)
            columns[rows, classes] = taken
            left -= needs * taken[:, None]
        return columns


def _weightings(resources: int) -> Array:
    """Weights of the resources: each alone, each pair in equal parts, all in equal parts."""
    single = np.eye(resources)
    pairs = [(single[one] + single[other]) / 2 for one in range(resources) for other in range(one)]
    weights: Array = np.unique(np.array([*single, *pairs, np.full(resources, 1 / resources)]), axis=0)
    return weights
