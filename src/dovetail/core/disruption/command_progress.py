"""The next step of a running command, derived from API objects: wait, delete the candidates, roll back, or done.

Every NodeClaim that a command deletes carries its `CommandRecord`, and every replacement carries its id. No state that
matters is kept in memory alone, so a new leader reads the same objects and continues or rolls back the command.

`after_failure` is the back-off of a NodePool whose commands fail repeatedly, so that it does not starve the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from dovetail.model.command import RECORD_ANNOTATION, REPLACES_ANNOTATION, CommandRecord, CommandState, read_record
from dovetail.model.nodeclaim import INITIALIZED, REGISTERED, NodeClaim

SHORTEST_TIMEOUT = timedelta(minutes=10)
LONGEST_TIMEOUT = timedelta(hours=1)
PER_CANDIDATE = timedelta(milliseconds=80)
TOO_LATE = "replacements were not ready in time"
OVERTAKEN = "its nodes were deleted before the command deleted them"
BEING_ROLLED_BACK = "the command is being rolled back"
INTERRUPTED = "the controller stopped before the command deleted its nodes"

_COMMAND_ANNOTATIONS = frozenset({RECORD_ANNOTATION, REPLACES_ANNOTATION})


class NextStep(Enum):
    """What to do with a command now."""

    WAIT = auto()  # replacements are not initialized yet
    DELETE = auto()  # all replacements are initialized: delete the candidates
    ROLL_BACK = auto()  # the command cannot be completed
    DONE = auto()  # all candidates are deleted


@dataclass(frozen=True, slots=True)
class ProgressVerdict:
    """The next step of a command, and why."""

    next: NextStep
    why: str = ""


def is_part_of_command(claim: NodeClaim) -> bool:
    """Whether a NodeClaim is a candidate or a replacement of a command."""
    return not _COMMAND_ANNOTATIONS.isdisjoint(claim.metadata.annotations)


def running_commands(claims: Iterable[NodeClaim]) -> dict[str, CommandState]:
    """The commands that are recorded on NodeClaims, by id."""
    marked: dict[str, list[NodeClaim]] = {}
    replacing: dict[str, list[NodeClaim]] = {}
    records: dict[str, CommandRecord] = {}
    for claim in sorted(filter(is_part_of_command, claims), key=lambda claim: claim.name):
        record = read_record(claim)
        if record is not None:
            known = records.get(record.id)
            records[record.id] = known if known is not None and known.committed else record
            marked.setdefault(record.id, []).append(claim)
        replaced = claim.metadata.annotations.get(REPLACES_ANNOTATION)
        if replaced:
            replacing.setdefault(replaced, []).append(claim)
    return {each: CommandState(records[each], tuple(marked[each]), tuple(replacing.get(each, ()))) for each in records}


def judge(state: CommandState, *, planned: bool, now: datetime, ours: bool = True) -> ProgressVerdict:
    """The next step of a command. `planned`: this process has the drafts of its replacements; `ours`: it started it."""
    record = state.record
    if all(claim.deleting for claim in state.candidates):
        return ProgressVerdict(NextStep.DONE, "" if record.committed else OVERTAKEN)
    if record.committed:
        return ProgressVerdict(NextStep.DELETE)
    if len(state.candidates) < record.candidates:
        return ProgressVerdict(NextStep.ROLL_BACK, "a candidate is gone, or could not be marked")
    if not record.replacements and not ours:
        return ProgressVerdict(NextStep.ROLL_BACK, INTERRUPTED)  # pods may have been bound since
    alive = [claim for claim in state.replacements if not claim.deleting]
    if len(alive) < record.replacements and not planned:
        return ProgressVerdict(NextStep.ROLL_BACK, "a replacement is missing")
    if len(alive) >= record.replacements and all(claim.has(INITIALIZED) for claim in alive):
        return ProgressVerdict(NextStep.DELETE)
    if overdue(record, now):
        return ProgressVerdict(NextStep.ROLL_BACK, TOO_LATE)
    return ProgressVerdict(NextStep.WAIT)


def overdue(record: CommandRecord, now: datetime) -> bool:
    """Whether a command has waited too long, for its replacements or for obstacles of its candidates."""
    return now - record.started_at > timeout(record.candidates)


def timeout(candidates: int) -> timedelta:
    """How long a command may wait for its replacements."""
    return min(max(PER_CANDIDATE * candidates, SHORTEST_TIMEOUT), LONGEST_TIMEOUT)


def abandoned(state: CommandState) -> list[NodeClaim]:
    """Replacements to delete when a command is rolled back: those that never registered. Others stay."""
    return [claim for claim in state.replacements if not claim.deleting and not claim.has(REGISTERED)]


FIRST_BACKOFF = timedelta(minutes=1)
LONGEST_BACKOFF = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class FailedCommands:
    """How many commands of one NodePool and reason failed in a row, and until when it backs off."""

    level: int
    until: datetime


def after_failure(before: FailedCommands | None, now: datetime) -> FailedCommands:
    """The back-off after one more failure: doubled, up to a limit. Failures during a back-off count once."""
    if before is not None and now < before.until:
        return before
    level = before.level + 1 if before is not None else 1
    return FailedCommands(level, now + min(FIRST_BACKOFF * 2 ** (level - 1), LONGEST_BACKOFF))
