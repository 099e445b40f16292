"""Hard expiration: a NodeClaim is deleted at the age of its `spec.expireAfter`, whatever runs on it.

No disruption budget applies and no replacement is launched first. The drain that follows respects PDBs and
do-not-disrupt until the deadline of the claim. Soft expiration (`spec.disruption.expireAfter`) is a disruption method.

Nodes of a static NodePool (`spec.replicas`) do not expire: static NodePools are not scaled, so the node would be lost.
"""

from datetime import datetime

from dovetail.model.instants import add
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool


def expires_at(claim: NodeClaim, pool: NodePool | None = None) -> datetime | None:
    """When the claim is deleted, or None for never. `pool` is its NodePool, if that exists."""
    after, created_at = claim.spec.expire_after, claim.metadata.creation_timestamp
    if pool is not None and pool.static:
        return None
    if after is None or after.span is None or created_at is None:
        return None
    return add(created_at, after.span)
