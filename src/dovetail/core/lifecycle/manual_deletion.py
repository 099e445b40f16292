"""Whether the drain of a node that somebody deleted evicts pods protected by `karpenter.sh/do-not-disrupt`.

Deleting a Node is an involuntary event that cannot be delayed: without a terminationGracePeriod its protected pods are
evicted like the others, and only PodDisruptionBudgets hold. Deleting a NodeClaim or a NodePool waits for them. The
setting `--manual-deletion` replaces both rules by one. What was decided is written on the NodeClaim before the drain
begins, so a restart, `explain` and the dashboard read the same answer.
"""

from typing import Any, Literal

import msgspec

from dovetail.core.lifecycle.expiration import expires_at
from dovetail.core.lifecycle.termination_deadline import read_deadline
from dovetail.model.command import read_record
from dovetail.model.labels import EVICT_PROTECTED
from dovetail.model.nodeclaim import NodeClaim

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
