"""One writer: a replica that writes holds the Lease in that instant, and could not have lost it unknowingly.

Judged in the instant a write takes effect, by the Lease as the API server has it. How long a renewal lasts is what the
Lease says; no other replica may have taken it by then, whatever clock it reads.
"""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.observer import Observer
from dovetail.sim.torture.invariants.pause import DRY_RUN
from dovetail.sim.world import ApiCall


class SingleLeader(Invariant):
    """There is one leader, or none."""

    name = "only the holder of the Lease writes"

    def __init__(self, history: Observer) -> None:
        super().__init__(history)
        self._holder = ""
        self._ends = 0.0

    def lease_changed(self, holder: str, seconds: float) -> None:
        """It was taken, renewed or given back."""
        self._holder, self._ends = holder, self.history.now + seconds

    def acts(self, who: str, call: ApiCall) -> None:
        """Somebody writes."""
        if who.startswith(DRY_RUN):
            return
        if self._holder != who:
            self.broken(f"{who} wants to {call.operation} {call.kind} {call.key}, and {self._holder or 'nobody'} leads")
        elif self.history.now > self._ends:
            self.broken(f"{who} wants to {call.operation} {call.kind} {call.key}, and its lease has run out")
