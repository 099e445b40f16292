"""Runs disruption passes: plans commands, validates consolidations after a delay, and starts them.

`core.disruption.planner` decides what a pass starts; `dovetail plan` and the dashboard call the same planner. A pass
that started a command is followed by the next one at once. After a pass that started nothing the controller waits until
the cluster changes, a timer of the pass runs out (`wakeup_at`), the provider's offerings change, or 45 minutes passed.
Changes arrive in bursts, so it then waits for a quiet second, at most ten.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from dovetail.controllers.context import ControllerContext, find_catalogs
from dovetail.controllers.disruption_events import DisruptionEvents
from dovetail.controllers.disruption_queue import DisruptionQueue
from dovetail.controllers.ledger_entries import Refusals, considered_for_command
from dovetail.controllers.metrics.disruption import DisruptionMetrics, count_rejected, count_started
from dovetail.controllers.traces import PlanSpans, command_facts
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.disruption.next_removals import next_removals
from dovetail.core.disruption.pass_context import PassContext
from dovetail.core.disruption.planner import VALIDATION_DELAY, MethodPlan, Planner, plan_methods
from dovetail.core.disruption.validation import VALIDATED, revalidate
from dovetail.core.failure import attempt
from dovetail.core.lifecycle.drain import removed_next_patch
from dovetail.core.wording import message
from dovetail.model.catalog import InstanceType
from dovetail.model.command import RECORD_ANNOTATION
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.refusal import Refusal, RefusalCode
from dovetail.model.snapshot import ClusterNode
from dovetail.model.unreadable_objects import UnreadableIndex
from dovetail.ports.errors import WorldError
from dovetail.ports.tracing import SpanRef, TraceSpan
from dovetail.runtime.concurrency import for_each, guarded, timed

log = logging.getLogger(__name__)
IDLE_SECONDS = 10.0
QUIET_SECONDS = 1.0
"""A burst of changes is over after this long without a change."""
MAX_BURST = timedelta(seconds=IDLE_SECONDS)
CATALOG_RECHECK = timedelta(minutes=5)
"""How often the provider's catalogs are compared while the cluster does not change."""
MAX_PASS_INTERVAL = timedelta(minutes=45)
"""Disruption costs decrease with the remaining lifetime of nodes, so a pass can end differently without any change.

The API server drops events after an hour; events about blocked nodes are published again before that.
"""


