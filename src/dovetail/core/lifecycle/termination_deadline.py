"""By when the drain of a NodeClaim's node has to be over, whatever is still on it: an annotation on the claim.

Whoever wants a drain to end sooner writes an earlier instant; nobody puts one off. Semantics are Karpenter's.
"""

from datetime import UTC, datetime
from typing import Any

from dovetail.model import instants
from dovetail.model.labels import TERMINATION_TIMESTAMP
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
