"""Restraint: in NodePools with `spec.disruption.minSavings`, consolidation must be worth the evictions it causes.

What the pods of a NodePool cost is the price of its nodes, divided among its pods by eviction cost: an ordinary pod
counts 1, and pod-deletion-cost and priority change that. A command must save at least `minSavings` percent of what the
pods that it evicts cost. With 60%, ten evictions must save what six average pods cost. So a node that is deleted has
to be less full than the others, and a replacement that is a little cheaper is not worth the move.

This limits multi-node and single-node consolidation only: empty nodes, expiration, drift and repair evict as before.
The second part of restraint is the cool-down after a pod was bound (`delays.cool_down`). It is read from the pod, so
restarts change nothing.
"""

from collections.abc import Sequence

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.disruption_cost import BASE_COST
from dovetail.core.disruption.pass_context import PassContext
from dovetail.model.refusal import Refusal, RefusalCode, SmallSaving


def required_saving(candidates: Sequence[Candidate], context: PassContext) -> float:
    """What a command with these candidates has to save, in dollars an hour; 0 where nothing is required."""
    return sum(_required(each, context) for each in candidates if each.pool.min_savings is not None)


def savings_refusal(candidates: Sequence[Candidate], saving: float, context: PassContext) -> Refusal | None:
    """Why a saving, in dollars an hour, is not worth the evictions of these candidates; None if it is."""
    required = required_saving(candidates, context)
    if saving >= required:
        return None
    strictest = max((each for each in candidates if each.pool.min_savings is not None), key=_strictness)
    small = SmallSaving(
        saving=saving,
        required=required,
        evictions=sum(len(each.pods_to_reschedule) for each in candidates),
        min_savings=str(strictest.pool.min_savings),
    )
    code, pool = RefusalCode.SAVES_TOO_LITTLE, strictest.pool.name
    return Refusal(code, candidates[0].ref, nodepool=pool, small_saving=small, count=len(candidates))


def _strictness(candidate: Candidate) -> tuple[float, str]:
    written = candidate.pool.min_savings
    return (written.share if written is not None else 0.0, candidate.pool.name)


def _required(candidate: Candidate, context: PassContext) -> float:
    written = candidate.pool.min_savings
    assert written is not None, "only called for NodePools with minSavings"
    return written.share * (candidate.cost - BASE_COST) * _eviction_price(candidate.pool.name, context)


def _eviction_price(pool: str, context: PassContext) -> float:
    """Dollars an hour that a NodePool costs for each unit of eviction cost; computed once in a pass."""
    known = context.eviction_prices
    if pool not in known:
        facts = context.candidate_cache.facts
        nodes = context.snapshot.nodes_by_pool.get(pool, ())
        total = sum(facts(node).disruption_cost - BASE_COST for node in nodes)
        known[pool] = context.pool_cost(pool) / total if total > 0 else 0.0
    return known[pool]
