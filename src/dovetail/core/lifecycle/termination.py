"""Annotations on a NodeClaim that control its drain: the deadline, and whether do-not-disrupt pods are evicted.

The deadline is Karpenter's nodeclaim-termination-timestamp. `terminationGracePeriod` sets it when the claim is deleted;
repair and interruption may set an earlier one. It is never moved to a later time.

Deleting a Node by hand is an involuntary disruption: without a terminationGracePeriod its do-not-disrupt pods are
evicted like the others, and only PDBs apply. Deleting a NodeClaim or a NodePool waits for them. The setting
`--manual-deletion` replaces both rules. The decision is written to the NodeClaim before the drain begins, so that a new
leader, `explain` and the dashboard read the same answer.
"""

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from dovetail.core.lifecycle.expiration import expires_at
from dovetail.model import instants
from dovetail.model.command import read_record
from dovetail.model.instants import add
from dovetail.model.labels import EVICT_PROTECTED, TERMINATION_TIMESTAMP
from dovetail.model.nodeclaim import NodeClaim


def read_deadline(claim: NodeClaim) -> datetime | None:
    """The deadline of the drain; None if it is not set, invalid, or without a time zone."""
    written = claim.metadata.annotations.get(TERMINATION_TIMESTAMP, "")
    try:
        deadline = datetime.fromisoformat(written)
        return deadline.astimezone(UTC) if deadline.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def deadline_patch(claim: NodeClaim, wanted: datetime) -> dict[str, Any]:
    """Sets the deadline; empty if the claim has the same or an earlier one."""
    written = read_deadline(claim)
    if written is not None and written <= wanted:
        return {}
    stamp = instants.stamp(wanted)
    return {"metadata": {"annotations": {TERMINATION_TIMESTAMP: stamp}}}


def grace_period_patch(claim: NodeClaim) -> dict[str, Any]:
    """Sets the deadline of a deleted claim with a terminationGracePeriod; empty if it has one already."""
    period, deleted_at = claim.spec.termination_grace_period, claim.metadata.deletion_timestamp
    if period is None or deleted_at is None:
        return {}
    return deadline_patch(claim, add(deleted_at, period.span))


EVICT = "evict"
WAIT = "wait"


def manual_deletion_patch(claim: NodeClaim, deleted: Literal["Node", "NodeClaim"], rule: str) -> dict[str, Any]:
    """Marks the claim of a deleted node if its do-not-disrupt pods are to be evicted; empty if they are waited for."""
    if rule == WAIT or (deleted == "NodeClaim" and (rule != EVICT or not _is_manual(claim))):
        return {}
    if EVICT_PROTECTED in claim.metadata.annotations:
        return {}
    return {"metadata": {"annotations": {EVICT_PROTECTED: "true"}}}


def mark_manual_deletion(claim: NodeClaim, rule: str) -> NodeClaim:
    """The claim as if its Node were deleted by hand now."""
    patch = manual_deletion_patch(claim, "Node", rule)
    annotations = {**claim.metadata.annotations, **(patch["metadata"]["annotations"] if patch else {})}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


def evicts_protected(claim: NodeClaim | None) -> bool:
    """Whether the drain evicts do-not-disrupt pods. A drain with a deadline does not."""
    if claim is None or claim.spec.termination_grace_period is not None or read_deadline(claim) is not None:
        return False
    return claim.metadata.annotations.get(EVICT_PROTECTED) == "true"


def _is_manual(claim: NodeClaim) -> bool:
    """Whether neither a disruption command nor expiration deleted the claim."""
    deleted_at, due_at = claim.metadata.deletion_timestamp, expires_at(claim)
    expired = deleted_at is not None and due_at is not None and due_at <= deleted_at
    return read_record(claim) is None and not expired
