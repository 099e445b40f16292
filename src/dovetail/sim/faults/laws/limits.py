"""The limits of a NodePool hold for all its nodes together, those on their way out left aside.

Judged when an instance is launched, by the loosest limits written since its claim was made.
"""

from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.quantity import ZERO, Quantity
from dovetail.model.resources import NODES, add
from dovetail.sim.faults.history import STALE
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
        staying = [each.value for each in self.history.of_pool(pool) if not each.value.deleting]
        used = {**add(*(claim.status.capacity for claim in staying)), NODES: Quantity.of(len(staying))}
        born_at = self.history.claims[after.name].born_at
        versions = self.history.versions(pool, born_at - STALE)
        for resource in {name for version in versions for name in version.spec.limits}:
            if any(resource not in version.spec.limits for version in versions):
                continue
            limit = max(version.spec.limits[resource] for version in versions)
            if used.get(resource, ZERO) > limit:
                self.broken(f"{pool}: {after.name} makes it {used[resource]} of {resource}, and {limit} is the limit")
