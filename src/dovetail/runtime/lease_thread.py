"""A loop in a thread of its own, for the one thing that must not wait for a long computation: renewing the Lease.

A plan for ten thousand nodes keeps the main loop busy for seconds. Were the Lease renewed on that loop, a slow machine
would lose the lead over and over. Writes stay safe either way: the gate asks when the last renewal was sent.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from dovetail.runtime.leader_election import LeaderElection, LeaseDurations

R = TypeVar("R")


class LeaseThread:
    """A running loop beside the main one. A daemon thread: it never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine over there and wait for it here; cancelled here, it is cancelled there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def aclose(self) -> None:
        """Stop the loop and wait for its thread, without keeping anybody else waiting."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()


class ThreadedLeaderElection:
    """An election that goes on beside the main loop. What it says may be asked from anywhere."""

    def __init__(self, election: LeaderElection, aside: LeaseThread) -> None:
        self._election = election
        self._aside = aside

    @property
    def terms(self) -> LeaseDurations:
        """As agreed."""
        return self._election.terms

    @property
    def left(self) -> float:
        """Seconds for which the office is certain; negative once lost."""
        return self._election.left

    def holds(self) -> bool:
        """Whether this candidate may act, in this instant."""
        return self._election.holds()

    async def win(self) -> None:
        """Stand for the office until it is ours."""
        await self._aside.call(self._election.win())

    async def keep(self) -> None:
        """Renew until somebody else holds the office."""
        await self._aside.call(self._election.keep())

    async def release(self) -> None:
        """Give the office back."""
        await self._aside.call(self._election.release())
