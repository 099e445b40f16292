"""Budgets of NodePools are never exceeded by voluntary disruption.

Judged when a node is marked: with it, the nodes of its pool that are marked, deleted, not ready or vanished for longer
than anyone could have missed must be within the loosest budget that could have been in force when it was decided.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.disruption_settings import allowed
from dovetail.sim.torture.invariants.observer import ClaimHistory


class BudgetsHold(Invariant):
    """Never more nodes away than the budgets allow."""

    name = "budgets are never exceeded"

    def claim_marked(self, story: ClaimHistory, reason: str) -> None:
        """A node was marked."""
        pool = story.value.pool
        limit = self._allowed(pool, reason)
        if limit is None:
            return
        away = [each.value.name for each in self.history.of_pool(pool) if self._away(each)]
        if len(away) > limit:
            nodes, names = self.history.most_nodes(pool), ", ".join(sorted(away))
            self.broken(
                f"{pool}: {story.value.name} is marked {reason}, so {names} are away, and {limit} of {nodes} may be"
            )

    def _away(self, story: ClaimHistory) -> bool:
        claim, history = story.value, self.history
        if not claim.counted:
            return False
        if claim.voluntary:
            return True
        node = history.node_of(claim)
        if story.deleting_since is not None:  # without its instance it is no node of the pool any more
            return node is not None and history.now - story.deleting_since > history.stale
        away_since = story.missed_since if node is None else node.unready_since
        return away_since is not None and history.now - away_since > history.stale

    def _allowed(self, pool: str, reason: str) -> int | None:
        """The most that any version of the pool allowed at any instant it could have been read; None: no limit."""
        history = self.history
        total = history.most_nodes(pool)
        limits: list[int] = []
        for version in history.versions(pool, history.now - history.stale):
            for now in history.instants():
                limit = allowed(version, reason, total, now)
                if limit is None:
                    return None
                limits.append(limit)
        return max(limits, default=0)
