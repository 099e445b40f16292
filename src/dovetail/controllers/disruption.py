"""Plans what to disrupt, validates consolidation a moment later, and hands the commands to the executor.

What a pass starts is decided in `core.disruption.planner`, which `dovetail plan` and the page ask as well. After a pass
that started something the next one follows at once. A pass that found nothing is told on the nodes, sparingly, and the
next one follows when something could have changed. Changes come in bursts: it waits for their end, if that is soon,
rather than decide on half of one.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from dovetail.controllers.context import ControllerContext, find_catalogs
from dovetail.controllers.disruption_events import DisruptionEvents
from dovetail.controllers.disruption_queue import DisruptionQueue
from dovetail.controllers.ledger_entries import Refusals, weighed
from dovetail.controllers.metrics.disruption import DisruptionMetrics, count_rejected, count_started
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.disruption.planner import VALIDATION_DELAY, MethodPlan, Planner, plan_methods
from dovetail.core.disruption.validation import VALIDATED, revalidate
from dovetail.core.failure import attempt
from dovetail.core.wording import message
from dovetail.model.catalog import InstanceType
from dovetail.model.refusal import Refusal, RefusalCode
from dovetail.model.snapshot import Snapshot
from dovetail.model.unreadable_objects import UnreadableIndex
from dovetail.ports.ledger import NoLedger
from dovetail.runtime.concurrency import guarded

log = logging.getLogger(__name__)
IDLE_SECONDS = 10.0
QUIET_SECONDS = 1.0
"""A burst of changes is over when nothing has changed for so long."""
LONGEST_BURST = timedelta(seconds=IDLE_SECONDS)
REST = timedelta(minutes=5)
"""How long a cluster that does not change is left alone before the provider is asked whether its offers have."""
LONGEST_REST = timedelta(minutes=45)
"""Costs shrink with the lifetime left, so even if nothing has changed a pass may come out differently then.

