"""How far a running command has come, from the API objects alone: what to do next, or to take it back.

Nothing that matters lives in memory only: whoever leads next reads the same objects and draws the same conclusion.

Leaving a NodePool alone for a while when its commands keep failing, so that it cannot starve the others.
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
OVERTAKEN = "its nodes were deleted before it let them go"
BEING_TAKEN_BACK = "it is being taken back"
CUT_OFF = "its process ended before its nodes were let go"


_CONCERNING = frozenset({RECORD_ANNOTATION, REPLACES_ANNOTATION})


class NextStep(Enum):
    """What a command needs now."""

    WAIT = auto()  # replacements are on their way
    DELETE = auto()  # everything is there: the candidates may go
    ROLL_BACK = auto()  # it cannot be finished
    DONE = auto()  # the candidates are going or gone


@dataclass(frozen=True, slots=True)
class ProgressVerdict:
    """What to do about a command, and why."""

    next: NextStep
    why: str = ""


def names_a_command(claim: NodeClaim) -> bool:
    """Whether a claim is taken away by a command, or was bought for one."""
    return not _CONCERNING.isdisjoint(claim.metadata.annotations)


def running_commands(claims: Iterable[NodeClaim]) -> dict[str, CommandState]:
    """Every command that some claim is marked with, by its id."""
    marked: dict[str, list[NodeClaim]] = {}
    replacing: dict[str, list[NodeClaim]] = {}
    records: dict[str, CommandRecord] = {}
    for claim in sorted(filter(names_a_command, claims), key=lambda claim: claim.name):
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
    """What a command needs now. `planned`: this process still knows what to launch for it; `ours`: it began it."""
    record = state.record
    if all(claim.deleting for claim in state.candidates):
        return ProgressVerdict(NextStep.DONE, "" if record.committed else OVERTAKEN)
    if record.committed:
        return ProgressVerdict(NextStep.DELETE)
    if len(state.candidates) < record.candidates:
        return ProgressVerdict(NextStep.ROLL_BACK, "a candidate is gone, or could not be marked")
    if not record.replacements and not ours:
        return ProgressVerdict(NextStep.ROLL_BACK, CUT_OFF)  # nobody knows what came to its nodes since
    alive = [claim for claim in state.replacements if not claim.deleting]
    if len(alive) < record.replacements and not planned:
        return ProgressVerdict(NextStep.ROLL_BACK, "a replacement is missing")
    if len(alive) >= record.replacements and all(claim.has(INITIALIZED) for claim in alive):
        return ProgressVerdict(NextStep.DELETE)
    if overdue(record, now):
        return ProgressVerdict(NextStep.ROLL_BACK, TOO_LATE)
    return ProgressVerdict(NextStep.WAIT)


def overdue(record: CommandRecord, now: datetime) -> bool:
    """Whether a command has waited too long, for its replacements or for what keeps its nodes."""
    return now - record.started_at > timeout(record.candidates)


def timeout(candidates: int) -> timedelta:
    """How long a command may wait for its replacements."""
    return min(max(PER_CANDIDATE * candidates, SHORTEST_TIMEOUT), LONGEST_TIMEOUT)


def abandoned(state: CommandState) -> list[NodeClaim]:
    """Replacements to delete when a command is taken back: those that never became nodes. Others stay."""
    return [claim for claim in state.replacements if not claim.deleting and not claim.has(REGISTERED)]


FIRST = timedelta(minutes=1)
LONGEST = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class FailedCommands:
    """How often in a row commands of one pool and reason failed, and until when it is left alone."""

    level: int
    until: datetime


def after_failure(before: FailedCommands | None, now: datetime) -> FailedCommands:
    """One more failure: twice the wait, up to a limit. Failures inside the wait count once."""
    if before is not None and now < before.until:
        return before
    level = before.level + 1 if before is not None else 1
    return FailedCommands(level, now + min(FIRST * 2 ** (level - 1), LONGEST))
