"""Single-node consolidation: every node is looked at, and the best move is taken, not the first."""

from collections.abc import Iterator, Sequence

import msgspec

from dovetail.core.disruption.balanced_policy import BALANCED, approves
from dovetail.core.disruption.candidates import Candidate, least_disruptive_first
from dovetail.core.disruption.command import Command, cheapest
from dovetail.core.disruption.drain_deadlock import stall_refusal
from dovetail.core.disruption.methods.base import Proposal
from dovetail.core.disruption.methods.consolidation import (
    cant_replace,
    consolidation_refusal,
    consolidation_refusals,
    narrow_to_cheaper,
    saving,
)
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.replacement_launch import replacement_refusal
from dovetail.core.scheduling.draft import Draft
from dovetail.core.scheduling.removal import Bounds, Removal
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode


class SingleNode:
    """One node, none or one cheaper replacement."""

    name = "single-node"
    reason = Reason.UNDERUTILIZED
    eventual = False
    gives_way = True

    def refusal(self, candidate: Candidate, context: PassContext) -> Refusal | None:
        """Why consolidation is not interested in a node, or None."""
        return consolidation_refusal(candidate, context)

    def refusals(self, candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
        """Everything consolidation has against a node."""
        return consolidation_refusals(candidate, context)

    def propose(self, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
        """The move that saves most; among equals the one that hurts least."""
        budget_tracker = context.budget_tracker(self.reason)
        refusals: list[Refusal] = []
        moves: list[Move] = []
        removal_simulation = context.removal_simulation(consolidating=True)
        for candidate in least_disruptive_first(candidates):
            found = budget_tracker.refusal(candidate) or _move(candidate, removal_simulation, context)
            if isinstance(found, Move):
                moves.append(found)
            else:
                refusals.append(found)
        best = _best(moves, refusals, context)
        refusals += [Refusal(RefusalCode.NOT_THE_BEST, move.candidate.ref) for move in moves if move is not best]
        return Proposal((_command(best, context),) if best is not None else (), tuple(refusals))


class Move(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A node that can go, and what that saves an hour. The draft is still as the sweep left it."""

    candidate: Candidate
    draft: Draft | None
    saving: float


def _best(moves: list[Move], refusals: list[Refusal], context: PassContext) -> Move | None:
    """The move that saves most of those that can be carried out now; the others are told why they cannot."""
    for move in sorted(moves, key=lambda move: -move.saving):
        refusal = _hindrance(move, context)
        if refusal is None:
            return move
        moves.remove(move)
        refusals.append(refusal)
    return None


def _hindrance(move: Move, context: PassContext) -> Refusal | None:
    """Why a move cannot be carried out: its drain would not end, or its replacement may not be launched now."""
    stall = stall_refusal((move.candidate,), context, int(move.draft is not None))
    if stall is not None or move.draft is None:
        return stall
    bounds = Bounds(below=move.candidate.price, most_drafts=1)
    return replacement_refusal((move.candidate,), (move.draft,), bounds, context, consolidating=True)


def _move(candidate: Candidate, removal_simulation: RemovalSimulation, context: PassContext) -> Move | Refusal:
    removal = removal_simulation.remove(removal_simulation.row(candidate.name))
    outcome = _worked_out(candidate, removal, context)
    if isinstance(outcome, Refusal):
        return outcome
    move = Move(candidate, removal.draft, outcome)
    if candidate.pool.consolidation_policy == BALANCED and not approves(_command(move, context), context):
        return Refusal(RefusalCode.NOT_BALANCED, candidate.ref)
    return move


def _command(move: Move, context: PassContext) -> Command:
    replacements: tuple[Draft, ...] = ()
    if move.draft is not None:
        narrowed = narrow_to_cheaper((move.candidate,), move.draft, context)
        assert isinstance(narrowed, Draft), f"a move that saves something is worth it: {narrowed}"
        replacements = (narrowed,)
    return Command(SingleNode.name, SingleNode.reason, (move.candidate,), replacements)


def could_go(candidate: Candidate, context: PassContext) -> bool:
    """Whether a node could be deleted, or replaced by something cheaper, were budgets and all others out of the way."""
    removal_simulation = context.removal_simulation(consolidating=True)
    return not isinstance(
        _worked_out(candidate, removal_simulation.remove(removal_simulation.row(candidate.name)), context), Refusal
    )


def _worked_out(candidate: Candidate, removal: Removal, context: PassContext) -> float | Refusal:
    """What the removal of a node saves an hour, or why it stays."""
    if removal.kind == "stay" and removal.blocker is not None:
        pod, limits = removal.blocker.key, removal.limits
        return Refusal(RefusalCode.UNSCHEDULABLE, candidate.ref, pod=pod, limits=limits, reason=SingleNode.reason)
    if removal.kind == "stay":
        return cant_replace(candidate)
    return candidate.price if removal.draft is None else _saved(candidate, removal.draft, context)


def _saved(candidate: Candidate, draft: Draft, context: PassContext) -> float | Refusal:
    quick = saving(candidate, draft)
    if quick is not None:
        return quick
    narrowed = narrow_to_cheaper((candidate,), draft, context)
    return narrowed if isinstance(narrowed, Refusal) else candidate.price - cheapest(narrowed)
