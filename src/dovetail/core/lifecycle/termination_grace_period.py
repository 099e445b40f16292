"""`terminationGracePeriod`: from the deletion of a NodeClaim on, its node has this long to become empty."""

from typing import Any

from dovetail.core.lifecycle.termination_deadline import deadline_patch
from dovetail.model.instants import add
from dovetail.model.nodeclaim import NodeClaim


def grace_period_patch(claim: NodeClaim) -> dict[str, Any]:
    """The deadline a deleted claim still has to be given; empty when nothing bounds it, or it has one by then."""
    period, deleted_at = claim.spec.termination_grace_period, claim.metadata.deletion_timestamp
    if period is None or deleted_at is None:
        return {}
    return deadline_patch(claim, add(deleted_at, period.span))
