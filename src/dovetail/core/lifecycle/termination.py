"""By when the drain of a NodeClaim's node has to be over, whatever is still on it: an annotation on the claim.

Whoever wants a drain to end sooner writes an earlier instant; nobody puts one off. Semantics are Karpenter's.

`terminationGracePeriod`: from the deletion of a NodeClaim on, its node has this long to become empty.

Whether the drain of a node that somebody deleted evicts pods protected by `karpenter.sh/do-not-disrupt`.

Deleting a Node is an involuntary event that cannot be delayed: without a terminationGracePeriod its protected pods are
evicted like the others, and only PodDisruptionBudgets hold. Deleting a NodeClaim or a NodePool waits for them. The
setting `--manual-deletion` replaces both rules by one. What was decided is written on the NodeClaim before the drain
begins, so a restart, `explain` and the dashboard read the same answer.
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
    """The instant on record. One that nobody can read, or that names no zone, is as good as none."""
    written = claim.metadata.annotations.get(TERMINATION_TIMESTAMP, "")
    try:
        deadline = datetime.fromisoformat(written)
        return deadline.astimezone(UTC) if deadline.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def deadline_patch(claim: NodeClaim, wanted: datetime) -> dict[str, Any]:
    """What to write so that the drain is over by then; empty where it has to be already."""
    written = read_deadline(claim)
    if written is not None and written <= wanted:
        return {}
    stamp = instants.stamp(wanted)
    return {"metadata": {"annotations": {TERMINATION_TIMESTAMP: stamp}}}


def grace_period_patch(claim: NodeClaim) -> dict[str, Any]:
    """The deadline a deleted claim still has to be given; empty when nothing bounds it, or it has one by then."""
    period, deleted_at = claim.spec.termination_grace_period, claim.metadata.deletion_timestamp
    if period is None or deleted_at is None:
        return {}
    return deadline_patch(claim, add(deleted_at, period.span))


EVICT = "evict"
WAIT = "wait"


def manual_deletion_patch(claim: NodeClaim, deleted: Literal["Node", "NodeClaim"], rule: str) -> dict[str, Any]:
    """What to write on the claim of a deleted node; empty where its protected pods are waited for."""
    if rule == WAIT or (deleted == "NodeClaim" and (rule != EVICT or not _is_manual(claim))):
        return {}
    if EVICT_PROTECTED in claim.metadata.annotations:
        return {}
    return {"metadata": {"annotations": {EVICT_PROTECTED: "true"}}}


def mark_manual_deletion(claim: NodeClaim, rule: str) -> NodeClaim:
    """The claim as it would be if its Node were deleted by hand now."""
    patch = manual_deletion_patch(claim, "Node", rule)
    annotations = {**claim.metadata.annotations, **(patch["metadata"]["annotations"] if patch else {})}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


def evicts_protected(claim: NodeClaim | None) -> bool:
    """Whether the drain of this claim's node evicts protected pods now. A bounded drain waits for its deadline."""
    if claim is None or claim.spec.termination_grace_period is not None or read_deadline(claim) is not None:
        return False
    return claim.metadata.annotations.get(EVICT_PROTECTED) == "true"


def _is_manual(claim: NodeClaim) -> bool:
    """Whether neither a disruption command nor expiration deleted the claim."""
    deleted_at, due_at = claim.metadata.deletion_timestamp, expires_at(claim)
    expired = deleted_at is not None and due_at is not None and due_at <= deleted_at
    return read_record(claim) is None and not expired
