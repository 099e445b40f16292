"""Keeps the recent decisions in memory, beside the ledger, to tell what disruption saves: for metrics and simulations.

`SavingsTracker` implements `ports.ledger.Ledger` in front of another ledger, so it sees exactly what the ledger sees
and works without a file. After a restart, `recall` brings back what the file has. Decisions that no longer affect a
saving are forgotten.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from dovetail.core.savings import (
    DISRUPT,
    DONE,
    LOOKBACK,
    UNDER_WAY,
    CommandSaving,
    CostNode,
    DecisionCost,
    reckon_savings,
)
from dovetail.ports.ledger import (
    DecisionOutcome,
    Ledger,
    LedgerAction,
    LedgerEnding,
    LedgerEntry,
    LedgerHealth,
    LedgerNode,
    LedgerState,
)

FORGET_EVERY = 100  # opened decisions


class SavingsTracker:
    """Passes everything on to a ledger, and keeps what affects savings."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._decisions: dict[str, DecisionCost] = {}  # by id
        self._opened = 0
        self._keeps_all = False

    @property
    def keeps(self) -> bool:
        """Whether the ledger behind it records anything that lasts."""
        return self._ledger.keeps

    def keep_all(self) -> None:
        """Forget no decision, so that `savings` are those of the whole run of a simulation."""
        self._keeps_all = True

    def savings(self, until: datetime) -> tuple[CommandSaving, ...]:
        """Return what each command saved until an instant."""
        return reckon_savings(self._decisions.values(), until)

    def recall(self, decisions: Iterable[DecisionCost]) -> None:
        """Add decisions of earlier processes."""
        for each in decisions:
            self._decisions.setdefault(each.id, each)

    def open(self, entry: LedgerEntry) -> None:
        """Record a new decision."""
        self._ledger.open(entry)
        self._decisions.setdefault(entry.id, _opened(entry))
        self._opened += 1
        if self._opened % FORGET_EVERY == 0 and not self._keeps_all:
            oldest = entry.at - LOOKBACK
            self._decisions = {key: each for key, each in self._decisions.items() if each.at >= oldest}

    def close(self, decision: str, ending: LedgerEnding) -> None:
        """Record the ending of a decision."""
        self._ledger.close(decision, ending)
        known = self._decisions.get(decision)
        if known is not None and known.outcome in (UNDER_WAY, DecisionOutcome.UNKNOWN):
            launched = {node.nodeclaim: node for node in (*known.launched, *ending.made)}
            self._decisions[decision] = replace(
                known, outcome=ending.outcome, ended_at=ending.at, launched=tuple(launched.values())
            )

    def gone(self, decision: str, nodeclaim: str, at: datetime) -> None:
        """Record that a removed node is gone."""
        self._ledger.gone(decision, nodeclaim, at)
        known = self._decisions.get(decision)
        if known is not None:
            self._decisions[decision] = _with_gone(known, {nodeclaim}, at)

    def settle(self, known: LedgerState, at: datetime) -> None:
        """Record what ended while no controller was running."""
        self._ledger.settle(known, at)
        removed_last = {
            node.nodeclaim: each.id
            for each in sorted(self._decisions.values(), key=lambda each: each.at)
            for node in each.removed
        }
        for decision in [*self._decisions.values()]:
            each = decision
            if each.outcome == UNDER_WAY and (each.id in known.done or each.id not in known.under_way):
                outcome = DecisionOutcome.DONE if each.id in known.done else DecisionOutcome.UNKNOWN
                each = replace(each, outcome=outcome, ended_at=at)
            if each.act == DISRUPT and each.outcome == DONE:
                mine = {claim for claim, last in removed_last.items() if last == each.id}
                each = _with_gone(each, mine - known.nodeclaims, at)
            self._decisions[each.id] = each

    def health(self) -> LedgerHealth:
        """Return the health of the ledger."""
        return self._ledger.health()


def _opened(entry: LedgerEntry) -> DecisionCost:
    launch = entry.act is LedgerAction.LAUNCH
    return DecisionCost(
        id=entry.id,
        at=entry.at,
        act=entry.act,
        reason=entry.reason,
        removed=() if launch else entry.nodes,
        launched=entry.nodes if launch else (),
        planned=entry.cost_after,
    )


def _with_gone(decision: DecisionCost, nodeclaims: set[str], at: datetime) -> DecisionCost:
    removed: list[CostNode] = []
    for node in decision.removed:
        assert isinstance(node, LedgerNode), "all nodes come from the ledger"
        removed.append(replace(node, gone_at=node.gone_at or at) if node.nodeclaim in nodeclaims else node)
    return replace(decision, removed=tuple(removed))
