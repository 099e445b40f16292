"""What the limits of each NodePool still leave to buy.

While a run opens drafts it does not know yet which type each becomes, so it spends the largest one: limits hold
whatever the provider picks. `nodes` counts too, also within one run.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dovetail.core.scheduling.market import Market, Mask
from dovetail.model.quantity import ZERO, Quantity
from dovetail.model.resources import NODES
from dovetail.model.snapshot import Snapshot

ONE = Quantity.of(1)
EXHAUSTED = "node limits have been exhausted for nodepool"
EXCEEDED = "all available instance types exceed limits for nodepool"


@dataclass
class Limits:
    """Remaining amounts by pool, for the resources that pool limits."""

    remaining: dict[str, dict[str, Quantity]]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Limits":
        """What is left now."""
        remaining = {}
        for name, pool in snapshot.nodepools.items():
            if pool.spec.limits:
                used = snapshot.usage(name)
                remaining[name] = {
                    resource: limit - used.get(resource, ZERO) for resource, limit in pool.spec.limits.items()
                }
        return cls(remaining)

    def copy(self) -> "Limits":
        """A copy to spend from."""
        return Limits({pool: dict(left) for pool, left in self.remaining.items()})

    def exhausted(self, pool: str) -> bool:
        """Whether not even one more node may be made."""
        left = self.remaining.get(pool, {})
        return NODES in left and left[NODES] < ONE

    def allowed(self, market: Market) -> Mask:
        """Which types stay within the limits of their NodePool."""
        within = np.ones(len(market.choices), dtype=np.bool_)
        for resource, left in self.remaining.get(market.template.pool.name, {}).items():
            if resource != NODES:
                within &= market.sizes(resource).within(left)
        return within

    def limited(self, pool: str) -> bool:
        """Whether the pool has limits at all."""
        return bool(self.remaining.get(pool))

    def spend(self, market: Market, types: npt.NDArray[np.intp]) -> None:
        """Count a new draft that may become one of `types` against the limits at its largest."""
        left = self.remaining.get(market.template.pool.name, {})
        for resource in left:
            left[resource] -= ONE if resource == NODES else market.sizes(resource).largest(types)