The API server forgets events after an hour: what keeps a node is told again before.
"""


class DisruptionController:
    """The loop."""

    def __init__(self, context: ControllerContext, executor: DisruptionQueue) -> None:
        self._context = context
        self._executor = executor
        self._planner = Planner(context.options)
        self._figures = DisruptionMetrics(context.metrics)
        self._telling = DisruptionEvents(context)
        self._recently_active_nodes = False  # the last pass met what ends without a word: nominations
        self._latest: Pass | None = None  # the last pass

    async def run(self) -> None:
        """Plan and act until cancelled."""
        await self._context.state.synced()
        await self._context.state.switch.synced.wait()  # whether it is paused must be known
        while True:
            began, seen = self._context.clock.now(), self._context.state.revision
            acted = await guarded("disruption", self.run_pass)
            await asyncio.sleep(0.1 if acted else IDLE_SECONDS)
            if acted is False:
                await guarded("disruption", partial(self._rest, began, seen))

    async def _rest(self, began: datetime, seen: int) -> None:
        """Wait while nothing has changed and no clock has run out since the pass began, but not for ever.

        Stale caches hear of no change: the next pass says so.
        """
        state, clock = self._context.state, self._context.clock
        if self._recently_active_nodes or state.revision != seen:
            return
        look, latest = self._latest, began + LONGEST_REST
        if look is None:
            return
        offered, latest = look.snapshot.catalogs, min(latest, look.wakeup_at or latest)
        while state.revision == seen and (now := clock.now()) < latest and await self._catalogs() == offered:
            if state.stale():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(latest - now, REST).total_seconds()):
                    await state.moved_on(seen)
        await self._settled(seen)

    async def _settled(self, seen: int) -> None:
        """Wait while one change follows another, but not for ever."""
        state, clock = self._context.state, self._context.clock
        latest = clock.now() + LONGEST_BURST
        while state.revision != seen and clock.now() < latest:
            seen = state.revision
            await asyncio.sleep(QUIET_SECONDS)

    async def run_pass(self) -> bool:
        """One pass; returns whether anything was started.

        The first method of which something can start acts. What consolidation proposes is validated a moment later,
        on a fresh snapshot; all its proposals wait together, so that other methods act where those before them fail.
        """
        await self._executor.tidy()
        context = self._latest = await self._pass()
        blind = self._telling.blind(context)
        self._recently_active_nodes = blind or bool(context.snapshot.nominated)
        if blind:
            return False
        self._telling.paused(context)
        self._telling.drift_loops(context)
        refused: dict[str, tuple[Refusal, ...]] = {}
        waited = False
        for plan in await self._plan(context):
            if plan.validated and plan.commands and not waited:
                await asyncio.sleep(VALIDATION_DELAY.total_seconds())
                waited = True
            refused[plan.method.name] = plan.refusals
            self._tell(plan, context)
            if await self._start(plan.commands, context, refused):
                return True
        return False

    async def _plan(self, context: Pass) -> list[MethodPlan]:
        """What each method proposes, up to the first whose commands start without validation."""
        clock, seconds = asyncio.get_running_loop(), defaultdict[str, float](float)
        plans: dict[str, MethodPlan] = {}
        began = clock.time()
        for plan in plan_methods(context):
            plans[plan.method.name] = plan
            seconds[plan.method.name] += clock.time() - began
            if plan.validated:
                await asyncio.sleep(0)  # a large cluster takes a while, and other tasks have work to do
            elif plan.commands:
                break
            began = clock.time()
        for plan in plans.values() if self._context.seen else ():
            self._figures.note(plan, context, seconds[plan.method.name])
        return list(plans.values())

    def _tell(self, plan: MethodPlan, context: Pass) -> None:
        """What a method refuses and proposes, as events on the nodes."""
        if not self._context.seen:
            return
        self._telling.budgets(plan.method.reason, context)
        self._telling.refused(plan.method.name, plan.refusals, context)
        if plan.method.name == SingleNode.name:
            self._telling.preferring(plan.refusals, context)
        for command in plan.commands:
            self._telling.considered(command, context)

    async def _start(self, commands: Iterable[Command], context: Pass, refused: Refusals) -> bool:
        started: list[Command] = []
        for command in commands:
            checked = await self._checked(command, started)
            if self._telling.blind(context):
                self._recently_active_nodes = True  # it may pass without a word: the next pass comes soon
                break
            if isinstance(checked, Refusal):
                count_rejected(self._context.metrics, command, checked)
                log.info(
                    "command rejected", extra={"what": str(command), "code": str(checked.code), "why": message(checked)}
                )
                self._telling.rejected(command, checked)
                continue
            kept = not isinstance(self._context.ledger, NoLedger)
            await self._executor.start(checked, weighed(checked, refused, context, started) if kept else None)
            count_started(self._context.metrics, checked, context)
            started.append(checked)
        return bool(started)

    async def _checked(self, command: Command, started: Collection[Command]) -> Command | Refusal:
        """Whether it still holds; what was started a moment ago is under way, whatever is seen of it yet."""
        hidden = self._hidden(command)
        if hidden is not None:
            return hidden
        if command.reason not in VALIDATED:
            return command
        return attempt(command.candidates[0].ref, partial(revalidate, command, await self._pass(), started))

    def _hidden(self, command: Command) -> Refusal | None:
        """Whether an object that became unreadable since concerns one of its nodes."""
        unread = UnreadableIndex(self._context.state.hidden.unread())
        found = (unread.of(each.node.node, each.claim) or unread.everywhere for each in command.candidates)
        bad = next((each for each in found if each is not None), None)
        about = command.candidates[0].ref
        return Refusal(RefusalCode.UNREADABLE, about, detail=str(bad)) if bad is not None else None

    async def _pass(self) -> Pass:
        failed = {slot: failed.until for slot, failed in self._executor.failed.items()}
        return self._planner.context(await self._snapshot(), failed)

    async def _snapshot(self) -> Snapshot:
        return self._context.state.snapshot(self._context.clock.now(), await self._catalogs())

    async def _catalogs(self) -> Mapping[str, tuple[InstanceType, ...]]:
        return await find_catalogs(self._context.cloud, self._context.state.nodepools.items.values())
