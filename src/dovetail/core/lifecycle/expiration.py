"""Hard expiration: when a NodeClaim's life is over, whatever runs on it.

`spec.expireAfter` of the claim, counted from its creation and due at equality. No budget is asked and no replacement
awaited; the drain that follows still honours budgets and protection until the claim's own deadline. The voluntary
expiration of a NodePool is another thing: see the disruption methods.
"""

from datetime import datetime

from dovetail.model.instants import add
from dovetail.model.nodeclaim import NodeClaim


def expires_at(claim: NodeClaim) -> datetime | None:
    """The instant the claim is due, or None for never."""
    after, created_at = claim.spec.expire_after, claim.metadata.creation_timestamp
    if after is None or after.span is None or created_at is None:
        return None
    return add(created_at, after.span)
