"""Work by key: each key at most once at a time, again after a while, later and later after failures.

A reconciler hears keys from informers and calls one function for each. What that function returns is the wait until
the key is looked at again; None means only when something changes. A failed call is retried with back-off, and no
failure of one key stops another. Assertions are not caught: they say that we are wrong, not the world.
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from dovetail.ports.errors import Conflict, WorldError
from dovetail.runtime.backoff import Backoff

log = logging.getLogger(__name__)
Told = Callable[[str, str, float], None]
"""Called with the reconciler's name, how a call ended (success, conflict, error) and how long it took."""
K = TypeVar("K", bound=Hashable)
FEWEST_TO_COMPACT = 64


class Reconciler(Generic[K]):
    """Calls `reconcile` for every key that is due."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        workers: int = 10,
        first_backoff: float = 1.0,
        backoff_limit: float = 60.0,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._first_backoff = first_backoff
        self._backoff_limit = backoff_limit
        self._due: list[tuple[float, int, K]] = []
        self._due_at: dict[K, float] = {}
        self._running: set[K] = set()
        self._again: dict[K, float] = {}
        self._backoffs: dict[K, Backoff] = {}
        self._sequence = itertools.count()
        self._waiting: asyncio.Future[None] | None = None  # for a key to be due, or earlier than the one waited for
        self._idle: list[asyncio.Future[K]] = []  # workers with nothing to do
        self._busy: asyncio.Future[None] | None = None  # waited for while there are none
        self.told: Told | None = None

    def add(self, key: K, after: float = 0.0) -> None:
        """Look at `key` after that many seconds, or earlier if that was already planned."""
        at = asyncio.get_running_loop().time() + after
        if key in self._running:
            self._again[key] = min(at, self._again.get(key, at))
        elif at < self._due_at.get(key, float("inf")):
            self._due_at[key] = at
            heapq.heappush(self._due, (at, next(self._sequence), key))
            self._compact()
            if self._due[0][0] == at:
                _rouse(self._waiting)

    def _compact(self) -> None:
        """Times that were superseded, or whose key was forgotten, may lie weeks ahead: they do not pile up."""
        if len(self._due) > 2 * len(self._due_at) + FEWEST_TO_COMPACT:
            self._due = [entry for entry in self._due if self._due_at.get(entry[2]) == entry[0]]
            heapq.heapify(self._due)

    def forget(self, key: K) -> None:
        """The object is gone: no more waits are owed to it."""
        self._due_at.pop(key, None)
        self._again.pop(key, None)
        self._backoffs.pop(key, None)

    @property
    def idle(self) -> bool:
        """Whether nothing is running and nothing is due now."""
        now = asyncio.get_running_loop().time()
        return not self._running and not any(at <= now for at in self._due_at.values())

    @property
    def depth(self) -> int:
        """How many keys are due and wait for a worker."""
        now = asyncio.get_running_loop().time()
        return sum(at <= now for at in self._due_at.values())

    async def run(self) -> None:
        """Work until cancelled."""
        self._idle.clear()
        made = 0
        async with asyncio.TaskGroup() as tasks:
            while True:
                if not self._idle and made == self._workers:
                    self._busy = asyncio.get_running_loop().create_future()
                    await self._busy
                key = await self._next()
                self._running.add(key)
                if self._idle:
                    self._idle.pop().set_result(key)
                else:
                    made += 1
                    tasks.create_task(self._serve(key), name=f"{self.name}:{made}")

    async def _next(self) -> K:
        loop = asyncio.get_running_loop()
        while True:
            while self._due and self._due_at.get(self._due[0][2]) != self._due[0][0]:
                heapq.heappop(self._due)  # superseded by an earlier time, or forgotten
            if self._due and self._due[0][0] <= loop.time():
                key = heapq.heappop(self._due)[2]
                del self._due_at[key]
                return key
            self._waiting = loop.create_future()
            timer = loop.call_at(self._due[0][0], _rouse, self._waiting) if self._due else None
            try:
                await self._waiting
            finally:
                if timer is not None:
                    timer.cancel()

    async def _serve(self, key: K) -> None:
        """Work on one key after another, as they are handed out."""
        loop = asyncio.get_running_loop()
        while True:
            await self._work(key)
            handed: asyncio.Future[K] = loop.create_future()
            self._idle.append(handed)
            _rouse(self._busy)
            key = await handed

    async def _work(self, key: K) -> None:
        try:
            after = await self._attempt(key)
        finally:
            self._running.discard(key)
        again = self._again.pop(key, None)
        if after is not None:
            self.add(key, after)
        if again is not None:
            self.add(key, max(0.0, again - asyncio.get_running_loop().time()))

    async def _attempt(self, key: K) -> float | None:
        began = asyncio.get_running_loop().time()
        try:
            after = await self._reconcile(key)
        except AssertionError:
            raise
        except Conflict:
            self._tell("conflict", began)
            return self._failed(key)
        except WorldError as error:
            self._tell("error", began)
            after = max(self._failed(key), getattr(error, "retry_after", None) or 0.0)
            log.warning(
                "reconcile failed",
                extra={"controller": self.name, "object": str(key), "error": str(error), "retry_seconds": after},
            )
            return after
        except Exception:
            self._tell("error", began)
            after = self._failed(key)
            log.exception("reconcile broke", extra={"controller": self.name, "object": str(key)})
            return after
        self._tell("success", began)
        self._backoffs.pop(key, None)
        return after

    def _tell(self, result: str, began: float) -> None:
        if self.told is not None:
            self.told(self.name, result, asyncio.get_running_loop().time() - began)

    def _failed(self, key: K) -> float:
        if key not in self._backoffs:
            self._backoffs[key] = Backoff(self._first_backoff, self._backoff_limit)
        return self._backoffs[key].next()


def _rouse(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
