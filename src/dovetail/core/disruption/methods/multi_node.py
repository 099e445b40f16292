"""Multi-node consolidation: removes several nodes at once, with at most one cheaper replacement.

As in Karpenter, not every set of nodes is tried: candidates are ordered by disruption, and a binary search finds the
longest prefix that works, with O(log n) simulations of up to `MOST_AT_ONCE` nodes.
"""

from collections.abc import Iterator, Sequence

import msgspec

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
from dovetail.core.disruption.restraint import savings_refusal
from dovetail.core.scheduling.removal import Bounds
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode

MOST_AT_ONCE = 100
"""The most nodes in one command, as in Karpenter."""


class MultiNode:
    """Two or more nodes, with no replacement or one that costs less than all of them."""

    name = "multi-node"
    reason = Reason.UNDERUTILIZED
    eventual = False
    gives_way = True

    def refusal(self, candidate: Candidate, context: PassContext) -> Refusal | None:
        """The first reason not to consolidate the node, or None."""
        return consolidation_refusal(candidate, context)

    def refusals(self, candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
        """Every reason not to consolidate the node."""
        return consolidation_refusals(candidate, context)

    def propose(self, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
        """One command with the longest prefix that works, if it has at least two nodes."""
        budget_tracker = context.budget_tracker(self.reason)
        ordered = least_disruptive_first(candidates)
        refusals = {each.name: budget_tracker.take(each) for each in ordered}
        allowed = [each for each in ordered if refusals[each.name] is None]
        command, too_small = self._longest(allowed[:MOST_AT_ONCE], context)
        chosen = {each.name for each in command.candidates} if command is not None else set()
        for position, each in enumerate(allowed):
            not_tried = position >= MOST_AT_ONCE
            code = RefusalCode.NEXT_PASS if not_tried else RefusalCode.NO_SET
            refusals[each.name] = Refusal(code, each.ref, count=MOST_AT_ONCE if not_tried else 0)
            if command is None and too_small is not None and position < too_small.count:
                refusals[each.name] = msgspec.structs.replace(too_small, object=each.ref)
        others = tuple(refusal for name, refusal in refusals.items() if refusal is not None and name not in chosen)
        return Proposal((command,) if command is not None else (), others)

    def _longest(self, allowed: Sequence[Candidate], context: PassContext) -> tuple[Command | None, Refusal | None]:
        """The command for the longest prefix that works, by binary search; the refusal of one that saves too little."""
        best: Command | None = None
        too_small: Refusal | None = None
        low, high = 2, len(allowed)
        while low <= high:
            middle = (low + high) // 2
            command = self._try_together(allowed[:middle], context)
            if isinstance(command, Command):
                best, low = command, middle + 1
            else:
                too_small, high = command or too_small, middle - 1
        return best, too_small

    def _try_together(self, candidates: Sequence[Candidate], context: PassContext) -> Command | Refusal | None:
        """The command for exactly these candidates, why it saves too little, or None if they cannot go together."""
        removal_simulation = context.removal_simulation(consolidating=True)
        ceiling = price_ceiling(candidates)
        bounds = Bounds(below=ceiling, max_drafts=int(ceiling > 0))
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
        if not approves(command, context):
            return None
        return savings_refusal(candidates, command.saving, context) or command
