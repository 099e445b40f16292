"""What the limits of each NodePool still leave to buy.

While a run opens drafts it does not know yet which type each becomes, so it spends the largest one: limits hold
whatever the provider picks. `nodes` counts too, also within one run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.core.scheduling.template import Choice
from dovetail.model.quantity import ZERO, Quantity
from dovetail.model.resources import NODES, Resources, maximum
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

    def allowed(self, pool: str, choices: Sequence[Choice]) -> list[bool] | None:
        """Which types stay within the limits; None where nothing is limited."""
        left = self.remaining.get(pool)
        if not left:
            return None
        return [_within(each.type.capacity, left) for each in choices]

    def limited(self, pool: str) -> bool:
        """Whether the pool has limits at all."""
        return bool(self.remaining.get(pool))

    def spend(self, pool: str, choices: Sequence[Choice]) -> None:
        """Count a new draft against the limits at its largest."""
        left = self.remaining.get(pool, {})
        largest: Resources = {NODES: ONE}
        for each in choices:
            largest = maximum(largest, each.type.capacity)
        for resource in left:
            left[resource] = left[resource] - largest.get(resource, ZERO)


def _within(capacity: Resources, left: Resources) -> bool:
    return all(capacity.get(resource, ZERO) <= amount for resource, amount in left.items() if resource != NODES)
