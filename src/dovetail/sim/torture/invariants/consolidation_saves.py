"""Consolidation never raises cost: what it launches costs less than what it takes away."""

from dovetail.sim.torture.invariants.base import Invariant
from dovetail.sim.torture.invariants.objects import ClaimView
from dovetail.sim.world import ApiCall


class ConsolidationSaves(Invariant):
    """Every consolidation leaves the cluster cheaper."""

    name = "consolidation never raises cost"

    def about_to(self, call: ApiCall) -> None:
        """The first candidate of a command may go."""
        if call.operation == "delete" and call.kind == "NodeClaim" and call.key is not None:
            story = self.history.claims.get(call.key.name)
            if story is not None and not story.value.deleting:
                self._judge(story.value)

    def _judge(self, claim: ClaimView) -> None:
        command = self.history.commands.get(claim.command.get("id", ""))
        if command is None or claim.reason not in {"Underutilized", "Empty"}:
            return
        before, after = sum(command.candidates.values()), sum(command.replacements.values())
        if command.replacements and after >= before:
            gone, bought = ", ".join(sorted(command.candidates)), ", ".join(sorted(command.replacements))
            self.broken(f"{gone} at {before:.4f} an hour {claim.reason}: replaced by {bought} at {after:.4f}")
