"""Single-node consolidation: every node is looked at, and the best move is taken, not the first."""

from collections.abc import Iterator, Sequence

from dovetail.core.disruption.balance import approves
from dovetail.core.disruption.candidates import Candidate, least_disruptive
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.context import Context
from dovetail.core.disruption.methods.base import Proposal
from dovetail.core.disruption.methods.consolidating import (
    CANT_REPLACE,
    consolidation_refusal,
    consolidation_refusals,
    worth_it,
)
from dovetail.core.scheduling.draft import Draft
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal


class SingleNode:
    """One node, none or one cheaper replacement."""

    name = "single-node"
    reason = Reason.UNDERUTILIZED
    eventual = False

    def refusal(self, candidate: Candidate, context: Context) -> Refusal | None:
        """Why consolidation is not interested in a node, or None."""
        return consolidation_refusal(candidate, context)

    def refusals(self, candidate: Candidate, context: Context) -> Iterator[Refusal]:
        """Everything consolidation has against a node."""
        return consolidation_refusals(candidate, context)

    def propose(self, candidates: Sequence[Candidate], context: Context) -> Proposal:
        """The move that saves most; among equals the one that hurts least."""
        purse = context.purse(self.reason)
        refusals: list[Refusal] = []
        moves: list[Command] = []
        for candidate in least_disruptive(candidates):
            found = purse.refusal(candidate) or self._move(candidate, context)
            if isinstance(found, Command):
                moves.append(found)
            else:
                refusals.append(found)
        best = max(moves, key=lambda move: move.saving, default=None)
        for move in moves:
            if move is not best:
                why = "could go, but another node saves more; one at a time"
                refusals.append(Refusal("NotTheBest", f"node/{move.candidates[0].name}", why))
        return Proposal((best,) if best is not None else (), tuple(refusals))

    def _move(self, candidate: Candidate, context: Context) -> Command | Refusal:
        about = f"node/{candidate.name}"
        sweep = context.sweep(consolidating=True)
        removal = sweep.remove(sweep.row(candidate.name))
        if removal.kind == "stay":
            if removal.blocker is None:
                return Refusal("CantReplace", about, CANT_REPLACE)
            why = f"{CANT_REPLACE}: {removal.blocker.key} has no other place"
            return Refusal("Unschedulable", about, why)
        replacements: tuple[Draft, ...] = ()
        if removal.draft is not None:
            narrowed = _narrowed(candidate, removal.draft, context)
            if isinstance(narrowed, str):
                return Refusal("CantReplace", about, narrowed)
            replacements = (narrowed,)
        command = Command(self.name, self.reason, (candidate,), replacements)
        if not approves(command, context):
            return Refusal("NotBalanced", about, "saves too little for the disruption it causes")
        return command


def _narrowed(candidate: Candidate, draft: Draft, context: Context) -> Draft | str:
    """The replacement if it is worth it, or why it is not. The same draft for the same node is looked at once."""
    kept = context.simulations.replacements
    sources = (draft, candidate.node, candidate.instance_type, candidate.price, context.gates)
    known = kept.get(candidate.name)
    if known is None or not all(a is b for a, b in zip(known[0], sources, strict=True)):
        known = kept[candidate.name] = sources, worth_it((candidate,), draft, context)
    return known[1]
