"""No node is chosen over and over: a command that is taken back is not simply started again, without end.

A decision and the check before its deletion must come to agree, or the next attempt has to wait longer and longer.
Otherwise nodes are tainted and released, and replacements launched and terminated, every few seconds for ever.
"""

from collections import defaultdict

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import ClaimView
from dovetail.sim.torture.invariants.observer import Observer

MOST = 12
WITHIN = 900.0


class CommandsAreNotRepeated(Invariant):
    """Failed commands are tried again at a sensible pace."""

    name = "no node is chosen over and over"

    def __init__(self, history: Observer) -> None:
        super().__init__(history)
        self._chosen: defaultdict[str, dict[str, float]] = defaultdict(dict)  # by uid: when, by command

    def claim_changed(self, before: ClaimView | None, after: ClaimView) -> None:
        """A command may have chosen the node."""
        command = after.command.get("id")
        if command is None or (before is not None and before.command.get("id") == command):
            return
        chosen = self._chosen[after.uid]
        chosen.setdefault(command, self.history.now)
        lately = sum(self.history.now - at <= WITHIN for at in chosen.values())
        if lately > MOST:
            self.broken(f"{after.name} was chosen by more than {MOST} commands in {WITHIN:.0f} s")
