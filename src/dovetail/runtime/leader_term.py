"""One term of work: begun when the office is won, ended in order when asked to, and in any case before it runs out.

The end has an order: no new write is let through, those under way are finished or cut, the work is cancelled, and only
when it has stopped is the office given back. Work that does not stop in time takes the process with it.
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
"""What writes under way get after a request to stop, and loops after that; together well below a pod's 30 seconds."""
LOOK_SECONDS = 1.0
"""How often the office is looked at: timers do not count while the machine sleeps."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Leadership(Protocol):
    """What is held while working; an Election."""

    @property
    def terms(self) -> LeaseDurations:
        """How long it lasts."""
        ...

    @property
    def left(self) -> float:
        """Seconds for which it is certain."""
        ...

    def holds(self) -> bool:
        """Whether it is held, in this instant."""
        ...

    async def win(self) -> None:
        """Wait for it."""
        ...

    async def keep(self) -> None:
        """Renew it until it is lost."""
        ...

    async def release(self) -> None:
        """Give it back."""
        ...


class TermEnd(StrEnum):
    """Why a shift was over."""

    STOPPED = "stopped"
    LOST = "leadership lost"


@dataclass(frozen=True)
class LeaderTerm:
    """What is done, through which gate, until when. Without an election the shift is held by whoever starts it."""

    gate: WriteGate
    work: Work
    stopped: asyncio.Event
    die: Callable[[], NoReturn]
    election: Leadership | None = None

    async def run(self) -> TermEnd:
        """Wait for the office, work, and end in order. What the work cannot handle is raised."""
        loop = asyncio.get_running_loop()
        self.gate.close("standing by")
        stopping = loop.create_task(self.stopped.wait(), name="stop requested")
        try:
            if self.election is not None and not await self._won(self.election, stopping):
                return TermEnd.STOPPED
            return await self._held(stopping)
        finally:
            stopping.cancel()

    async def _won(self, election: Leadership, stopping: "asyncio.Task[Any]") -> bool:
        standing = asyncio.get_running_loop().create_task(election.win(), name="election")
        try:
            await asyncio.wait({standing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            standing.cancel()
            await asyncio.wait({standing})
        if stopping.done():
            await election.release()
        return not stopping.done()

    async def _held(self, stopping: "asyncio.Task[Any]") -> TermEnd:
        loop, election = asyncio.get_running_loop(), self.election
        self.gate.open(election.holds if election is not None else lambda: True)
        working = loop.create_task(self.work(), name="work")
        keeping = loop.create_task(election.keep() if election is not None else self.stopped.wait(), name="lease")
        ending = TermEnd.LOST
        try:
            await self._watch({working, keeping, stopping})
            if election is None or election.holds():
                ending = TermEnd.STOPPED
                await self._finish()
        finally:
            self.gate.cut(ending)
            await self._stop(working)
            keeping.cancel()
            await asyncio.wait({keeping})
            if election is not None:
                await election.release()
        if not working.cancelled():
            working.result()
        return ending

    async def _watch(self, tasks: "set[asyncio.Task[Any]]") -> None:
        """Until one of them ends, or the office may have run out, however silent its keeper is."""
        while self.election is None or self.election.holds():
            left = min(self.election.left, LOOK_SECONDS) if self.election is not None else None
            done, _ = await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
        log.error("leadership lost", extra={"why": "the lease could not be renewed in time"})

    async def _finish(self) -> None:
        """Let the writes under way come to their end, within bounds."""
        self.gate.close(TermEnd.STOPPED)
        left = self.election.left if self.election is not None else FINISH_SECONDS
        if not await self.gate.finished(min(FINISH_SECONDS, left)):
            log.warning("writes cut off", extra={"after_seconds": FINISH_SECONDS})

    async def _stop(self, working: "asyncio.Task[None]") -> None:
        working.cancel()
        terms = self.election.terms if self.election is not None else LeaseDurations()
        await asyncio.wait({working}, timeout=terms.stop)
        if not working.done():
            log.critical("work does not stop", extra={"after_seconds": terms.stop})
            self.die()
