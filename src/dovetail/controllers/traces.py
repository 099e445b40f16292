"""The spans of decisions: which trace they belong to, and the root spans, which are recorded when a decision ends.

A launch for pending pods and a removal without a command are traces of their own. The launch of a replacement, and the
removal of a candidate, are parts of the trace of their command. Their times come from the API objects, so a process
that started later records the same spans; the timestamps of conditions have whole seconds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.ledger_entries import launch_id, removal_id
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import MethodPlan
from dovetail.core.provisioning.plan import ProvisioningPlan
from dovetail.model.command import REPLACES_ANNOTATION, CommandState, taken_by
from dovetail.model.conditions import find
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from dovetail.model.nodeclaim import (
    DISRUPTION_REASON,
    DRAINED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    REGISTERED,
    VOLUMES_DETACHED,
    NodeClaim,
)
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal
from dovetail.ports.ledger import DecisionOutcome
from dovetail.ports.tracing import Attribute, SpanRef

Step = tuple[str, datetime, datetime]
_LAUNCH_STEPS = (("", LAUNCHED), ("register node", REGISTERED), ("initialize node", INITIALIZED))
_REMOVAL_STEPS = (("drain", DRAINED), ("detach volumes", VOLUMES_DETACHED))


def launch_span(claim: NodeClaim) -> SpanRef:
    """Return the span of a claim's launch."""
    command = claim.metadata.annotations.get(REPLACES_ANNOTATION, "")
    return SpanRef(command, f"launch {claim.metadata.uid}") if command else SpanRef(launch_id(claim))


def removal_span(claim: NodeClaim) -> SpanRef:
    """Return the span of a claim's termination."""
    record = taken_by(claim)
    return SpanRef(record.id, f"remove {claim.metadata.uid}") if record is not None else SpanRef(removal_id(claim))


def command_facts(command: Command) -> dict[str, Attribute]:
    """Return the attributes of a planned command."""
    return {
        "reason": command.reason,
        "method": command.method,
        "nodes": [each.name for each in command.candidates],
        "nodepools": sorted({each.pool.name for each in command.candidates}),
        "replacements": len(command.replacements),
        "pods": sum(len(each.pods_to_reschedule) for each in command.candidates),
    }


def refusal_counts(refusals: Sequence[Refusal]) -> dict[str, Attribute]:
    """Return the number of refusals as attributes: all, and by code."""
    return {"refused": len(refusals), "refusals": dict(Counter(str(each.code) for each in refusals))}


def provisioning_facts(plan: ProvisioningPlan) -> dict[str, Attribute]:
    """Return the attributes of a provisioning pass."""
    return {
        "launches": len(plan.launches),
        "nodepools": sorted({each.claim.nodepool_name for each in plan.launches}),
        "pods": sum(len(each.pods) for each in plan.launches) + len(plan.node_by_pod),
        **refusal_counts(plan.refusals),
    }


class PlanSpans:
    """The spans of the methods of one pass. Planning yields between them, and the last plan of a method counts."""

    def __init__(self, context: ControllerContext, planned: PassContext) -> None:
        self._tracer, self._clock = context.tracer, context.clock
        self._plans: dict[str, tuple[datetime, datetime, MethodPlan]] = {}
        if self._tracer.enabled:
            with self._tracer.span("candidates") as span:  # the first method would compute them
                candidates, refusals = planned.candidates(eventual=METHODS[0].eventual)
                span.set(candidates=len(candidates), **refusal_counts(refusals))
            self._previous = self._clock.now()

    def planned(self, plan: MethodPlan) -> None:
        """Note that a method was planned until now."""
        if not self._tracer.enabled:
            return
        now, name = self._clock.now(), plan.method.name
        began_at = self._plans[name][0] if name in self._plans else self._previous
        self._plans[name] = (began_at, now, plan)
        self._previous = now

    def record(self) -> None:
        """Record the spans."""
        for began_at, ended_at, plan in self._plans.values():
            self._tracer.record(
                f"method {plan.method.name}",
                (began_at, ended_at),
                None,
                method=plan.method.name,
                reason=plan.method.reason,
                candidates=plan.eligible,
                commands=len(plan.commands),
                **refusal_counts(plan.refusals),
            )


