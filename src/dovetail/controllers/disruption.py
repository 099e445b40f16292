"""Decides what to disrupt, looks twice where it must, and hands it to the executor.

One method acts in a pass; what consolidation proposes waits for its second look together, whichever method it is of.
After a pass that started something the next one follows at once. A pass that found nothing is told on the nodes,
sparingly, and looked at again when something could have changed. Changes come in bursts: it waits for their end, if
that is soon, rather than decide on half of one.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.disruption_events import DisruptionEvents
from dovetail.controllers.disruption_queue import DisruptionQueue
from dovetail.controllers.gates import read_gates
from dovetail.controllers.instance_types import find_catalogs
from dovetail.controllers.ledger_evidence import Refusals, weighed
from dovetail.controllers.metrics.disruption import DisruptionMetrics, count_rejected, count_started
from dovetail.core.disruption.candidate_cache import CandidateCache
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.in_flight import plan_beside
from dovetail.core.disruption.methods import METHODS
from dovetail.core.disruption.methods.base import Method
from dovetail.core.disruption.methods.single_node import SingleNode
from dovetail.core.disruption.next_wakeup import NextWakeups, next_turn
from dovetail.core.disruption.pass_context import PassContext as Pass
from dovetail.core.disruption.planner import Plan, plan_pass
from dovetail.core.disruption.simulation_cache import SimulationCache
from dovetail.core.disruption.validation import VALIDATED, revalidate
from dovetail.core.wording import message
from dovetail.model.catalog import InstanceType
from dovetail.model.reason import Reason
from dovetail.model.refusal import Refusal, RefusalCode
from dovetail.model.snapshot import Snapshot
from dovetail.model.unreadable_objects import UnreadableIndex
from dovetail.ports.ledger import NoLedger
from dovetail.runtime.guard import guarded

log = logging.getLogger(__name__)
IDLE_SECONDS = 10.0
VALIDATION_SECONDS = 15.0
AT_ONCE = 10
"""So many single nodes may wait for their second look together."""
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
        self._simulations = SimulationCache()
        self._book = CandidateCache()
        self._turns = NextWakeups()
        self._figures = DisruptionMetrics(context.metrics)
        self._telling = DisruptionEvents(context)
        self._recently_active_nodes = False  # the last pass met what ends without a word: nominations
        self._gates = read_gates(context.settings)

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
        offered, latest = await self._catalogs(), began + LONGEST_REST
        latest = min(latest, next_turn(state.snapshot(began, offered), self._backing_off(), self._turns) or latest)
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
        """One pass; says whether anything was started. What did not hold leaves the turn to the methods after it."""
        await self._executor.tidy()
        context = await self._pass()
        blind = self._telling.blind(context)
        self._recently_active_nodes = blind or bool(context.snapshot.nominated)
        if blind:
            return False
        self._telling.paused(context)
        self._telling.drift_loops(context)
        refused: dict[str, tuple[Refusal, ...]] = {}
        for method in METHODS:
            if method.reason in VALIDATED:
                continue
            plan = self._ask(method, context)
            refused |= self._told(method, plan, plan.commands, context)
            if plan.commands:
                if await self._start(plan.commands, context, refused):
                    return True
                context = await self._pass()
        return await self._consolidate(context, refused)

    async def _consolidate(self, context: Pass, refused: dict[str, tuple[Refusal, ...]]) -> bool:
        """Consolidation is looked at again a moment later, on a fresh snapshot; all its proposals wait together.

        The first method of which something still holds acts, and those after it are there in case nothing does.
        """
        asked: list[tuple[Method, Plan, list[Command]]] = []
        for method in METHODS:
            if method.reason in VALIDATED:
                plan = self._ask(method, context)
                spare = any(commands for _, _, commands in asked)  # one is enough of what is there just in case
                commands = list(plan.commands) if spare else await self._further(method, plan, context)
                asked.append((method, plan, commands))
        if any(commands for _, _, commands in asked):
            await asyncio.sleep(VALIDATION_SECONDS)
        for method, plan, commands in asked:
            refused |= self._told(method, plan, commands, context)
            if await self._start(commands, context, refused):
                return True
        return False

    async def _further(self, method: Method, plan: Plan, context: Pass) -> list[Command]:
        """What a method proposes; of single nodes more than the best, each as if those before it were under way."""
        commands = list(plan.commands)
        for further in plan_beside(method, plan.commands, context, AT_ONCE) if method.name == SingleNode.name else ():
            commands.append(further)
            await asyncio.sleep(0)  # others have work to do, too
        return commands

    def _told(
        self, method: Method, plan: Plan, commands: Iterable[Command], context: Pass
    ) -> dict[str, tuple[Refusal, ...]]:
        """What a method refused, and what it proposes, told on the nodes."""
        refused = plan.refusals_by_method[method.name]
        if self._context.seen:
            self._telling.budgets(method.reason, context)
            self._telling.refused(method.name, refused, context)
            if method.name == SingleNode.name:
                self._telling.preferring(refused, context)
            for command in commands:
                self._telling.considered(command, context)
        return {method.name: refused}

    def _ask(self, method: Method, context: Pass) -> Plan:
        clock = asyncio.get_running_loop()
        began = clock.time()
        plan = plan_pass(context, methods=(method,))
        if self._context.seen:
            self._figures.note(method, plan, context, clock.time() - began)
        return plan

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
        return revalidate(command, await self._pass(), started)

    def _hidden(self, command: Command) -> Refusal | None:
        """Whether an object that became unreadable since concerns one of its nodes."""
        unread = UnreadableIndex(self._context.state.hidden.unread())
        found = (unread.of(each.node.node, each.claim) or unread.everywhere for each in command.candidates)
        bad = next((each for each in found if each is not None), None)
        about = command.candidates[0].ref
        return Refusal(RefusalCode.UNREADABLE, about, detail=str(bad)) if bad is not None else None

    async def _pass(self) -> Pass:
        return Pass(await self._snapshot(), self._gates, self._backing_off(), self._simulations, self._book)

    def _backing_off(self) -> dict[tuple[str, Reason], datetime]:
        return {slot: failed.until for slot, failed in self._executor.failed.items()}

    async def _snapshot(self) -> Snapshot:
        return self._context.state.snapshot(self._context.clock.now(), await self._catalogs())

    async def _catalogs(self) -> Mapping[str, tuple[InstanceType, ...]]:
        return await find_catalogs(self._context.cloud, self._context.state.nodepools.items.values())
