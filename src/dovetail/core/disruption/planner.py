"""The whole decision: which nodes to disrupt next, and for every other node what stands in the way.

Methods are asked in order and the first with a command acts. With `thorough`, all of them are asked, so that every node
can be told what each method thinks of it; only the first with a command counts as what would be done.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import msgspec

from dovetail.core.disruption.budgets import BudgetAllowance
from dovetail.core.disruption.candidate_cache import CandidateCache
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method, Proposal, expecting
from dovetail.core.disruption.pass_context import Gates, PassContext
from dovetail.core.disruption.simulation_cache import SimulationCache
from dovetail.core.failure import attempt
from dovetail.model.reason import Reason
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode
from dovetail.model.snapshot import Snapshot


@dataclass(frozen=True)
class Plan:
    """What the next pass would do, and why not more."""

    at: datetime
    commands: tuple[Command, ...]
    refusals_by_method: Mapping[str, tuple[Refusal, ...]]
    allowances: Mapping[tuple[str, Reason], BudgetAllowance]
    commands_by_method: Mapping[str, tuple[Command, ...]] = field(default_factory=dict)
    """What each method that was asked would do, were it its turn."""
    eligible_by_method: Mapping[str, int] = field(default_factory=dict)
    """How many nodes each method that was asked was interested in."""

    @property
    def saving(self) -> float:
        """What it saves an hour."""
        return sum(command.saving for command in self.commands)


def plan_disruption(snapshot: Snapshot, gates: Gates | None = None, *, thorough: bool = False) -> Plan:
    """Decide."""
    return plan_pass(PassContext(snapshot, gates or Gates()), thorough=thorough)


class Planner:
    """Plans one pass after the other; what has not changed in between is not worked out again."""

    def __init__(self, gates: Gates | None = None) -> None:
        self._gates = gates or Gates()
        self._simulations = SimulationCache()
        self._book = CandidateCache()

    def plan(self, snapshot: Snapshot, *, thorough: bool = False) -> Plan:
        """Decide on this snapshot."""
        context = PassContext(snapshot, self._gates, simulations=self._simulations, book=self._book)
        return plan_pass(context, thorough=thorough)


def plan_pass(context: PassContext, *, thorough: bool = False, methods: Sequence[Method] = METHODS) -> Plan:
    """Decide in a context that may know more than the snapshot tells; `methods` are those still to be asked."""
    snapshot = context.snapshot
    commands: tuple[Command, ...] = ()
    refusals: dict[str, tuple[Refusal, ...]] = {}
    proposed: dict[str, tuple[Command, ...]] = {}
    eligible: dict[str, int] = {}
    for method in methods:
        proposal = consider(method, context)
        refusals[method.name] = proposal.refusals
        proposed[method.name] = proposal.commands
        eligible[method.name] = proposal.eligible
        if proposal.commands and not commands:
            commands = proposal.commands
        if commands and not thorough:
            break
    allowances = {
        (pool, reason): context.allowance(pool, reason)
        for pool in sorted(snapshot.nodepools)
        for reason in (method.reason for method in METHODS)
    }
    return Plan(snapshot.at, commands, refusals, allowances, proposed, eligible)


def consider(method: Method, context: PassContext) -> Proposal:
    """Ask one method about every managed node: each ends in a command or with a refusal."""
    candidates, refusals = context.candidates(eventual=method.eventual)
    interesting = []
    said = list(refusals)
    name, awaited = method.name, bool(context.waiting)
    for candidate, known in zip(candidates, context.said(eventual=method.eventual), strict=True):
        if name in known:
            refusal = known[name]
        else:
            refusal = attempt(candidate.ref, partial(method.refusal, candidate, context))
            known[name] = refusal
        if refusal is None and awaited:
            refusal = attempt(candidate.ref, partial(expecting, method, candidate, context))
        if refusal is None:
            interesting.append(candidate)
        else:
            said.append(refusal)
    proposal = _propose(method, interesting, context) if interesting else Proposal()
    return Proposal(proposal.commands, (*said, *proposal.refusals), len(interesting))


def _propose(method: Method, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
    """What a method proposes. If it breaks, pools are asked one by one: one at which it breaks is left alone."""
    proposal = attempt(ObjectRef("", ""), partial(method.propose, candidates, context))
    if isinstance(proposal, Proposal):
        return proposal
    commands: tuple[Command, ...] = ()
    refusals: list[Refusal] = []
    for pool in sorted({each.pool.name for each in candidates}):
        own = [each for each in candidates if each.pool.name == pool]
        if commands:
            refusals += _refused(own, Refusal(RefusalCode.NEXT_PASS, ObjectRef("", ""), nodepool=pool))
            continue
        alone = attempt(ObjectRef("nodepool", pool), partial(method.propose, own, context))
        if isinstance(alone, Proposal):
            commands = alone.commands
            refusals += alone.refusals
        else:
            refusals += _refused(own, alone)
    return Proposal(commands, tuple(refusals))


def _refused(candidates: Iterable[Candidate], refusal: Refusal) -> list[Refusal]:
    """The same refusal for each of some nodes."""
    return [msgspec.structs.replace(refusal, object=each.ref) for each in candidates]