class DisruptionController:
    """Runs one disruption pass after the other."""

    def __init__(self, context: ControllerContext, queue: DisruptionQueue) -> None:
        self._context = context
        self._queue = queue
        self._planner = Planner(context.options)
        self._metrics = DisruptionMetrics(context.metrics)
        self._events = DisruptionEvents(context)
        self._next_pass_soon = False  # nominations and stale caches end without a watch event
        self._last_pass: PassContext | None = None

    async def run(self) -> None:
        """Run passes until cancelled."""
        await self._context.state.synced()
        await self._context.state.switch.synced.wait()  # a pause must be known first
        while True:
            began, seen = self._context.clock.now(), self._context.state.revision
            acted = await guarded("disruption", self.run_pass)
            await asyncio.sleep(0.1 if acted else IDLE_SECONDS)
            if acted is False:
                await guarded("disruption", partial(self._wait_for_change, began, seen))

    async def _wait_for_change(self, began: datetime, seen: int) -> None:
        """Wait until something changes that may alter the result of the pass; return at once if a cache is stale."""
        state, clock = self._context.state, self._context.clock
        if self._next_pass_soon or state.revision != seen:
            return
        last_pass, latest = self._last_pass, began + MAX_PASS_INTERVAL
        if last_pass is None:
            return
        wakeup_at = await self._context.compute.run(lambda: last_pass.wakeup_at)
        offered, latest = last_pass.snapshot.catalogs, min(latest, wakeup_at or latest)
        while state.revision == seen and (now := clock.now()) < latest and await self._catalogs() == offered:
            if state.stale():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(latest - now, CATALOG_RECHECK).total_seconds()):
                    await state.wait_for_change(seen)
        await self._wait_for_quiet(seen)

    async def _wait_for_quiet(self, seen: int) -> None:
        """Wait for the end of a burst of changes, at most `MAX_BURST`."""
        state, clock = self._context.state, self._context.clock
        latest = clock.now() + MAX_BURST
        while state.revision != seen and clock.now() < latest:
            seen = state.revision
            await asyncio.sleep(QUIET_SECONDS)

    async def run_pass(self) -> bool:
        """Run one pass; return whether a command was started.

        The first method with a command that can start wins. Commands of consolidation are validated after
        `VALIDATION_DELAY` on a fresh snapshot. All methods share this delay, so that a later method can act if the
        commands of an earlier one fail validation.
        """
        with self._context.tracer.span("disruption pass") as span:
            return await self._run_pass(span)

    async def _run_pass(self, span: TraceSpan) -> bool:
        await self._queue.remove_stray_marks()
        with self._context.tracer.span("snapshot"):
            context = self._last_pass = await self._new_pass()
        span.set(nodes=len(context.snapshot.nodes))
        stale = self._events.report_stale_caches(context)
        self._next_pass_soon = stale or bool(context.snapshot.nominated)
        if stale:
            span.set(outcome="stale caches", commands=0)
            return False
        if self._context.seen:
            self._events.report_pauses(context)
            self._events.report_drift_loops(context)
        refusals_by_method: dict[str, tuple[Refusal, ...]] = {}
        waited = False
        for plan in await self._plan(context):
            if plan.validated and plan.commands and not waited:
                with self._context.tracer.span("validation delay"):
                    await asyncio.sleep(VALIDATION_DELAY.total_seconds())
                waited = True
            refusals_by_method[plan.method.name] = plan.refusals
            await self._publish(plan, context)
            started = await self._start(plan.commands, context, refusals_by_method)
            if started:
                await self._mark_next_removals(context)
                span.set(outcome="started", commands=started, reason=plan.method.reason, method=plan.method.name)
                return True
        await self._mark_next_removals(context)
        span.set(outcome="nothing to start", commands=0)
        return False

    async def _mark_next_removals(self, context: PassContext) -> None:
        """Taint the nodes that consolidation deletes next, and no others; the taint is only a hint to the scheduler."""
        names = frozenset[str]()
        if any(pool.min_savings is not None for pool in context.snapshot.nodepools.values()):
            context = await self._new_pass()
            names = await self._context.compute.run(partial(next_removals, context))
        patches = [
            (node.node, patch)
            for node in context.snapshot.nodes
            if node.node is not None and (patch := self._removed_next_patch(node, node.node, names))
        ]
        with suppress(WorldError):  # the next pass tries again
            await for_each(lambda each: self._context.patch_node(*each), patches)

    def _removed_next_patch(self, node: ClusterNode, value: Node, names: frozenset[str]) -> dict[str, Any]:
        if node.claim is None or node.leaving or node.record is not None or not self._context.manages(node.claim):
            return {}
        return removed_next_patch(value, wanted=node.name in names)

    async def _plan(self, context: PassContext) -> list[MethodPlan]:
        """Return the plan of each method, up to the first one whose commands need no validation."""
        clock, seconds = asyncio.get_running_loop().time, defaultdict[str, float](float)
        plans: dict[str, MethodPlan] = {}
        spans = PlanSpans(self._context, context)
        next_plan = partial(timed, partial(next, plan_methods(context), None), clock)
        while True:
            plan, took = await self._context.compute.run(next_plan)  # step by step: other computations run in between
            if plan is None:
                break
            plans[plan.method.name] = plan
            seconds[plan.method.name] += took
            spans.planned(plan)
            if plan.validated:
                await asyncio.sleep(0)  # where computations run inline: let other tasks run
            elif plan.commands:
                break
        spans.record()
        for plan in plans.values() if self._context.seen else ():
            self._metrics.record_pass(plan, context, seconds[plan.method.name])
        return list(plans.values())

    async def _publish(self, plan: MethodPlan, context: PassContext) -> None:
        """Publish what a method refuses and proposes as events."""
        if not self._context.seen:
            return
        self._events.report_budgets(plan.method.reason, context)
        self._events.report_refusals(plan.method.name, plan.refusals, context)
        if plan.method.name == SingleNode.name:
            await self._events.report_preferences(plan.refusals, context)
        for command in plan.commands:
            self._events.report_candidate(command, context)

    async def _start(self, commands: Iterable[Command], context: PassContext, refusals_by_method: Refusals) -> int:
        """Validate and start commands; return how many were started."""
        started: list[Command] = []
        for command in commands:
            async with self._context.launch_lock:
                checked = await self._traced_validation(command, started)
                if self._events.report_stale_caches(context):
                    self._next_pass_soon = True
                    break
                if isinstance(checked, Refusal):
                    self._reject(command, checked)
                    continue
                kept = self._context.ledger.keeps
                considered = considered_for_command(checked, refusals_by_method, context, started) if kept else None
                with self._context.tracer.span("start command", None, **command_facts(checked)) as span:
                    span.link(SpanRef(await self._queue.start(checked, considered)))
            count_started(self._context.metrics, checked, context)
            started.append(checked)
        return len(started)

    def _reject(self, command: Command, refusal: Refusal) -> None:
        count_rejected(self._context.metrics, command, refusal)
        log.info("command rejected", extra={"what": str(command), "code": str(refusal.code), "why": message(refusal)})
        self._events.report_rejected(command, refusal)

    async def _traced_validation(self, command: Command, started: Collection[Command]) -> Command | Refusal:
        with self._context.tracer.span("validation", None, **command_facts(command)) as span:
            checked = await self._validate(command, started)
            span.set(outcome=str(checked.code) if isinstance(checked, Refusal) else "valid")
        return checked

    async def _validate(self, command: Command, started: Collection[Command]) -> Command | Refusal:
        """Return the command if it is still valid. `started` commands count as running, even if no cache shows them."""
        checked: Command | Refusal = command
        if command.reason in VALIDATED:
            work = partial(revalidate, command, await self._new_pass(), started)
            checked = await self._context.compute.run(partial(attempt, command.candidates[0].ref, work))
        if isinstance(checked, Refusal):
            return checked
        return self._unreadable_refusal(checked) or self._taken_refusal(checked) or checked

    def _unreadable_refusal(self, command: Command) -> Refusal | None:
        """Refuse a command if an object that became unreadable since the plan may concern a candidate."""
        unread = UnreadableIndex(self._context.state.unreadable.unread())
        found = (unread.of(each.node.node, each.claim) or unread.everywhere for each in command.candidates)
        bad = next((each for each in found if each is not None), None)
        about = command.candidates[0].ref
        return Refusal(RefusalCode.UNREADABLE, about, detail=str(bad)) if bad is not None else None

    def _taken_refusal(self, command: Command) -> Refusal | None:
        """Refuse a command if a candidate was deleted, disrupted or nominated while the command was computed."""
        state, now = self._context.state, self._context.clock.now()
        for each in command.candidates:
            why = self._why_taken(each.claim)
            if not why and state.is_nominated(each.name, now):
                why = "a pod is about to be scheduled on it"
            if why:
                return Refusal(RefusalCode.CANDIDATES_CHANGED, each.ref, detail=why)
        return None

    def _why_taken(self, planned: NodeClaim) -> str:
        claim = self._context.state.claims.items.get(planned.key)
        if claim is None or claim.metadata.uid != planned.metadata.uid:
            return "it is gone"
        if claim.deleting or any(node.deleting for node in self._context.state.nodes_of(claim)):
            return "it is being deleted"
        return "another command removes it" if RECORD_ANNOTATION in claim.metadata.annotations else ""

    async def _new_pass(self) -> PassContext:
        failed = {slot: failed.until for slot, failed in self._queue.failed.items()}
        return self._planner.context(await self._context.snapshot(), failed)

    async def _catalogs(self) -> Mapping[str, tuple[InstanceType, ...]]:
        return await find_catalogs(self._context.cloud, self._context.state.nodepools.items.values())
