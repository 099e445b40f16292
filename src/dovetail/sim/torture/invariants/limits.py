"""Invariant: the nodes of a NodePool stay within its limits. Nodes that are being deleted do not count.

Checked when an instance is launched, with the highest limits of the pool since its NodeClaim was created. A command
replaces candidates by replacements, so the two count once, as the larger of them. A pool that already exceeds a lowered
limit may replace nodes as long as that does not make it larger.
"""

from collections.abc import Iterable
from decimal import Decimal

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import ClaimView
from dovetail.sim.torture.invariants.readers import quantity

Capacity = dict[str, Decimal]


class LimitsHold(Invariant):
    """No launch makes a pool exceed its limits."""

    name = "limits of NodePools are never exceeded"

    def claim_changed(self, before: ClaimView | None, after: ClaimView) -> None:
        """Check the limits when the NodeClaim first has a capacity."""
        launched = bool(after.capacity) and (before is None or not before.capacity)
        if not launched or after.deleting:
            return
        created_at = self.observer.claims[after.name].created_at
        versions = self.observer.versions(after.pool, created_at - self.observer.max_staleness)
        limits = [version["spec"].get("limits") or {} for version in versions]
        limited = set.intersection(*map(set, limits)) if limits else set[str]()
        if not limited:
            return
        used, before_launch = self._used(after.pool), self._used(after.pool, without=after.name)
        for resource in sorted(limited):
            limit = max(quantity(each[resource]) for each in limits)
            if used.get(resource, Decimal()) > max(limit, before_launch.get(resource, Decimal())):
                total = f"{after.name} makes it {used[resource]} of {resource}"
                self.report(f"{after.pool}: {total}, and the limit is {limit}")

    def _used(self, pool: str, without: str = "") -> Capacity:
        """The capacity of the claims of a pool that are not being deleted; candidates and replacements count once."""
        capacity_by_claim = {
            each.value.name: _capacity(each.value)
            for each in self.observer.claims_of_pool(pool)
            if not each.value.deleting and each.value.name != without
        }
        used = _sum(capacity_by_claim.values())
        for command in self.observer.commands.values():
            removed, launched = (
                _sum(capacity_by_claim[name] for name in names if name in capacity_by_claim)
                for names in (command.candidates, command.replacements)
            )
            for name in removed.keys() & launched.keys():
                used[name] -= min(removed[name], launched[name])
        return used


def _capacity(claim: ClaimView) -> Capacity:
    return {**{name: quantity(amount) for name, amount in claim.capacity.items()}, "nodes": Decimal(1)}


def _sum(capacities: Iterable[Capacity]) -> Capacity:
    total: Capacity = {}
    for capacity in capacities:
        for name, amount in capacity.items():
            total[name] = total.get(name, Decimal()) + amount
    return total
