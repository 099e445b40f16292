"""The limits of a NodePool hold for all its nodes together, those on their way out left aside.

Judged when an instance is launched, by the loosest limits written since its claim was made. What a command buys comes
in exchange for what it removes: the two count once, as the larger. A pool that was above a lowered limit already may
exchange its nodes, as long as that makes it no larger.
"""

from collections.abc import Iterable
from decimal import Decimal

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import ClaimView
from dovetail.sim.torture.invariants.readers import quantity

Sizes = dict[str, Decimal]


class LimitsHold(Invariant):
    """No pool grows beyond its limits."""

    name = "limits of NodePools are kept"

    def claim_changed(self, before: ClaimView | None, after: ClaimView) -> None:
        """An instance may have been launched."""
        launched = bool(after.capacity) and (before is None or not before.capacity)
        if not launched or after.deleting:
            return
        born_at = self.history.claims[after.name].born_at
        versions = self.history.versions(after.pool, born_at - self.history.stale)
        limits = [version["spec"].get("limits") or {} for version in versions]
        everywhere = set.intersection(*map(set, limits)) if limits else set[str]()
        if not everywhere:
            return
        used, before_launch = self._used(after.pool), self._used(after.pool, without=after.name)
        for resource in sorted(everywhere):
            limit = max(quantity(each[resource]) for each in limits)
            if used.get(resource, Decimal()) > max(limit, before_launch.get(resource, Decimal())):
                made = f"{after.name} makes it {used[resource]} of {resource}"
                self.broken(f"{after.pool}: {made}, and {limit} is the limit")

    def _used(self, pool: str, without: str = "") -> Sizes:
        """What the claims of a pool have that stay, less what they have twice because a command exchanges it."""
        size_by_claim = {
            each.value.name: _size(each.value)
            for each in self.history.of_pool(pool)
            if not each.value.deleting and each.value.name != without
        }
        used = _sum(size_by_claim.values())
        for command in self.history.commands.values():
            removed = _sum(size_by_claim[name] for name in command.candidates if name in size_by_claim)
            bought = _sum(size_by_claim[name] for name in command.replacements if name in size_by_claim)
            for name in removed.keys() & bought.keys():
                used[name] -= min(removed[name], bought[name])
        return used


def _size(claim: ClaimView) -> Sizes:
    return {**{name: quantity(amount) for name, amount in claim.capacity.items()}, "nodes": Decimal(1)}


def _sum(sizes: Iterable[Sizes]) -> Sizes:
    total: Sizes = {}
    for size in sizes:
        for name, amount in size.items():
            total[name] = total.get(name, Decimal()) + amount
    return total
