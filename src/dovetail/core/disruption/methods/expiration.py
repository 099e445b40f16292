"""Soft expiration: replaces nodes older than `spec.disruption.expireAfter`, oldest first.

Unlike hard expiration (`core.lifecycle.expiration`), it respects budgets, do-not-disrupt and PDBs, and launches
replacements first.
"""

from collections.abc import Iterator, Sequence

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.delays import expiration_wait
from dovetail.core.disruption.methods.base import Proposal, waiting
from dovetail.core.disruption.methods.replacement import propose_replacing
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.lifecycle.expiration import expires_at
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode


class Expiration:
    """`spec.disruption.expireAfter`."""

    name = "expiration"
    reason = Reason.EXPIRED
    eventual = False
    gives_way = False

    def refusal(self, candidate: Candidate, context: PassContext) -> Refusal | None:
        """The NodePool is static, the node is not old enough, or it never expires this way."""
        pool = candidate.pool
        if pool.static:
            return Refusal(RefusalCode.STATIC, candidate.ref, permanent=True, nodepool=pool.name)
        wait = expiration_wait(pool, candidate.claim, context.snapshot.at)
        if wait.never and wait.started:
            return _without_budgets(candidate)
        return waiting(candidate, self.reason, wait)

    def refusals(self, candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
        """At most one: expiration has a single delay."""
        refusal = self.refusal(candidate, context)
        if refusal is not None:
            yield refusal

    def propose(self, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
        """Replace the oldest nodes first."""
        oldest = sorted(candidates, key=lambda each: (str(each.claim.metadata.creation_timestamp), each.name))
        return propose_replacing(oldest, context, self.name, self.reason)


def _without_budgets(candidate: Candidate) -> Refusal:
    """The refusal of a node without soft expiration: hard expiration deletes it at an age, or it never expires."""
    pool, due_at = candidate.pool, expires_at(candidate.claim, candidate.pool)
    if due_at is not None:
        return Refusal(RefusalCode.NEVER, candidate.ref, due_at, setting=str(candidate.claim.spec.expire_after))
    expire_after = pool.spec.disruption.expire_after  # Never, or unset
    setting = str(expire_after) if expire_after is not None else ""
    return Refusal(RefusalCode.NEVER, candidate.ref, permanent=True, nodepool=pool.name, setting=setting)
