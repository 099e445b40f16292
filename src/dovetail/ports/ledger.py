"""The interface of the ledger, a durable record of decisions: reason, nodes, pods, cost before and after, outcome.

Events expire after an hour; the ledger still answers later why a node was removed. No method waits or raises: a ledger
that cannot keep up, or has no disk space, reports it in its health and loses entries, and no controller stops. All
writes are idempotent.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class LedgerAction(StrEnum):
    """What was decided about nodes."""

    LAUNCH = "launch"  # a node for pending pods
    DISRUPT = "disrupt"  # a command: nodes are removed after their replacements are ready
    REMOVE = "remove"  # a node is removed without a command: expired, repaired, interrupted, deleted by a user


class DecisionOutcome(StrEnum):
    """How a decision ended."""

    DONE = "done"
    ROLLED_BACK = "rolled back"
    FAILED = "failed"
    DRY_RUN = "dry run"  # nothing was done, on purpose
    UNKNOWN = "unknown"  # the controller was not running when it ended


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerNode:
    """One node of a decision."""

    nodeclaim: str
    node: str = ""
    nodepool: str = ""
    instance_type: str = ""
    capacity_type: str = ""
    zone: str = ""
    price: float | None = None  # per hour; None if unknown
    used: float | None = None  # share of a launched node that the pods request for which it was launched
    expires_at: datetime | None = None  # of a removed node; the year 9999 if never, None if unknown
    gone_at: datetime | None = None  # of a node that a command removed
    peers: int | None = None  # nodes like it and itself, if it went without a command; see `core.savings`


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPurchase:
    """A node that a decision launches, and its possible instance types."""

    nodepool: str
    instance_types: tuple[str, ...] = ()  # the first few
    choices: int = 0  # the number of possible types
    price: float | None = None  # the lowest possible price per hour


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """The use of a NodePool's disruption budget, including this decision."""

    nodepool: str
    used: int
    limit: int | None  # None: no budget was in force


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A node that was not disrupted, and why. For launches, `node` names a pod that no node is launched for."""

    method: str
    code: str
    node: str
    message: str
    until: datetime | None = None
    permanent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFor:
    """The number of refusals of one method with one code."""

    method: str
    code: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """What was considered for a decision. All refusals are counted in `counts`; `refusals` lists some of them."""

    purchases: tuple[PlannedPurchase, ...] = ()
    budgets: tuple[BudgetUse, ...] = ()
    counts: tuple[RefusedFor, ...] = ()
    refusals: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """A decision when it was made."""

    id: str  # as in log lines, events and conditions
    at: datetime
    act: LedgerAction
    reason: str
    why: str
    method: str = ""
    nodes: tuple[LedgerNode, ...] = ()  # launched or removed
    replacements: int = 0
    pods: tuple[str, ...] = ()  # namespace/name of the pods that move, or that the node is launched for
    cost_before: float = 0.0  # of the nodes, per hour
    cost_after: float = 0.0
    considered: Considered | None = None  # None if there was no choice


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEnding:
    """How a decision ended. `made` are the launched nodes, `cost_after` their actual cost, if known.

    `cost_before` is the cost of the removed nodes if some candidates were kept; None: as decided.
    """

    outcome: DecisionOutcome
    at: datetime
    note: str = ""
    made: tuple[LedgerNode, ...] = ()
    cost_before: float | None = None
    cost_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHealth:
    """Counts since the process started, and the current failure."""

    written: int = 0
    lost: int = 0
    trouble: str = ""  # why writing fails now, and the remedy
    size: int = 0  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState:
    """What is known of decisions when a controller starts."""

    under_way: frozenset[str] = frozenset()  # ids of decisions
    done: frozenset[str] = frozenset()  # ids of decisions
    nodeclaims: frozenset[str] = frozenset()  # names of all that exist


class Ledger(Protocol):
    """A durable record of decisions."""

    @property
    def keeps(self) -> bool:
        """Whether it records anything that lasts."""
        ...

    def open(self, entry: LedgerEntry) -> None:
        """Record a new decision; a known id is ignored."""
        ...

    def close(self, decision: str, ending: LedgerEnding) -> None:
        """Record the ending of a decision; the first ending stays, unless it is `unknown`."""
        ...

    def gone(self, decision: str, nodeclaim: str, at: datetime) -> None:
        """Record that a node that a command removed is gone; the first time stays."""
        ...

    def settle(self, known: LedgerState, at: datetime) -> None:
        """Close every open decision that is neither running nor done as `unknown`, and the done ones as `done`.

        Nodes that a done command removed and whose NodeClaim does not exist are gone.
        """
        ...

    def health(self) -> LedgerHealth:
        """Return counts, size, and the current failure, if any."""
        ...


class NoLedger:
    """A ledger that records nothing."""

    keeps = False

    def open(self, entry: LedgerEntry) -> None:
        """Discard it."""

    def close(self, decision: str, ending: LedgerEnding) -> None:
        """Discard it."""

    def gone(self, decision: str, nodeclaim: str, at: datetime) -> None:
        """Discard it."""

    def settle(self, known: LedgerState, at: datetime) -> None:
        """Nothing to settle."""

    def health(self) -> LedgerHealth:
        """Return an empty health."""
        return LedgerHealth()
