"""Nodes that consolidation will delete next, in NodePools with minSavings.

kube-scheduler prefers the least allocated node, which is the one that consolidation deletes next: evicted pods would be
moved again, and nodes that were cheap to empty fill up. So these nodes get the taint `REMOVED_NEXT_TAINT`, whose effect
PreferNoSchedule makes kube-scheduler take them only for pods that fit nowhere else.

They are the longest prefix of the candidates, in the order of consolidation, that can be deleted together without a
replacement, whatever budgets and cool-downs allow now. A node is a candidate if its own deletion saves enough.
"""

from collections.abc import Sequence

from dovetail.core.disruption.balanced_policy import approves
from dovetail.core.disruption.candidates import Candidate, least_disruptive_first
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.methods.consolidation import consolidation_refusal
from dovetail.core.disruption.methods.multi_node import MOST_AT_ONCE, MultiNode
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.restraint import savings_refusal
from dovetail.core.scheduling.removal import Bounds
from dovetail.model.refusal import RefusalCode


def next_removals(context: PassContext) -> frozenset[str]:
    """The names of these nodes."""
    candidates, _ = context.candidates(eventual=MultiNode.eventual)
    found = [each for each in candidates if each.pool.min_savings is not None and _is_worth_deleting(each, context)]
    ordered = least_disruptive_first(found)[:MOST_AT_ONCE]
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high + 1) // 2
        if _can_go_together(ordered[:middle], context):
            low = middle
        else:
            high = middle - 1
    return frozenset([each.name for each in ordered[:low]])


def _is_worth_deleting(candidate: Candidate, context: PassContext) -> bool:
    """Whether the node would be deleted alone if no budget and no cool-down kept it."""
    refusal = consolidation_refusal(candidate, context)
    if refusal is not None and refusal.code is not RefusalCode.COOLING_DOWN:
        return False
    if savings_refusal((candidate,), candidate.price, context) is not None:
        return False
    if not approves(Command(MultiNode.name, MultiNode.reason, (candidate,)), context):
        return False
    return _can_go_together((candidate,), context)


def _can_go_together(candidates: Sequence[Candidate], context: PassContext) -> bool:
    """Whether all pods of these nodes fit on the others."""
    removal_simulation = context.removal_simulation(consolidating=True)
    rows = [removal_simulation.row(each.name) for each in candidates]
    if len(rows) == 1:
        return removal_simulation.remove(rows[0]).kind == "delete"
    outcome = removal_simulation.remove_together(rows, Bounds(below=0.0, max_drafts=0))
    return outcome.blocker is None and not outcome.drafts
