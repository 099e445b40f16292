"""The limits of a NodePool hold for all its nodes together, those on their way out left aside.

Judged when an instance is launched, by the loosest limits written since its claim was made. What a command buys comes
in exchange for what it removes: the two count once, as the larger. A pool that was above a lowered limit already may
exchange its nodes, as long as that makes it no larger.
"""

from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.quantity import ZERO, Quantity
from dovetail.model.resources import NODES, Resources, add, subtract
from dovetail.sim.faults.laws.base import Law


class LimitsHold(Law):
    """No pool grows beyond its limits."""

    name = "limits of NodePools are kept"

    def claim_changed(self, before: NodeClaim | None, after: NodeClaim) -> None:
        """An instance may have been launched."""
        launched = bool(after.status.capacity) and (before is None or not before.status.capacity)
        if not launched or after.deleting:
            return
        pool = after.nodepool_name
        used, before_launch = self._used(pool), self._used(pool, without=after.name)
        born_at = self.history.claims[after.name].born_at
        versions = self.history.versions(pool, born_at - self.history.stale)
        for resource in {name for version in versions for name in version.spec.limits}:
            if any(resource not in version.spec.limits for version in versions):
                continue
            limit = max(version.spec.limits[resource] for version in versions)
            if used.get(resource, ZERO) > max(limit, before_launch.get(resource, ZERO)):
                self.broken(f"{pool}: {after.name} makes it {used[resource]} of {resource}, and {limit} is the limit")

    def _used(self, pool: str, without: str = "") -> Resources:
        """What the claims of a pool have that stay, less what they have twice because a command exchanges it."""
        size_by_claim = {
            each.value.name: _size(each.value)
            for each in self.history.of_pool(pool)
            if not each.value.deleting and each.value.name != without
        }
        used = add(*size_by_claim.values())
        for command in self.history.commands.values():
            removed = add(*(size_by_claim[name] for name in command.candidates if name in size_by_claim))
            bought = add(*(size_by_claim[name] for name in command.replacements if name in size_by_claim))
            used = subtract(used, {name: min(removed[name], bought[name]) for name in removed.keys() & bought.keys()})
        return used


def _size(claim: NodeClaim) -> Resources:
    return {**claim.status.capacity, NODES: Quantity.of(1)}
