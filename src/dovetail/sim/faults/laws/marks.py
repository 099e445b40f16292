"""No taint and no condition of a disruption stays on a node that nothing is taking away.

A mark belongs to a command that is written on the claim, or to a deletion. One that belongs to neither is an orphan;
crashes make them, and whoever leads next has to take them off.
"""

from dovetail.model.command import RECORD_ANNOTATION
from dovetail.model.conditions import find
from dovetail.model.nodeclaim import DISRUPTION_REASON, NodeClaim
from dovetail.sim.faults.history import History
from dovetail.sim.faults.laws.base import Law

PATIENCE = 300.0  # seconds in which a leader, or the next one, must have noticed


class MarksAreTakenBack(Law):
    """What a command that came to nothing has marked is unmarked."""

    name = "no mark is left behind"

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._orphaned_since: dict[str, float] = {}

    def look(self) -> None:
        """Time has passed."""
        orphans = {each.value.name for each in self.history.claims.values() if self._orphaned(each.value)}
        self._orphaned_since = {name: self._orphaned_since.get(name, self.history.now) for name in orphans}
        for name, since in self._orphaned_since.items():
            if self.history.now - since > PATIENCE:
                self.broken(f"{name} or its node carries a mark of no command for {PATIENCE:.0f} s")

    def _orphaned(self, claim: NodeClaim) -> bool:
        node = self.history.node_of(claim)
        if claim.deleting or node is None or node.value.deleting or RECORD_ANNOTATION in claim.metadata.annotations:
            return False
        tainted = any(taint.key.startswith("karpenter.sh/disrupt") for taint in node.value.spec.taints)
        return tainted or find(claim.status.conditions, DISRUPTION_REASON) is not None
