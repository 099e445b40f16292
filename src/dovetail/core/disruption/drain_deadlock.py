"""Whether consolidation would start a drain that comes to a standstill.

A pod that may not run before its node is gone, and a budget that keeps the node until the pod runs: nothing but another
node ends that, and then nothing was saved. So consolidation leaves such nodes alone. Where a node has to go anyway,
another one is bought when it comes to that.
"""

from collections import Counter
from collections.abc import Sequence

from dovetail.core.disruption.candidates import Candidate, price_ceiling
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.scheduling.drain_simulation import EvictionPermits
from dovetail.core.scheduling.removal import Bounds
from dovetail.model.kube_object import Key
from dovetail.model.refusal import Refusal, RefusalCode


def stall_refusal(candidates: Sequence[Candidate], context: PassContext, replacements: int) -> Refusal | None:
    """Why these nodes cannot be drained together while no more than so many take their place, or None."""
    permits = _permits(candidates, context)
    if not permits.budgets:
        return None
    removal_simulation = context.removal_simulation(consolidating=True)
    bounds = Bounds(below=price_ceiling(candidates), most_drafts=replacements)
    pod = removal_simulation.stalled([removal_simulation.row(each.name) for each in candidates], permits, bounds)
    if pod is None:
        return None
    pdbs = tuple(budget.key for budget in context.budgets_of(pod))
    return Refusal(RefusalCode.DRAIN_WOULD_STALL, candidates[0].ref, pod=pod.key, pdbs=pdbs)


def _permits(candidates: Sequence[Candidate], context: PassContext) -> EvictionPermits:
    """The budgets that do not let go of all these pods at once, after those of nodes that are drained already."""
    pdbs, book = context.snapshot.pdbs, context.book
    guarded = [entry for each in candidates for entry in book.of(each.node).guarded]
    asked = Counter(budget for _, budgets in guarded for budget in budgets)
    spent = context.pending_evictions_by_pdb if asked else {}
    left = {budget: max(0, pdbs[budget].status.disruptions_allowed - spent.get(budget, 0)) for budget in asked}
    tight = {budget: allowed for budget, allowed in left.items() if allowed < asked[budget]}
    selected: dict[Key, tuple[int, ...]] = {}
    for pod, budgets in guarded if tight else ():
        held = tuple(budget for budget in budgets if budget in tight)
        if held:
            selected[pod.key] = held
    return EvictionPermits(tight, selected)
