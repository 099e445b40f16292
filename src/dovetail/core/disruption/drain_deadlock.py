"""Refuses a consolidation whose drain would deadlock.

The deadlock: an evicted pod cannot be scheduled before the drained node is gone (kube-scheduler still counts that node
in topology spread), and a PodDisruptionBudget blocks the remaining evictions until that pod runs. Only another node
ends it, and then consolidation saved nothing. Drift and expiration skip this check: their nodes have to be replaced in
any case, and the provisioner launches a node when their drain deadlocks.
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
    """Why draining these nodes together would deadlock with at most `replacements` new nodes, or None."""
    permits = _permits(candidates, context)
    if not permits.budgets:
        return None
    removal_simulation = context.removal_simulation(consolidating=True)
    bounds = Bounds(below=price_ceiling(candidates), max_drafts=replacements)
    pod = removal_simulation.stalled([removal_simulation.row(each.name) for each in candidates], permits, bounds)
    if pod is None:
        return None
    pdbs = tuple(budget.key for budget in context.budgets_of(pod))
    return Refusal(RefusalCode.DRAIN_WOULD_STALL, candidates[0].ref, pod=pod.key, pdbs=pdbs)


def _permits(candidates: Sequence[Candidate], context: PassContext) -> EvictionPermits:
    """The PDBs, by position, that do not allow all evictions at once, after those of nodes that already drain."""
    pdbs, cache = context.snapshot.pdbs, context.candidate_cache
    pods_with_pdbs = [entry for each in candidates for entry in cache.facts(each.node).pods_with_pdbs]
    evictions = Counter(pdb for _, selecting in pods_with_pdbs for pdb in selecting)
    pending = context.pending_evictions_by_pdb if evictions else {}
    left = {pdb: max(0, pdbs[pdb].status.disruptions_allowed - pending.get(pdb, 0)) for pdb in evictions}
    tight = {pdb: allowed for pdb, allowed in left.items() if allowed < evictions[pdb]}
    tight_by_pod: dict[Key, tuple[int, ...]] = {}
    for pod, selecting in pods_with_pdbs if tight else ():
        blocking = tuple(pdb for pdb in selecting if pdb in tight)
        if blocking:
            tight_by_pod[pod.key] = blocking
    return EvictionPermits(tight, tight_by_pod)
