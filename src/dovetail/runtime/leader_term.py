"""One term of leadership: acquire the lease, run the controllers, and stop in order before the lease expires.

The order of the stop: the write gate refuses new writes; writes in flight finish or are aborted; the work is cancelled;
only after it has stopped is the Lease released. Work that does not stop within `LeaseDurations.stop` ends the process.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, Protocol

from dovetail.runtime.leader_election import LeaseDurations
from dovetail.runtime.write_gate import WriteGate

log = logging.getLogger(__name__)
FINISH_SECONDS = 5.0
"""The time for writes in flight after a stop request; with the time for the work well below a pod's 30 seconds."""
CHECK_SECONDS = 1.0
"""How often leadership is checked: timers stand still while the host is suspended."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Leadership(Protocol):
    """The interface of a leader election."""

    @property
    def durations(self) -> LeaseDurations:
        """The durations of the lease."""
        ...

    @property
    def remaining(self) -> float:
        """Seconds for which leadership is certain."""
        ...

    def holds(self) -> bool:
        """Whether this process is the leader at this instant."""
        ...

    async def acquire(self) -> None:
        """Wait until this process is the leader."""
        ...

    async def renew(self) -> None:
        """Renew the lease until it is lost."""
        ...

    async def release(self) -> None:
        """Release the lease."""
        ...


class TermEnd(StrEnum):
    """Why a term ended."""

    STOPPED = "stopped"
    LOST = "leadership lost"


@dataclass(frozen=True)
class LeaderTerm:
    """The work of a leader, its write gate, and what ends it. Without an election the process always leads."""

    gate: WriteGate
    work: Work
    stopped: asyncio.Event
    die: Callable[[], NoReturn]
    election: Leadership | None = None

    async def run(self) -> TermEnd:
        """Wait for leadership, work, and stop in order. Raises what the work does not handle."""
        loop = asyncio.get_running_loop()
        self.gate.close("standing by")
        stopping = loop.create_task(self.stopped.wait(), name="stop requested")
        try:
            if self.election is not None and not await self._wait_to_lead(self.election, stopping):
                return TermEnd.STOPPED
            return await self._lead(stopping)
        finally:
            stopping.cancel()

    async def _wait_to_lead(self, election: Leadership, stopping: "asyncio.Task[Any]") -> bool:
        acquiring = asyncio.get_running_loop().create_task(election.acquire(), name="election")
        try:
            await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            acquiring.cancel()
            await asyncio.wait({acquiring})
        if stopping.done():
            await election.release()
        return not stopping.done()

    async def _lead(self, stopping: "asyncio.Task[Any]") -> TermEnd:
        loop, election = asyncio.get_running_loop(), self.election
        self.gate.open(election.holds if election is not None else lambda: True)
        working = loop.create_task(self.work(), name="work")
        keeping = loop.create_task(election.renew() if election is not None else self.stopped.wait(), name="lease")
        ending = TermEnd.LOST
        try:
            await self._wait_for_end({working, keeping, stopping})
            if election is None or election.holds():
                ending = TermEnd.STOPPED
                await self._finish_writes()
        finally:
            self.gate.abort(ending)
            await self._cancel_work(working)
            keeping.cancel()
            await asyncio.wait({keeping})
            if election is not None:
                await election.release()
        if not working.cancelled():
            working.result()
        return ending

    async def _wait_for_end(self, tasks: "set[asyncio.Task[Any]]") -> None:
        """Wait until a task ends, or the lease may have expired even if its renewal hangs."""
        while self.election is None or self.election.holds():
            remaining = min(self.election.remaining, CHECK_SECONDS) if self.election is not None else None
            done, _ = await asyncio.wait(tasks, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
        log.error("leadership lost", extra={"why": "the lease could not be renewed in time"})

    async def _finish_writes(self) -> None:
        """Wait for the writes in flight, for a limited time."""
        self.gate.close(TermEnd.STOPPED)
        remaining = self.election.remaining if self.election is not None else FINISH_SECONDS
        if not await self.gate.wait_until_idle(min(FINISH_SECONDS, remaining)):
            log.warning("writes aborted", extra={"after_seconds": FINISH_SECONDS})

    async def _cancel_work(self, working: "asyncio.Task[None]") -> None:
        working.cancel()
        durations = self.election.durations if self.election is not None else LeaseDurations()
        await asyncio.wait({working}, timeout=durations.stop)
        if not working.done():
            log.critical("work does not stop", extra={"after_seconds": durations.stop})
            self.die()
