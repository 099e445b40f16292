"""Where decisions are written down for good: why, what, what it cost before and after, which pods moved, how it ended.

Events live an hour and logs go elsewhere; the question who took a node last Tuesday stays. Nothing here waits or
raises at run time: a ledger that cannot keep up, or has no room left, says so in its health and loses entries, and no
controller stops for it. Every write may be repeated: what is known already is not written twice.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class LedgerAction(StrEnum):
    """What was decided about nodes."""

    LAUNCH = "launch"  # a node for pods that wait
    DISRUPT = "disrupt"  # a command: nodes go, after their replacements are ready
    REMOVE = "remove"  # a node goes without a command: expired, repaired, interrupted, deleted by hand


class DecisionOutcome(StrEnum):
    """How a decision ended."""

    DONE = "done"
    ROLLED_BACK = "rolled back"
    FAILED = "failed"
    DRY_RUN = "dry run"  # nothing was done, on purpose
    UNKNOWN = "unknown"  # nobody was there to see the end


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerNode:
    """One node of a decision."""

    nodeclaim: str
    node: str = ""
    nodepool: str = ""
    instance_type: str = ""
    capacity_type: str = ""
    zone: str = ""
    price: float | None = None  # an hour; None when nobody knows it


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPurchase:
    """A node a decision wants, and what it may be."""

    nodepool: str
    instance_types: tuple[str, ...] = ()  # the first few
    choices: int = 0  # how many types there were
    price: float | None = None  # the least it can cost an hour


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """What a NodePool's budget stood at once the decision was carried out."""

    nodepool: str
    used: int
    limit: int | None  # None: no budget was in force


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something that was left alone, and why. `node` is a pod where nodes are launched for pods."""

    method: str
    code: str
    node: str
    message: str
    until: datetime | None = None
    permanent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFor:
    """How many were left alone for one reason."""

    method: str
    code: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """What was weighed when a decision was taken. All that was refused is counted; some of it is named."""

    purchases: tuple[PlannedPurchase, ...] = ()
    budgets: tuple[BudgetUse, ...] = ()
    counts: tuple[RefusedFor, ...] = ()
    refusals: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """A decision as it was taken."""

    id: str  # as in log lines, events and conditions
    at: datetime
    act: LedgerAction
    reason: str
    why: str
    method: str = ""
    nodes: tuple[LedgerNode, ...] = ()  # those launched, or those that go
    replacements: int = 0
    pods: tuple[str, ...] = ()  # namespace/name of those that move, or that the node is for
    cost_before: float = 0.0  # of the nodes concerned, an hour
    cost_after: float = 0.0
    considered: Considered | None = None  # None when nothing was chosen between


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEnding:
    """How a decision ended. `made`: the nodes that came of it; `cost_after`: what they really cost, when known.

    `cost_before`: of the nodes that did go, where some were kept; None: as it was decided.
    """

    outcome: DecisionOutcome
    at: datetime
    note: str = ""
    made: tuple[LedgerNode, ...] = ()
    cost_before: float | None = None
    cost_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHealth:
    """How the ledger is doing since the process started."""

    written: int = 0
    lost: int = 0
    trouble: str = ""  # why nothing can be written right now, and what to do about it
    size: int = 0  # bytes


class Ledger(Protocol):
    """A durable record of decisions."""

    def open(self, entry: LedgerEntry) -> None:
        """A decision was taken. One already known is left as it is."""
        ...

    def close(self, decision: str, ending: LedgerEnding) -> None:
        """A decision ended. The first ending stays, unless nobody knew it."""
        ...

    def settle(self, under_way: Collection[str], done: Collection[str], at: datetime) -> None:
        """Of all that never ended, these are under way and these are done: how the others ended, nobody knows."""
        ...

    def health(self) -> LedgerHealth:
        """How it is doing."""
        ...


class NoLedger:
    """Keeps nothing."""

    def open(self, entry: LedgerEntry) -> None:
        """Discard it."""

    def close(self, decision: str, ending: LedgerEnding) -> None:
        """Discard it."""

    def settle(self, under_way: Collection[str], done: Collection[str], at: datetime) -> None:
        """Nothing to settle."""

    def health(self) -> LedgerHealth:
        """Nothing is wrong with nothing."""
        return LedgerHealth()
