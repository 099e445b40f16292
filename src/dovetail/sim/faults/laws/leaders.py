"""Never do two act at once: whoever writes holds the Lease in that instant, and could not have lost it unknowingly.

Judged in the instant a write takes effect, by the Lease as the API server has it. How long a renewal lasts is what the
Lease says; nobody may have taken it by then, whatever clock they read.
"""

from dovetail.sim.faults.history import History
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.world import Call


class OneActs(Law):
    """There is one leader, or none."""

    name = "never two act at once"

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._holder = ""
        self._ends = 0.0

    def lease_changed(self, holder: str, seconds: float) -> None:
        """It was taken, renewed or given back."""
        self._holder, self._ends = holder, self.history.now + seconds

    def acts(self, who: str, call: Call) -> None:
        """Somebody writes."""
        if self._holder != who:
            self.broken(f"{who} wants to {call.operation} {call.kind} {call.key}, and {self._holder or 'nobody'} leads")
        elif self.history.now > self._ends:
            self.broken(f"{who} wants to {call.operation} {call.kind} {call.key}, and its lease has run out")
