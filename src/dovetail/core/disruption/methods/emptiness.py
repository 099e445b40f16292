"""Emptiness: deletes all nodes without pods to reschedule in one command, within budgets."""

from collections.abc import Iterator, Sequence

from dovetail.core.disruption.candidates import Candidate, least_disruptive_first
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.delays import emptiness_wait
from dovetail.core.disruption.methods.base import Proposal, waiting
from dovetail.core.disruption.methods.consolidation import disabled, settling
from dovetail.core.disruption.pass_context import PassContext
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode


class Emptiness:
    """Needs no simulation, because no pod has to be rescheduled."""

    name = "emptiness"
    reason = Reason.EMPTY
    eventual = False
    gives_way = True

    def refusal(self, candidate: Candidate, context: PassContext) -> Refusal | None:
        """The first of `refusals`, or None."""
        return next(self.refusals(candidate, context), None)

    def refusals(self, candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
        """The node is not empty, not for long enough, or its NodePool never consolidates."""
        off = disabled(candidate)
        if off is not None:
            yield off
        if not candidate.empty:
            yield Refusal(RefusalCode.NOT_EMPTY, candidate.ref, count=len(candidate.pods_to_reschedule))
        wait = emptiness_wait(candidate.pool, candidate.claim, context.snapshot.at)
        too_early = waiting(candidate, self.reason, wait) if candidate.empty and off is None else None
        if too_early is not None:
            yield too_early
        grace = settling(candidate, context)
        if grace is not None:
            yield grace

    def propose(self, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
        """One command with all nodes that budgets allow."""
        budget_tracker = context.budget_tracker(self.reason)
        refusals = {each.name: budget_tracker.take(each) for each in least_disruptive_first(candidates)}
        taken = tuple(each for each in least_disruptive_first(candidates) if refusals[each.name] is None)
        commands = (Command(self.name, self.reason, taken),) if taken else ()
        return Proposal(commands, tuple(refusal for refusal in refusals.values() if refusal is not None))
