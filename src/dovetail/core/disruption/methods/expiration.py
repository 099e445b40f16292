"""Soft expiration: nodes that have lived long enough are replaced, oldest first, within budgets and with protection."""

from collections.abc import Iterator, Sequence

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.context import Context
from dovetail.core.disruption.methods.base import Proposal, waiting
from dovetail.core.disruption.methods.replacing import propose_replacing
from dovetail.core.disruption.waits import expiration_wait
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal


class Expiration:
    """`spec.disruption.expireAfter`."""

    name = "expiration"
    reason = Reason.EXPIRED
    eventual = False
    gives_way = False

    def refusal(self, candidate: Candidate, context: Context) -> Refusal | None:
        """Not due yet, or never."""
        pool = candidate.pool
        wait = expiration_wait(pool, candidate.claim, context.snapshot.at)
        if wait.never and wait.started:
            written = pool.spec.disruption.expire_after is not None
            says = "Never for" if written else "no"
            why = f"never expires: nodepool {pool.name} sets {says} expireAfter under disruption"
            return Refusal("Never", f"node/{candidate.name}", why, permanent=True)
        return waiting(candidate, "not expired: its lifetime runs", wait)

    def refusals(self, candidate: Candidate, context: Context) -> Iterator[Refusal]:
        """There is only the one clock."""
        refusal = self.refusal(candidate, context)
        if refusal is not None:
            yield refusal

    def propose(self, candidates: Sequence[Candidate], context: Context) -> Proposal:
        """Oldest first."""
        oldest = sorted(candidates, key=lambda each: (str(each.claim.metadata.creation_timestamp), each.name))
        return propose_replacing(oldest, context, self.name, self.reason)
