"""A disruption that is decided: which nodes go, for which reason, and what replaces them. All or nothing.

A command is recorded on the NodeClaims it touches before anything is done, so that whoever leads next can finish it or
take it back. The record is small: what it is called, why, when it began, and how many replacements it needs.
"""

from typing import NamedTuple

import msgspec

from dovetail.model.kube_object import ApiStruct, Instant
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.reason import Reason

RECORD_ANNOTATION = "dovetail.sh/command"
REPLACES_ANNOTATION = "dovetail.sh/replaces"


class CommandRecord(ApiStruct, frozen=True, kw_only=True):
    """What stands on each NodeClaim that a command takes away. Once `committed`, there is no way back."""

    id: str
    reason: Reason
    started_at: Instant
    candidates: int
    replacements: int
    committed: bool = False
    method: str = ""
    cost_before: float = 0.0  # an hour, of the nodes that go
    cost_after: float = 0.0  # an hour, of what replaces them, as planned


class CommandState(NamedTuple):
    """A command as the API objects tell it."""

    record: CommandRecord
    candidates: tuple[NodeClaim, ...]
    replacements: tuple[NodeClaim, ...]


def taken_by(claim: NodeClaim) -> CommandRecord | None:
    """The command that deletes this claim: one that is only on its way there takes nothing yet."""
    record = read_record(claim)
    return record if record is not None and record.committed else None


def read_record(claim: NodeClaim) -> CommandRecord | None:
    """The command that is taking this claim away, if any. A record nobody can read is as good as none."""
    written = claim.metadata.annotations.get(RECORD_ANNOTATION)
    if not written:
        return None
    try:
        return msgspec.json.decode(written, type=CommandRecord)
    except (ValueError, RecursionError):
        return None


def write_record(record: CommandRecord) -> str:
    """The record as it stands in the annotation."""
    return msgspec.json.encode(record).decode()
