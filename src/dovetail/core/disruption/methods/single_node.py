"""Single-node consolidation: deletes one node, or replaces it by a cheaper one.

Every candidate is simulated, and the best move is taken, not the first that works: the one that saves most, or with
minSavings the one that saves most for its evictions. The drain and the launch of the replacement are checked for the
best moves only, because these checks are expensive.
"""

import math
from collections.abc import Iterator, Sequence

import msgspec

from dovetail.core.disruption.balanced_policy import BALANCED, approves
from dovetail.core.disruption.candidates import Candidate, least_disruptive_first
from dovetail.core.disruption.command import Command
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
from dovetail.core.disruption.restraint import required_saving, savings_refusal
from dovetail.core.scheduling.draft import Draft, cheapest
from dovetail.core.scheduling.removal import Bounds, Removal
from dovetail.core.scheduling.removal_simulation import RemovalSimulation
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode


class SingleNode:
    """One node, with no replacement or one cheaper one."""

    name = "single-node"
    reason = Reason.UNDERUTILIZED
    eventual = False
    gives_way = True

    def refusal(self, candidate: Candidate, context: PassContext) -> Refusal | None:
        """The first reason not to consolidate the node, or None."""
        return consolidation_refusal(candidate, context)

    def refusals(self, candidate: Candidate, context: PassContext) -> Iterator[Refusal]:
        """Every reason not to consolidate the node."""
        return consolidation_refusals(candidate, context)

    def propose(self, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
        """The best move; among equals the least disruptive one."""
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
    """A node that can be removed, its replacement before `narrow_to_cheaper`, and what the move is worth."""

    candidate: Candidate
    draft: Draft | None
    worth: tuple[float, float]  # the saving over what minSavings requires, and the saving


def _best(moves: list[Move], refusals: list[Refusal], context: PassContext) -> Move | None:
    """The best move of those that can start now. Moves that cannot are taken from `moves` and refused."""
    for move in sorted(moves, key=lambda move: move.worth, reverse=True):
        refusal = _start_refusal(move, context)
        if refusal is None:
            return move
        moves.remove(move)
        refusals.append(refusal)
    return None


def _start_refusal(move: Move, context: PassContext) -> Refusal | None:
    """Why a move cannot start now: its drain would deadlock, or its replacement may not be launched."""
    stall = stall_refusal((move.candidate,), context, int(move.draft is not None))
    if stall is not None or move.draft is None:
        return stall
    bounds = Bounds(below=move.candidate.price, max_drafts=1)
    return replacement_refusal((move.candidate,), (move.draft,), bounds, context, consolidating=True)


def _move(candidate: Candidate, removal_simulation: RemovalSimulation, context: PassContext) -> Move | Refusal:
    removal = removal_simulation.remove(removal_simulation.row(candidate.name))
    saved = _removal_saving(candidate, removal, context)
    if isinstance(saved, Refusal):
        return saved
    refusal = savings_refusal((candidate,), saved, context)
    if refusal is not None:
        return refusal
    required = required_saving((candidate,), context)
    move = Move(candidate, removal.draft, (saved / required if required > 0 else math.inf, saved))
    if candidate.pool.consolidation_policy == BALANCED and not approves(_command(move, context), context):
        return Refusal(RefusalCode.NOT_BALANCED, candidate.ref)
    return move


def _command(move: Move, context: PassContext) -> Command:
    replacements: tuple[Draft, ...] = ()
    if move.draft is not None:
        narrowed = narrow_to_cheaper((move.candidate,), move.draft, context)
        assert isinstance(narrowed, Draft), f"a move that saves something has a cheaper replacement: {narrowed}"
        replacements = (narrowed,)
    return Command(SingleNode.name, SingleNode.reason, (move.candidate,), replacements)


def is_removable(candidate: Candidate, context: PassContext) -> bool:
    """Whether a node could be deleted or replaced by a cheaper one, without regard to budgets and other nodes."""
    removal_simulation = context.removal_simulation(consolidating=True)
    removal = removal_simulation.remove(removal_simulation.row(candidate.name))
    return not isinstance(_removal_saving(candidate, removal, context), Refusal)


def _removal_saving(candidate: Candidate, removal: Removal, context: PassContext) -> float | Refusal:
    """What the removal of a node saves, in dollars an hour, or why it stays."""
    if removal.kind == "stay" and removal.blocker is not None:
        pod, limits = removal.blocker.key, removal.limits
        return Refusal(RefusalCode.UNSCHEDULABLE, candidate.ref, pod=pod, limits=limits, reason=SingleNode.reason)
    if removal.kind == "stay":
        return cant_replace(candidate)
    if removal.draft is None:
        return candidate.price
    quick = saving(candidate, removal.draft)
    if quick is not None:
        return quick
    narrowed = narrow_to_cheaper((candidate,), removal.draft, context)
    return narrowed if isinstance(narrowed, Refusal) else candidate.price - cheapest(narrowed)
