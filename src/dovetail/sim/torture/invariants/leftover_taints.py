"""No taint, condition or record of a disruption stays on a node that nothing is taking away.

A mark belongs to a command that is written on the claim, or to a deletion. One that belongs to neither is left over;
crashes leave some, and the next leader has to remove them.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import ClaimView
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.invariants.readers import COMMAND

PATIENCE = 300.0  # seconds in which a leader, or the next one, must have noticed


class NoLeftoverTaints(Invariant):
    """What a command that was taken back has marked is unmarked."""

    name = "no mark is left behind"

    def __init__(self, history: Observer) -> None:
        super().__init__(history)
        self._left_since: dict[str, float] = {}

    def look(self) -> None:
        """Time has passed."""
        left = {each.value.name for each in self.history.claims.values() if self._is_left(each.value)}
        self._left_since = {name: self._left_since.get(name, self.history.now) for name in left}
        for name, since in self._left_since.items():
            if self.history.now - since > PATIENCE:
                self.broken(f"{name} or its node carries a mark of no command for {PATIENCE:.0f} s")

    def _is_left(self, claim: ClaimView) -> bool:
        node = self.history.node_of(claim)
        if claim.deleting or node is None or node.value.deleting or COMMAND in claim.annotations:
            return False
        return node.value.marked or "DisruptionReason" in claim.conditions
