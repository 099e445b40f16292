"""Plans one disruption pass: every command that starts together, and for every other node why it stays.

`plan_methods` tries the methods in order. Expiration and drift may propose several commands at once. Single-node
consolidation proposes one, then another as if the first were in flight, and so on up to `MOST_SINGLE_NODES`. Budgets,
NodePool limits and free capacity are shared, because commands planned before count as started (`in_flight`).

`plan_pass` then does what the controller does with the proposals. The first method with a command that can start acts,
and no other. Consolidation commands are validated `VALIDATION_DELAY` later: here on the same snapshot at a later time,
in the controller on a fresh one. So on a cluster that does not change meanwhile, a `PassPlan` holds the commands that
the controller starts.

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
from dovetail.core.failure import attempt, internal_error
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
    """The commands of one method in a pass, and why it refuses every other node."""

    method: Method
    commands: tuple[Command, ...]
    refusals: tuple[Refusal, ...]
    eligible: int  # candidates that the method does not refuse

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
    """What each method that was tried proposes, whether or not it acts in this pass."""
    wakeup_at: datetime | None = None
    """If no command starts: when a pass over the same cluster could decide differently; None if no time is known."""
    context: PassContext | None = field(default=None, compare=False, repr=False)
    """The pass that was planned, for explanations."""

    @property
    def saving(self) -> float:
        """Dollars an hour."""
        return sum(command.saving for command in self.commands)


def plan_disruption(snapshot: Snapshot, options: DecisionOptions | None = None, *, thorough: bool = False) -> PassPlan:
    """Plan one pass over a snapshot."""
    return plan_pass(PassContext(snapshot, options or DecisionOptions()), thorough=thorough)


class Planner:
    """Plans one pass after the other and reuses what has not changed in between."""

    def __init__(self, options: DecisionOptions | None = None) -> None:
        self._options = options or DecisionOptions()
        self._simulations = SimulationCache()

    def context(
        self, snapshot: Snapshot, backing_off: Mapping[tuple[str, Reason], datetime] | None = None
    ) -> PassContext:
        """The context of a pass over this snapshot."""
        return PassContext(snapshot, self._options, backing_off or {}, self._simulations)

    def plan(self, snapshot: Snapshot, *, thorough: bool = False) -> PassPlan:
        """Plan one pass over this snapshot."""
        return plan_pass(self.context(snapshot), thorough=thorough)


def plan_pass(context: PassContext, *, thorough: bool = False, methods: Sequence[Method] = METHODS) -> PassPlan:
    """Plan the whole pass. With `thorough`, the methods after the one that acts are tried as well."""
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
        context=context,
    )


def plan_methods(context: PassContext, methods: Sequence[Method] = METHODS) -> Iterator[MethodPlan]:
    """The plan of each method, in order.

    Single-node consolidation is yielded after each further command, so that callers can let other tasks run in between:
    the last value counts. If an earlier method has commands, it plans only one: it acts only if those cannot start.
    """
    has_commands = False
    for method in methods:
        proposal = consider(method, context)
        plan = MethodPlan(method, proposal.commands, proposal.refusals, proposal.eligible)
        yield plan
        if method.name == SingleNode.name and plan.commands and not has_commands:
            yield from _plan_further(plan, context)
        has_commands = has_commands or bool(plan.commands)


def _plan_further(plan: MethodPlan, context: PassContext) -> Iterator[MethodPlan]:
    """The plan with more commands, each proposed as if those before it were in flight."""
    ahead = look_ahead(context, plan.commands)
    while len(plan.commands) < MOST_SINGLE_NODES:
        further = consider(plan.method, ahead)
        commands = (*plan.commands, *further.commands)
        before, ahead = ahead, look_ahead(context, commands)
        if further.commands and crowded(ahead, before):
            return
        plan = replace(plan, commands=commands, refusals=_merge(plan, further))
        yield plan
        if not further.commands:
            return


def _merge(plan: MethodPlan, further: Proposal) -> tuple[Refusal, ...]:
    """The refusals of both: a node that was only not the best before gets its refusal from the further proposal."""
    latest = {refusal.object: refusal for refusal in further.refusals}
    taken = {each.ref for command in further.commands for each in command.candidates}
    return tuple(
        latest.get(each.object, each) if each.code is RefusalCode.NOT_THE_BEST else each
        for each in plan.refusals
        if each.object not in taken
    )


def _validate(plan: MethodPlan, context: PassContext) -> MethodPlan:
    """The plan after validation: the commands that are still valid, and a refusal for every node that was dropped."""
    valid: list[Command] = []
    refusals = list(plan.refusals)
    for command in plan.commands:
        about = command.candidates[0].ref
        checked = attempt(about, partial(revalidate, command, context, tuple(valid)))
        if isinstance(checked, Refusal):
            refusals += _refused(command.candidates, checked)
            continue
        valid.append(checked)
        names = {each.name for each in checked.candidates}
        dropped = [each for each in command.candidates if each.name not in names]
        refusals += _refused(dropped, Refusal(RefusalCode.CANDIDATES_CHANGED, about))
    return replace(plan, commands=tuple(valid), refusals=tuple(refusals))


def consider(method: Method, context: PassContext) -> Proposal:
    """What one method proposes. Every managed node ends in a command or with a refusal."""
    candidates, node_refusals = context.candidates(eventual=method.eventual)
    eligible = []
    refusals = list(node_refusals)
    pods_wait = bool(context.waiting)
    for candidate in candidates:
        try:  # as `attempt` does, without the cost of a call for every node and method
            refusal = method.refusal(candidate, context)
            if refusal is None and pods_wait:
                refusal = expecting(method, candidate, context)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - an error about one node must not stop the others
            refusal = internal_error(candidate.ref, error)
        if refusal is None:
            eligible.append(candidate)
        else:
            refusals.append(refusal)
    proposal = _propose(method, eligible, context) if eligible else Proposal()
    return Proposal(proposal.commands, (*refusals, *proposal.refusals), len(eligible))


def _propose(method: Method, candidates: Sequence[Candidate], context: PassContext) -> Proposal:
    """What a method proposes. If it raises an error, NodePools are tried one by one, and those that fail are refused.

    Only one NodePool then gets commands in a pass: commands that were planned separately may not fit together.
    """
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
