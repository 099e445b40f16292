"""Multi-node consolidation: the largest set of nodes that can go together, with at most one node in their place.

Not every set can be tried: candidates are ordered, and the longest workable prefix is searched for by halving.
"""

from collections.abc import Iterator, Sequence

from dovetail.core.disruption.balanced_policy import approves
from dovetail.core.disruption.candidates import Candidate, least_disruptive_first, price_ceiling
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.drain_deadlock import stall_refusal
from dovetail.core.disruption.methods.base import Proposal
from dovetail.core.disruption.methods.consolidation import (
    consolidation_refusal,
    consolidation_refusals,
    narrow_to_cheaper,
)
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.replacement_launch import replacement_refusal
from dovetail.core.scheduling.removal import Bounds
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode

MOST_AT_ONCE = 100
"""Nodes that one command considers, as in Karpenter."""


class MultiNode:
    """Two or more nodes, none or one replacement that costs less than all of them."""

    name = "multi-node"
    reason = Reason.UNDERUTILIZED
    eventual = False
    gives_way = True

    def refusal(self, candidate: Candidate, context: PassContext) -> Refusal | None:
        """Why consolidation is not interested in a node, or None."""
        return consolidation_refusal(candidate, context)

    def refusals(self, candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
        """Everything consolidation has against a node."""
        return consolidation_refusals(candidate, context)

    def propose(self, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
        """The longest prefix that works, if it has at least two nodes."""
        budget_tracker = context.budget_tracker(self.reason)
        ordered = least_disruptive_first(candidates)
        refusals = {each.name: budget_tracker.take(each) for each in ordered}
        allowed = [each for each in ordered if refusals[each.name] is None]
        command = self._longest(allowed[:MOST_AT_ONCE], context)
        chosen = {each.name for each in command.candidates} if command is not None else set()
        for place, each in enumerate(allowed):
            beyond = place >= MOST_AT_ONCE
            code = RefusalCode.NEXT_PASS if beyond else RefusalCode.NO_SET
            refusals[each.name] = Refusal(code, each.ref, count=MOST_AT_ONCE if beyond else 0)
        said = tuple(refusal for name, refusal in refusals.items() if refusal is not None and name not in chosen)
        return Proposal((command,) if command is not None else (), said)

    def _longest(self, allowed: Sequence[Candidate], context: PassContext) -> Command | None:
        best: Command | None = None
        low, high = 2, len(allowed)
        while low <= high:
            middle = (low + high) // 2
            command = self._together(allowed[:middle], context)
            if command is not None:
                best, low = command, middle + 1
            else:
                high = middle - 1
        return best

    def _together(self, candidates: Sequence[Candidate], context: PassContext) -> Command | None:
        removal_simulation = context.removal_simulation(consolidating=True)
        ceiling = price_ceiling(candidates)
        bounds = Bounds(below=ceiling, most_drafts=int(ceiling > 0))
        outcome = removal_simulation.remove_together([removal_simulation.row(each.name) for each in candidates], bounds)
        if outcome.blocker is not None:
            return None
        replacements = []
        for draft in outcome.drafts:
            narrowed = narrow_to_cheaper(candidates, draft, context)
            if isinstance(narrowed, Refusal):
                return None
            replacements.append(narrowed)
        if stall_refusal(candidates, context, len(replacements)) is not None:
            return None
        if replacement_refusal(candidates, replacements, bounds, context, consolidating=True) is not None:
            return None
        command = Command(self.name, self.reason, tuple(candidates), tuple(replacements))
        return command if approves(command, context) else None
