"""Commands of expiration and drift: replaces nodes one by one, and deletes the empty ones together.

A pass starts at most one command with replacements, and any number without, within budgets. The next pass follows at
once and counts the NodeClaims that this one launches.
"""

from collections.abc import Sequence

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.methods.base import Proposal
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.replacement_launch import replacement_refusal
from dovetail.core.pdbs import fully_blocks
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.removal import Bounds
from dovetail.model.cluster_objects import PodDisruptionBudget
from dovetail.model.do_not_disrupt import protection
from dovetail.model.kube_object import Key
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode


def propose_replacing(candidates: Sequence[Candidate], context: PassContext, method: str, reason: Reason) -> Proposal:
    """Commands for `candidates`, in the order given, within their budgets."""
    budget_tracker = context.budget_tracker(reason)
    commands: list[Command] = []
    refusals: list[Refusal] = []
    empty: list[Candidate] = []
    for candidate in candidates:
        refusal = budget_tracker.refusal(candidate)
        if refusal is None and candidate.pods_to_reschedule:
            outcome = _replacements(candidate, context)
            if isinstance(outcome, Refusal):
                refusal = outcome
            elif outcome and any(command.replacements for command in commands):
                refusal = Refusal(RefusalCode.NEXT_PASS, candidate.ref)
            else:
                commands.append(Command(method, reason, (candidate,), outcome))
        elif refusal is None:
            empty.append(candidate)
        if refusal is None:
            budget_tracker.spend(candidate)
        else:
            refusals.append(refusal)
    if empty:
        commands.insert(0, Command(method, reason, tuple(empty)))
    return Proposal(tuple(commands), tuple(refusals))


def _replacements(candidate: Candidate, context: PassContext) -> tuple[Draft, ...] | Refusal:
    """The nodes to launch so that every pod that will be evicted can be scheduled, or why that is impossible."""
    removal_simulation = context.removal_simulation(consolidating=False)
    bounds = Bounds(staying=frozenset(_staying(candidate, context)))
    outcome = removal_simulation.remove_together([removal_simulation.row(candidate.name)], bounds)
    if outcome.blocker is not None:
        pod, limits = outcome.blocker.key, outcome.limits
        return Refusal(RefusalCode.UNSCHEDULABLE, candidate.ref, pod=pod, limits=limits)
    return replacement_refusal((candidate,), outcome.drafts, bounds, context, consolidating=False) or outcome.drafts


def _staying(candidate: Candidate, context: PassContext) -> list[Key]:
    """Pods that the drain cannot evict now: no node is launched for them ahead."""
    at = context.snapshot.at
    return [
        pod.key
        for pod in candidate.pods_to_reschedule
        if protection(pod, at).active or _never_evicted(context.budgets_of(pod))
    ]


def _never_evicted(budgets: Sequence[PodDisruptionBudget]) -> bool:
    return len(budgets) > 1 or any(fully_blocks(budget) for budget in budgets)
