"""Invariant: voluntary disruption never exceeds the budgets of a NodePool.

Checked when a node is marked. The unavailable nodes of its pool, including this one, must be within the budgets: nodes
that are marked, and nodes that have been deleting, not ready or missing for longer than the controllers' view may be
stale. The check takes the most permissive limit of every version of the pool and every clock reading that the
controllers may have used.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.disruption_settings import allowed_disruptions
from dovetail.sim.torture.invariants.observer import ClaimHistory


class BudgetsHold(Invariant):
    """No more nodes are unavailable than the budgets allow."""

    name = "budgets are never exceeded"

    def claim_marked(self, claim_history: ClaimHistory, reason: str) -> None:
        """Compare the unavailable nodes of the pool with its budgets."""
        claim = claim_history.value
        limit = self._limit(claim.pool, reason)
        if limit is None:
            return
        pool_claims = self.observer.claims_of_pool(claim.pool)
        unavailable = sorted(each.value.name for each in pool_claims if self._is_unavailable(each))
        if len(unavailable) > limit:
            total, names = self.observer.max_nodes(claim.pool), ", ".join(unavailable)
            allowed = f"the budgets allow {limit} of {total}"
            self.report(f"{claim.pool}: {claim.name} is marked {reason}, so {names} are unavailable; {allowed}")

    def _is_unavailable(self, claim_history: ClaimHistory) -> bool:
        claim, observer = claim_history.value, self.observer
        if not claim.counts_toward_budgets:
            return False
        if claim.voluntary_reason:
            return True
        node = observer.node_of(claim)
        since = claim_history.deleting_since
        if since is not None:  # without its Node it no longer counts as a node of the pool
            return node is not None and observer.now - since > observer.max_staleness
        since = claim_history.node_missing_since if node is None else node.unready_since
        return since is not None and observer.now - since > observer.max_staleness

    def _limit(self, pool: str, reason: str) -> int | None:
        """The most permissive limit that the controllers may have read; None for no limit."""
        observer = self.observer
        total = observer.max_nodes(pool)
        limits: list[int] = []
        for version in observer.versions(pool, observer.now - observer.max_staleness):
            for now in observer.clock_readings():
                limit = allowed_disruptions(version, reason, total, now)
                if limit is None:
                    return None
                limits.append(limit)
        return max(limits, default=0)
