"""Disruption commands as they are recorded on NodeClaims: which nodes are removed, for which reason, and how many
replacements they need. A command is executed as a whole or rolled back as a whole.

The record is written to the NodeClaims of a command before anything else is done, so that the next leader can finish
the command or roll it back.
"""

from typing import NamedTuple

import msgspec

from dovetail.model.kube_object import ApiStruct, Instant
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.reason import Reason

RECORD_ANNOTATION = "dovetail.sh/command"
REPLACES_ANNOTATION = "dovetail.sh/replaces"


class CommandRecord(ApiStruct, frozen=True, kw_only=True):
    """The annotation of each NodeClaim that a command removes. Once `committed`, it is not rolled back."""

    id: str
    reason: Reason
    started_at: Instant
    candidates: int
    replacements: int
    committed: bool = False
    method: str = ""
    cost_before: float = 0.0  # dollars per hour of the removed nodes
    cost_after: float = 0.0  # dollars per hour of the planned replacements


class CommandState(NamedTuple):
    """A command, as found on NodeClaims."""

    record: CommandRecord
    candidates: tuple[NodeClaim, ...]
    replacements: tuple[NodeClaim, ...]


def taken_by(claim: NodeClaim) -> CommandRecord | None:
    """The committed command that deletes this claim, or None."""
    record = read_record(claim)
    return record if record is not None and record.committed else None


def read_record(claim: NodeClaim) -> CommandRecord | None:
    """The command that removes this claim, or None. A record that cannot be decoded counts as none."""
    written = claim.metadata.annotations.get(RECORD_ANNOTATION)
    if not written:
        return None
    try:
        return msgspec.json.decode(written, type=CommandRecord)
    except (ValueError, RecursionError):
        return None


def write_record(record: CommandRecord) -> str:
    """The record as the value of the annotation."""
    return msgspec.json.encode(record).decode()
