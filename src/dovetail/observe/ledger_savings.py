"""Reads from the ledger what disruption commands saved. The model is in `core.savings`.

One file can have the decisions of several clusters: each cluster is replayed separately.
"""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from dovetail.core.savings import LOOKBACK, UNDER_WAY, CommandSaving, DecisionCost, reckon_savings
from dovetail.model.instants import subtract
from dovetail.observe import ledger_query
from dovetail.observe.ledger_query import LedgerDecision, LedgerQuery, parse_instant, read_history


def read_savings(path: Path, since: datetime | None, until: datetime) -> dict[str, CommandSaving]:
    """Return what commands saved until an instant, by id: those that can have saved since an instant."""
    by_cluster: dict[str, list[DecisionCost]] = {}
    for decision in read_history(path, LedgerQuery(since=_lookback(since), until=until)):
        by_cluster.setdefault(decision.cluster, []).extend(_cost(decision))
    reckoned = (reckon_savings(reversed(each), until) for each in by_cluster.values())
    return {saving.id: saving for savings in reckoned for saving in savings}


def read_costs(path: Path, cluster: str, now: datetime) -> Iterable[DecisionCost]:
    """Yield the decisions of one cluster that affect what is saved now."""
    for decision in read_history(path, LedgerQuery(since=_lookback(now))):
        if decision.cluster == cluster:
            yield from _cost(decision)


def _cost(decision: LedgerDecision) -> Iterable[DecisionCost]:
    at = parse_instant(decision.at)
    if at is None:  # damaged
        return
    yield DecisionCost(
        id=decision.id,
        at=at,
        act=decision.act,
        reason=decision.reason,
        outcome=UNDER_WAY if decision.outcome == ledger_query.UNDER_WAY else decision.outcome,
        ended_at=parse_instant(decision.ended_at),
        removed=decision.nodes,
        launched=decision.made,
        planned=decision.cost_after,
    )


def _lookback(at: datetime | None) -> datetime | None:
    return None if at is None else subtract(at, LOOKBACK)
