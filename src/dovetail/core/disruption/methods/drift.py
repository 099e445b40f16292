"""Drift: replaces nodes that no longer match their NodePool, longest drifted first, within budgets.

`core.disruption.drift` decides whether a node has drifted. Empty nodes come first, because they need no replacement. A
node is not replaced if replacements of its NodePool are drifted for the same reason (a drift loop).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.delays import control, drift_wait
from dovetail.core.disruption.drift import drift_reason, loop_refusal, replacement_annotation
from dovetail.core.disruption.methods.base import Proposal, waiting
from dovetail.core.disruption.methods.replacement import propose_replacing
from dovetail.core.disruption.pass_context import PassContext
from dovetail.model.conditions import find
from dovetail.model.nodeclaim import DRIFTED
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode


class Drift:
    """Independent of the consolidation policy; PDBs do not block a NodeClaim with a terminationGracePeriod."""

    name = "drift"
    reason = Reason.DRIFTED
    eventual = True
    gives_way = False

    def refusal(self, candidate: Candidate, context: PassContext) -> Refusal | None:
        """The first of `refusals`, or None."""
        return next(self.refusals(candidate, context), None)

    def refusals(self, candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
        """The feature gate is off, the NodePool is static, or the node has not drifted for long enough."""
        about = candidate.ref
        if not context.options.drift:
            yield Refusal(RefusalCode.GATE_CLOSED, about, permanent=True, setting="Drift")
        if candidate.pool.static:
            yield Refusal(RefusalCode.STATIC, about, permanent=True, nodepool=candidate.pool.name)
        if not drift_reason(candidate.claim, candidate.pool, context.snapshot):
            yield Refusal(RefusalCode.NOT_DRIFTED, about)
        elif control(candidate.pool, Reason.DRIFTED) is not None:
            wait = drift_wait(candidate.pool, candidate.claim, context.snapshot.at)
            too_early = waiting(candidate, self.reason, wait)
            if too_early is not None:
                yield too_early

    def propose(self, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
        """Replace empty nodes first, then those that drifted longest ago; none whose drift is a loop."""
        refusals = {each.name: _loop(each, context) for each in candidates if each.pods_to_reschedule}
        looping = tuple(refusal for refusal in refusals.values() if refusal is not None)
        left = [each for each in candidates if refusals.get(each.name) is None]
        ordered = sorted(left, key=lambda each: (bool(each.pods_to_reschedule), _since(each), each.name))
        proposal = propose_replacing(ordered, context, self.name, self.reason)
        commands = tuple(_annotated(command, context) for command in proposal.commands)
        return replace(proposal, commands=commands, refusals=(*looping, *proposal.refusals))


def _loop(candidate: Candidate, context: PassContext) -> Refusal | None:
    reason = drift_reason(candidate.claim, candidate.pool, context.snapshot)
    return loop_refusal(candidate.ref, candidate.pool.name, reason, context.drift_loops)


def _annotated(command: Command, context: PassContext) -> Command:
    """Annotate the replacements with the drift they are launched for, so that loops are detected."""
    if not command.replacements:
        return command
    first = command.candidates[0]
    reason = drift_reason(first.claim, first.pool, context.snapshot)
    return replace(command, annotations=replacement_annotation(reason, first.pool))


def _since(candidate: Candidate) -> str:
    found = find(candidate.claim.status.conditions, DRIFTED)
    return str(found.last_transition_time) if found is not None else "~"
