"""No node is chosen over and over: a command that is taken back is not simply started again, without end.

A decision and the check before its deletion must come to agree, or the next attempt has to wait longer and longer.
Otherwise nodes are tainted and released, and replacements launched and terminated, every few seconds for ever.
"""

import json
from collections import defaultdict

from dovetail.model.nodeclaim import NodeClaim
from dovetail.sim.faults.history import History
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.faults.laws.commands import COMMAND

MOST = 12
WITHIN = 900.0


class CommandsAreNotRepeated(Law):
    """Failed commands are tried again at a sensible pace."""

    name = "no node is chosen over and over"

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._chosen: defaultdict[str, dict[str, float]] = defaultdict(dict)  # by uid: when, by command

    def claim_changed(self, before: NodeClaim | None, after: NodeClaim) -> None:  # noqa: ARG002 - the record is enough
        """A command may have chosen the node."""
        written = after.metadata.annotations.get(COMMAND)
        if not written:
            return
        chosen = self._chosen[after.metadata.uid]
        chosen.setdefault(json.loads(written)["id"], self.history.now)
        lately = sum(self.history.now - at <= WITHIN for at in chosen.values())
        if lately > MOST:
            self.broken(f"{after.name} was chosen by more than {MOST} commands in {WITHIN:.0f} s")
