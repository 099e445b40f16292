"""Consolidation never raises cost: what it launches costs less than what it takes away."""

from dovetail.model.command import read_record
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.reason import Reason
from dovetail.sim.faults.laws.base import Law
from dovetail.sim.world import Call


class ConsolidationSaves(Law):
    """Every consolidation leaves the cluster cheaper."""

    name = "consolidation never raises cost"

    def about_to(self, call: Call) -> None:
        """The first candidate of a command may go."""
        if call.operation == "delete" and call.kind == "NodeClaim" and call.key is not None:
            story = self.history.claims.get(call.key.name)
            if story is not None and not story.value.deleting:
                self._judge(story.value)

    def _judge(self, claim: NodeClaim) -> None:
        record = read_record(claim)
        command = self.history.commands.get(record.id) if record is not None else None
        if record is None or command is None or record.reason not in {Reason.UNDERUTILIZED, Reason.EMPTY}:
            return
        before, after = sum(command.candidates.values()), sum(command.replacements.values())
        if command.replacements and after >= before:
            gone, bought = ", ".join(sorted(command.candidates)), ", ".join(sorted(command.replacements))
            self.broken(f"{gone} at {before:.4f} an hour {record.reason}: replaced by {bought} at {after:.4f}")
