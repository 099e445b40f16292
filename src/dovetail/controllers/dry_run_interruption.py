"""A dry run overhears warnings about instances: says which nodes would be drained ahead of them, and does nothing.

Only to sources that many may listen to: a queue would hide from the controller that acts what was handed out here.
Nothing is acknowledged. What is told again and again, such as a status check that fails for hours, is said once.
"""

import asyncio
import logging

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.dry_run import DryRun, advise_removal
from dovetail.controllers.interruption import InterruptionController
from dovetail.core.lifecycle.interruption import drain_by, respond
from dovetail.model.reason import Reason
from dovetail.ports.interruption import Interruption, InterruptionSource
from dovetail.runtime.backoff import RetryBackoff
from dovetail.runtime.concurrency import guarded

log = logging.getLogger(__name__)
REMEMBERED = 10_000


class DryRunInterruptions:
    """Listens where that takes nothing from anybody."""

    def __init__(self, context: ControllerContext, interruptions: InterruptionController, advisor: DryRun) -> None:
        self._context = context
        self._interruptions = interruptions
        self._advisor = advisor
        self._said: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Listen until cancelled."""
        await self._context.state.synced()
        async with asyncio.TaskGroup() as tasks:
            for source in self._context.interruptions:
                if source.shared:
                    tasks.create_task(self._listen(source))

    async def _listen(self, source: InterruptionSource) -> None:
        backoff = RetryBackoff(first=1.0, limit=30.0)
        while True:
            deliveries = await guarded("interruption.receive", source.receive)
            if deliveries is None:
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            for delivery in deliveries:
                if delivery.interruption is not None:
                    self._hear(delivery.interruption)

    def _hear(self, interruption: Interruption) -> None:
        now = self._context.clock.now()
        response = respond(interruption.kind, rebalance=self._context.options.drain_on_rebalance)
        for _, claim in self._interruptions.concerned(interruption) if response.acts else ():
            same = (interruption.kind, claim.metadata.uid)
            if claim.deleting or same in self._said:
                continue
            if len(self._said) >= REMEMBERED:
                self._said.clear()
            self._said.add(same)
            deadline = drain_by(response, interruption.at, now)
            until = f", to be empty by {deadline:%Y-%m-%dT%H:%M:%SZ}" if deadline is not None else ""
            why = interruption.kind.replace("_", " ") + until
            self._advisor.say(advise_removal(claim, now, Reason.INTERRUPTED, why))
