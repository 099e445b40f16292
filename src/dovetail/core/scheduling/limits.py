"""What the limits of each NodePool still leave to buy.

While a run opens drafts it does not know yet which type each becomes, so it spends the largest one: limits hold
whatever the provider picks. `nodes` counts too, also within one run.
"""

from dataclasses import dataclass

from dovetail.core.scheduling.template import Choice
from dovetail.model.quantity import ZERO, Quantity
from dovetail.model.resources import NODES, Resources, maximum
from dovetail.model.snapshot import Snapshot

ONE = Quantity.of(1)


@dataclass
class Limits:
    """Remaining amounts by pool, for the resources that pool limits."""

    remaining: dict[str, dict[str, Quantity]]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Limits":
        """What is left now."""
        remaining = {}
        for name, pool in snapshot.nodepools.items():
            used = snapshot.usage(name)
            remaining[name] = {
                resource: limit - used.get(resource, ZERO) for resource, limit in pool.spec.limits.items()
            }
        return cls(remaining)

    def allowed(self, pool: str, choices: tuple[Choice, ...]) -> tuple[tuple[Choice, ...], str]:
        """The types that stay within the limits, and why there are none if so."""
        left = self.remaining.get(pool, {})
        if NODES in left and left[NODES] < ONE:
            return (), "node limits have been exhausted for nodepool"
        kept = tuple(each for each in choices if _within(each.type.capacity, left))
        if kept:
            return kept, ""
        if choices:
            return (), "all available instance types exceed limits for nodepool"
        return (), "nodepool requirements filtered out all available instance types"

    def spend(self, pool: str, choices: tuple[Choice, ...]) -> None:
        """Count a new draft against the limits at its largest."""
        left = self.remaining.get(pool, {})
        largest: Resources = {NODES: ONE}
        for each in choices:
            largest = maximum(largest, each.type.capacity)
        for resource in left:
            left[resource] = left[resource] - largest.get(resource, ZERO)


def _within(capacity: Resources, left: Resources) -> bool:
    return all(capacity.get(resource, ZERO) <= amount for resource, amount in left.items() if resource != NODES)
