"""Budgets are never exceeded by voluntary disruption.

Judged when a node is marked: with it, the nodes of its pool that are marked, on their way out, not ready or vanished
for longer than anyone could have missed, must be within the loosest budget that could have been in force when it was
decided.
"""

from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.pool_budgets import read_budgets
from dovetail.model.reason import Reason
from dovetail.sim.faults.history import ClaimStory, counted, voluntarily
from dovetail.sim.faults.laws.base import Law


class BudgetsHold(Law):
    """Never more nodes away than the budgets allow."""

    name = "budgets are never exceeded"

    def claim_changed(self, before: NodeClaim | None, after: NodeClaim) -> None:
        """A node may have been marked."""
        reason = voluntarily(after)
        if reason is None or after.deleting or (before is not None and voluntarily(before) is not None):
            return
        history = self.history
        pool = after.nodepool_name
        away = [each.value.name for each in history.of_pool(pool) if self._away(each)]
        allowed = self._allowed(pool, reason)
        if allowed is not None and len(away) > allowed:
            nodes = history.most_nodes(pool)
            names = ", ".join(sorted(away))
            self.broken(
                f"{pool}: {after.name} is marked {reason}, so {names} are away, and {allowed} of {nodes} may be"
            )

    def _away(self, story: ClaimStory) -> bool:
        claim, history = story.value, self.history
        if not counted(claim):
            return False
        if voluntarily(claim) is not None:
            return True
        node = history.node_of(claim)
        if story.deleting_since is not None:  # one whose machine is gone already is no node of the pool any more
            return node is not None and history.now - story.deleting_since > self.history.stale
        away_since = story.missed_since if node is None else node.unready_since
        return away_since is not None and history.now - away_since > self.history.stale

    def _allowed(self, pool: str, reason: Reason) -> int | None:
        """The most that any version of the pool, at any instant it could have been read, allowed; None: no ceiling."""
        total = self.history.most_nodes(pool)
        limits: list[int] = []
        for version in self.history.versions(pool, self.history.now - self.history.stale):
            for now in self.history.instants():
                in_force = [budget for budget in read_budgets(version) if budget.governs(reason, now)]
                if not in_force:
                    return None
                limits.append(min(budget.limit(total) for budget in in_force))
        return max(limits, default=0)
