"""A node whose machine is lost is let go: silent, and unknown to its provider, it holds nothing up for long.

A machine that is lost during a drain ends it; one that is lost at any other time is noticed by comparing. Neither waits
for a budget, a protection or a grace: there is nothing left to protect. Whoever was made to fail has all the time once
more: a fault waits for its calls, however late they come.
"""

from dovetail.model.nodeclaim import REGISTERED
from dovetail.sim.faults.history import ClaimStory
from dovetail.sim.faults.laws.base import Law

DRAINED_WITHIN = 300.0  # seconds in which a leader, or the next one, must have ended the drain
NOTICED_WITHIN = 600.0  # and compared, which is done every two minutes


class LossesAreNoticed(Law):
    """Nobody waits for a machine that is not there any more."""

    name = "lost machines are let go"

    def look(self) -> None:
        """Time has passed."""
        for each in self.history.claims.values():
            since = self._silent_since(each)
            if since is None:
                continue
            began, patience = since, NOTICED_WITHIN
            if each.deleting_since is not None:
                began, patience = max(since, each.deleting_since), DRAINED_WITHIN
            if self.history.now - began > patience:
                self.broken(f"{each.value.name} is still there, {patience:.0f} s after its lost machine fell silent")

    def _silent_since(self, story: ClaimStory) -> float | None:
        """Since when its machine is lost and its node says so, if that is how it is."""
        node = self.history.node_of(story.value)
        lost_at = self.history.lost_nodes.get(node.value.name) if node is not None else None
        if node is None or lost_at is None or node.unready_since is None or not story.value.has(REGISTERED):
            return None
        return max(lost_at, node.unready_since, self.history.supervisor.trouble.struck_at)