def record_command(context: ControllerContext, state: CommandState, outcome: DecisionOutcome, why: str = "") -> None:
    """Record a command that has ended."""
    if not context.tracer.enabled:
        return
    record = state.record
    context.tracer.record(
        "disruption command",
        (record.started_at, context.clock.now()),
        SpanRef(record.id),
        command=record.id,
        reason=record.reason,
        method=record.method,
        nodepools=sorted({claim.nodepool_name for claim in state.candidates}),
        nodes=sorted(claim.status.node_name for claim in state.candidates),
        replacements=record.replacements,
        cost_before=record.cost_before,
        cost_after=record.cost_after,
        outcome=outcome,
        error="" if outcome is DecisionOutcome.DONE else why,
    )


def record_launch(context: ControllerContext, claim: NodeClaim, failure: str = "") -> None:
    """Record the launch of a claim that is initialized or was deleted before, with the steps that it completed."""
    began_at, tracer = claim.metadata.creation_timestamp, context.tracer
    if not tracer.enabled or began_at is None:
        return
    own = launch_span(claim)
    outcome = str(DecisionOutcome.FAILED if failure else DecisionOutcome.DONE)
    now = context.clock.now()
    tracer.record("nodeclaim launch", (began_at, now), own, **_facts(claim), outcome=outcome, error=failure)
    for name, since, until in _steps(claim, began_at, _LAUNCH_STEPS):
        tracer.record(name, (since, until), own.step(name), nodeclaim=claim.name)


def record_removal(context: ControllerContext, claim: NodeClaim) -> None:
    """Record the termination of a claim whose finalizer was removed, with its steps; and a launch that it ended."""
    began_at, tracer = claim.metadata.deletion_timestamp, context.tracer
    if not tracer.enabled or began_at is None:
        return
    own, now = removal_span(claim), context.clock.now()
    reason, cause = find(claim.status.conditions, DISRUPTION_REASON), context.removal_reasons.get(claim.metadata.uid)
    why = cause or (reason.reason if reason is not None else str(Reason.MANUAL))
    tracer.record("node termination", (began_at, now), own, **_facts(claim), reason=why, outcome=DecisionOutcome.DONE)
    if not claim.has(INITIALIZED):
        record_launch(context, claim, f"deleted before it was initialized: {why}")
    steps = [*_steps(claim, began_at, _REMOVAL_STEPS)]
    terminating = find(claim.status.conditions, INSTANCE_TERMINATING)
    if terminating is not None and terminating.last_transition_time is not None:
        steps.append(("terminate instance", terminating.last_transition_time, now))
    for name, since, until in steps:
        tracer.record(name, (since, until), own.step(name), node=claim.status.node_name)


def _steps(claim: NodeClaim, began_at: datetime, steps: Iterable[tuple[str, str]]) -> Iterator[Step]:
    """Yield each step whose condition is True: from the end of the step before it to the transition."""
    for name, condition in steps:
        found = find(claim.status.conditions, condition)
        if found is not None and found.status == "True" and found.last_transition_time is not None:
            if name:
                yield name, began_at, max(began_at, found.last_transition_time)
            began_at = max(began_at, found.last_transition_time)


def _facts(claim: NodeClaim) -> dict[str, str]:
    labels = claim.metadata.labels
    facts = {
        "nodeclaim": claim.name,
        "node": claim.status.node_name,
        "nodepool": claim.nodepool_name,
        "command": claim.metadata.annotations.get(REPLACES_ANNOTATION, ""),
        "instance_type": labels.get(INSTANCE_TYPE, ""),
        "capacity_type": labels.get(CAPACITY_TYPE, ""),
        "zone": labels.get(ZONE, ""),
    }
    return {name: value for name, value in facts.items() if value}
