"""A node whose instance is lost is let go: silent, and unknown to its provider, it holds nothing up for long.

An instance that is lost during a drain ends it; one that is lost at any other time is noticed by comparing. Neither
waits for a budget, a protection or a grace: there is nothing left to protect. After a fault all the time is granted
once more: a fault waits for its calls, however late they come.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.observer import ClaimHistory

DRAINED_WITHIN = 300.0  # seconds in which a leader, or the next one, must have ended the drain
NOTICED_WITHIN = 600.0  # and compared, which is done every two minutes


class LostInstancesAreNoticed(Invariant):
    """Nothing waits for an instance that is gone."""

    name = "lost instances are let go"

    def look(self) -> None:
        """Time has passed."""
        for each in self.history.claims.values() if self.history.lost_nodes else ():
            since = self._silent_since(each)
            if since is None:
                continue
            began, patience = since, NOTICED_WITHIN
            if each.deleting_since is not None:
                began, patience = max(since, each.deleting_since), DRAINED_WITHIN
            if self.history.now - began > patience:
                self.broken(f"{each.value.name} is still there, {patience:.0f} s after its lost instance fell silent")

    def _silent_since(self, story: ClaimHistory) -> float | None:
        """Since when its instance is lost and its node says so, if that is how it is."""
        node = self.history.node_of(story.value)
        lost_at = self.history.lost_nodes.get(node.value.name) if node is not None else None
        if node is None or lost_at is None or node.unready_since is None or not story.value.has("Registered"):
            return None
        return max(lost_at, node.unready_since, self.history.supervisor.trouble.struck_at)
