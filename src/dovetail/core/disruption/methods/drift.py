"""Drift: nodes that are no longer what their NodePool asks for are replaced, longest drifted first, within budgets."""

from collections.abc import Iterator, Sequence

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.context import Context
from dovetail.core.disruption.drift import drift_reason
from dovetail.core.disruption.methods.base import Proposal, waiting
from dovetail.core.disruption.methods.replacing import propose_replacing
from dovetail.core.disruption.waits import control, drift_wait
from dovetail.model.conditions import find
from dovetail.model.nodeclaim import DRIFTED
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal


class Drift:
    """Works whatever the consolidation policy; PodDisruptionBudgets do not hold a claim that bounds its drain."""

    name = "drift"
    reason = Reason.DRIFTED
    eventual = True
    gives_way = False

    def refusal(self, candidate: Candidate, context: Context) -> Refusal | None:
        """The first of them."""
        return next(self.refusals(candidate, context), None)

    def refusals(self, candidate: Candidate, context: Context) -> Iterator[Refusal]:
        """Switched off, not drifted, or not drifted for long enough."""
        about = f"node/{candidate.name}"
        if not context.gates.drift:
            yield Refusal("GateClosed", about, "the Drift feature gate is off", permanent=True)
        if candidate.pool.static:
            why = f"nodepool {candidate.pool.name} keeps a fixed number of nodes"
            yield Refusal("Static", about, why, permanent=True)
        if not drift_reason(candidate.claim, candidate.pool, context.snapshot):
            yield Refusal("NotDrifted", about, "not drifted: it is what its NodePool asks for")
        elif control(candidate.pool, Reason.DRIFTED) is not None:
            wait = drift_wait(candidate.pool, candidate.claim, context.snapshot.at)
            left_alone = waiting(candidate, "drifted, and left alone", wait)
            if left_alone is not None:
                yield left_alone

    def propose(self, candidates: Sequence[Candidate], context: Context) -> Proposal:
        """Empty ones first, then those that drifted longest ago."""
        ordered = sorted(candidates, key=lambda each: (bool(each.moving), _since(each), each.name))
        return propose_replacing(ordered, context, self.name, self.reason)


def _since(candidate: Candidate) -> str:
    found = find(candidate.claim.status.conditions, DRIFTED)
    return str(found.last_transition_time) if found is not None else "~"
