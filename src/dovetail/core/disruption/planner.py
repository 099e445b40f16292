"""Plans one disruption pass: every command that starts together, and for every other node why it stays.

`plan_methods` asks the methods in order. Expiration and drift may propose several commands at once. Single-node
consolidation proposes one, then another as if the first were under way, and so on up to `MOST_SINGLE_NODES`. Budgets,
NodePool limits and free room are shared, because commands planned before count as started (`ahead`).

`plan_pass` then does what the controller does with the proposals. The first method of which a command can start acts,
and no other. What consolidation proposes is validated `VALIDATION_DELAY` later: here on the same snapshot with the
clock moved on, in the controller on a fresh one. So on a cluster that does not change meanwhile, a `PassPlan` holds the
commands that the controller starts.

Cost: one evaluation of every candidate for each method, and one more for each further single-node command.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby

import msgspec

from dovetail.core.disruption.budgets import BudgetAllowance
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.in_flight import crowded, look_ahead
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method, Proposal, expecting
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.simulation_cache import SimulationCache
from dovetail.core.disruption.validation import VALIDATED, revalidate
from dovetail.core.failure import attempt
from dovetail.model.instants import add
from dovetail.model.reason import Reason
from dovetail.model.refusal import ObjectRef, Refusal, RefusalCode
from dovetail.model.snapshot import Snapshot
from dovetail.settings import DecisionOptions

VALIDATION_DELAY = timedelta(seconds=15)
MOST_SINGLE_NODES = 10
"""How many single-node commands may wait for their validation together."""


@dataclass(frozen=True)
class MethodPlan:
    """What one method proposes in a pass, and why it leaves every other node alone."""

    method: Method
    commands: tuple[Command, ...]
    refusals: tuple[Refusal, ...]
    eligible: int  # candidates the method is interested in

    @property
    def validated(self) -> bool:
        """Whether its commands are validated before they start."""
        return self.method.reason in VALIDATED


@dataclass(frozen=True)
class PassPlan:
    """The commands that the next pass starts, and why not more."""

    at: datetime
    commands: tuple[Command, ...]
    refusals_by_method: Mapping[str, tuple[Refusal, ...]]
    allowances: Mapping[tuple[str, Reason], BudgetAllowance]
    commands_by_method: Mapping[str, tuple[Command, ...]] = field(default_factory=dict)
    """What each method that was asked would do, were it its turn."""
    wakeup_at: datetime | None = None
    """Where no command starts: when a pass over the same cluster could come out differently, if ever by itself."""

    @property
    def saving(self) -> float:
        """What it saves an hour."""
        return sum(command.saving for command in self.commands)


def plan_disruption(snapshot: Snapshot, options: DecisionOptions | None = None, *, thorough: bool = False) -> PassPlan:
    """Plan one pass over a snapshot."""
    return plan_pass(PassContext(snapshot, options or DecisionOptions()), thorough=thorough)


class Planner:
    """Plans one pass after the other; what has not changed in between is not worked out again."""

    def __init__(self, options: DecisionOptions | None = None) -> None:
        self._options = options or DecisionOptions()
        self._simulations = SimulationCache()

    def context(
        self, snapshot: Snapshot, backing_off: Mapping[tuple[str, Reason], datetime] | None = None
    ) -> PassContext:
        """A pass over this snapshot."""
        return PassContext(snapshot, self._options, backing_off or {}, self._simulations)

    def plan(self, snapshot: Snapshot, *, thorough: bool = False) -> PassPlan:
        """Plan one pass over this snapshot."""
        return plan_pass(self.context(snapshot), thorough=thorough)


def plan_pass(context: PassContext, *, thorough: bool = False, methods: Sequence[Method] = METHODS) -> PassPlan:
    """The whole pass. With `thorough`, methods after the one that acts are asked, too, what they think of each node."""
    snapshot = context.snapshot
    later = context.with_snapshot(replace(snapshot, at=add(snapshot.at, VALIDATION_DELAY)))
    plans: list[MethodPlan] = []
    commands: tuple[Command, ...] = ()
    for _, steps in groupby(plan_methods(context, methods), key=lambda plan: plan.method.name):
        *_, plan = steps
        if plan.validated and plan.commands and not commands:
            plan = _validate(plan, later)
        plans.append(plan)
        commands = commands or plan.commands
        if commands and not thorough:
            break
    return PassPlan(
        at=snapshot.at,
        commands=commands,
        refusals_by_method={plan.method.name: plan.refusals for plan in plans},
        allowances={
            (pool, method.reason): context.allowance(pool, method.reason)
            for pool in sorted(snapshot.nodepools)
            for method in METHODS
        },
        commands_by_method={plan.method.name: plan.commands for plan in plans},
        wakeup_at=None if commands else context.wakeup_at,
    )


def plan_methods(context: PassContext, methods: Sequence[Method] = METHODS) -> Iterator[MethodPlan]:
    """What each method proposes, in order.

    A method that proposes one command after the other is yielded after each of them, so that callers can let other
    tasks run in between: the last value counts. One command is enough of a method that only acts if those of another
    method cannot start.
    """
    spare = False
    for method in methods:
        proposal = consider(method, context)
        plan = MethodPlan(method, proposal.commands, proposal.refusals, proposal.eligible)
        yield plan
        if method.name == SingleNode.name and plan.commands and not spare:
            yield from _plan_further(plan, context)
        spare = spare or bool(plan.commands)


def _plan_further(plan: MethodPlan, context: PassContext) -> Iterator[MethodPlan]:
    """The plan with more commands, each proposed as if those before it were under way."""
    look = look_ahead(context, plan.commands)
    while len(plan.commands) < MOST_SINGLE_NODES:
        further = consider(plan.method, look)
        commands = (*plan.commands, *further.commands)
        before, look = look, look_ahead(context, commands)
        if further.commands and crowded(look, before):
            return
        plan = replace(plan, commands=commands, refusals=_merge(plan, further))
        yield plan
        if not further.commands:
            return


def _merge(plan: MethodPlan, further: Proposal) -> tuple[Refusal, ...]:
    """Why nodes stay: a node that could have gone before learns what further proposals have against it."""
    latest = {refusal.object: refusal for refusal in further.refusals}
    going = {each.ref for command in further.commands for each in command.candidates}
    return tuple(
        latest.get(each.object, each) if each.code is RefusalCode.NOT_THE_BEST else each
        for each in plan.refusals
        if each.object not in going
    )


def _validate(plan: MethodPlan, context: PassContext) -> MethodPlan:
    """The plan after its validation: the commands that hold, and a refusal for every node that stays after all."""
    held: list[Command] = []
    refusals = list(plan.refusals)
    for command in plan.commands:
        about = command.candidates[0].ref
        checked = attempt(about, partial(revalidate, command, context, tuple(held)))
        if isinstance(checked, Refusal):
            refusals += _refused(command.candidates, checked)
            continue
        held.append(checked)
        names = {each.name for each in checked.candidates}
        dropped = [each for each in command.candidates if each.name not in names]
        refusals += _refused(dropped, Refusal(RefusalCode.CANDIDATES_CHANGED, about))
    return replace(plan, commands=tuple(held), refusals=tuple(refusals))


def consider(method: Method, context: PassContext) -> Proposal:
    """Ask one method about every managed node: each ends in a command or with a refusal."""
    candidates, refusals = context.candidates(eventual=method.eventual)
    interesting = []
    said = list(refusals)
    awaited = bool(context.waiting)
    for candidate in candidates:
        refusal = attempt(candidate.ref, partial(method.refusal, candidate, context))
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
