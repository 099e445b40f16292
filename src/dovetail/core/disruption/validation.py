"""Whether a command that was decided a moment ago still holds on a fresh snapshot.

Consolidation waits a little before it acts, so that a cluster in motion is not disrupted on yesterday's news. Emptiness
goes on with the nodes that still qualify. So does a set of nodes that needs no replacement, while it is a set: that a
pod came to one of a hundred nodes is no reason to keep the others. What has replacements is all or nothing.
"""

from collections.abc import Collection

from dovetail.core.disruption.balanced_policy import approves
from dovetail.core.disruption.candidates import Candidate, price_ceiling
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.drain_deadlock import stall_refusal
from dovetail.core.disruption.in_flight import crowded, look_ahead
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method, expecting
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.replacement_launch import replacement_refusal
from dovetail.core.scheduling.removal import Bounds
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode

VALIDATED = frozenset({Reason.EMPTY, Reason.UNDERUTILIZED})
"""The reasons whose commands are looked at twice."""
SMALLEST_SET = 2
"""Nodes that a set is left with if it goes on without some; fewer are for another method to look at."""


def revalidate(command: Command, context: PassContext, before: Collection[Command] = ()) -> Command | Refusal:
    """The command as it stands now beside those `before` it, which were just started, or why it no longer does."""
    look = look_ahead(context, before)
    checked = _looked_at(command, look)
    if isinstance(checked, Refusal) or _sees_to_its_own(checked, look):
        return checked
    if crowded(look_ahead(context, (*before, checked)), look):
        return _gone(command, RefusalCode.SIMULATION_CHANGED, "once it is under way a pod is left without a place")
    return checked


def _sees_to_its_own(command: Command, context: PassContext) -> bool:
    """Whether its pods are the only ones that need a place, and have been given one without a word from any rule."""
    if context.waiting or command.replacements:
        return False
    if command.reason == Reason.EMPTY:
        return True
    removal_simulation = context.removal_simulation(consolidating=True)
    return all(removal_simulation.unruled(removal_simulation.row(each.name)) for each in command.candidates)


def _looked_at(command: Command, context: PassContext) -> Command | Refusal:
    method = next(each for each in METHODS if each.name == command.method)
    survivors = _survivors(command, method, context)
    if command.reason == Reason.EMPTY:
        allowed = _within_budget(survivors, method, context)
        if allowed:
            return Command(command.method, command.reason, tuple(allowed))
        return _gone(command, RefusalCode.CANDIDATES_CHANGED, "no candidate is empty any more")
    allowed = _within_budget(survivors, method, context)
    if len(allowed) == len(command.candidates):
        return _simulated_again(command, allowed, context)
    if not command.replacements and len(allowed) >= SMALLEST_SET:
        smaller = _simulated_again(command, allowed, context)
        if isinstance(smaller, Command) and approves(smaller, context):
            return smaller
    if len(survivors) != len(command.candidates):
        return _gone(command, RefusalCode.CANDIDATES_CHANGED, "a candidate is no longer eligible")
    return _gone(command, RefusalCode.BUDGETS_CHANGED, "it no longer allows all candidates")


def _survivors(command: Command, method: Method, context: PassContext) -> list[Candidate]:
    names = {each.name for each in command.candidates}
    fresh = context.candidates_among(names, eventual=method.eventual)
    wanted = (each for each in fresh if method.refusal(each, context) is None)
    return [each for each in wanted if expecting(method, each, context) is None]


def _within_budget(survivors: list[Candidate], method: Method, context: PassContext) -> list[Candidate]:
    budget_tracker = context.budget_tracker(method.reason)
    return [each for each in survivors if budget_tracker.take(each) is None]


def _simulated_again(command: Command, survivors: list[Candidate], context: PassContext) -> Command | Refusal:
    removal_simulation = context.removal_simulation(consolidating=True)
    ceiling = price_ceiling(survivors)
    bounds = Bounds(below=ceiling, most_drafts=int(ceiling > 0))
    outcome = removal_simulation.remove_together([removal_simulation.row(each.name) for each in survivors], bounds)
    if outcome.blocker is not None or len(outcome.drafts) != len(command.replacements):
        return _gone(command, RefusalCode.SIMULATION_CHANGED, "the simulation produced new results")
    for planned, fresh in zip(command.replacements, outcome.drafts, strict=True):
        if not planned.type_names <= fresh.type_names:
            return _gone(command, RefusalCode.SIMULATION_CHANGED, "the replacement could be something else by now")
    hindrance = stall_refusal(survivors, context, len(command.replacements)) or replacement_refusal(
        survivors, command.replacements, bounds, context, consolidating=True
    )
    if hindrance is not None:
        return Refusal(RefusalCode.SIMULATION_CHANGED, command.candidates[0].ref, cause=hindrance)
    return Command(command.method, command.reason, tuple(survivors), command.replacements)


def _gone(command: Command, code: RefusalCode, why: str) -> Refusal:
    return Refusal(code, command.candidates[0].ref, detail=why)
