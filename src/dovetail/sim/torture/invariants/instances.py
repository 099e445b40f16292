"""The cloud never has two instances for one NodeClaim, by the cloud's own records.

That none is left over in the end is judged once nothing fails any more (`rest`).
"""

from dovetail.sim.cloud.service import InstanceRecord
from dovetail.sim.torture.invariants.base import Invariant


class OneInstanceForAClaim(Invariant):
    """A launch that is repeated finds its instance."""

    name = "one instance for a claim"

    def instance_changed(self, before: InstanceRecord | None, after: InstanceRecord) -> None:
        """An instance may be new."""
        if before is not None or not after.claim_uid:
            return
        same = [each for each in self.history.world.cloud.instances.values() if each.claim_uid == after.claim_uid]
        if sum(each.exists for each in same) > 1:
            self.broken(f"{after.claim} has {len(same)} instances: {', '.join(each.provider_id for each in same)}")
