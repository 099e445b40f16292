"""Hard expiration: a NodeClaim is deleted at the age of its `spec.expireAfter`, whatever runs on it.

No disruption budget applies and no replacement is launched first. The drain that follows respects PDBs and
do-not-disrupt until the deadline of the claim. Soft expiration (`spec.disruption.expireAfter`) is a disruption method.
"""

from datetime import datetime

from dovetail.model.instants import add
from dovetail.model.nodeclaim import NodeClaim


def expires_at(claim: NodeClaim) -> datetime | None:
    """When the claim is deleted, or None for never."""
    after, created_at = claim.spec.expire_after, claim.metadata.creation_timestamp
    if after is None or after.span is None or created_at is None:
        return None
    return add(created_at, after.span)
