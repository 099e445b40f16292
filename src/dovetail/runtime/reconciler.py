"""How long to wait before trying again: doubling, with a ceiling.

Work by key: each key at most once at a time, again after a while, later and later after failures.

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


class RetryBackoff:
    """The waits of one series of failures."""

    def __init__(self, first: float, limit: float) -> None:
        self._first = first
        self._limit = limit
        self._failures = 0

    def next(self) -> float:
        """The wait after one more failure, in seconds."""
        delay = min(self._first * 2.0 ** min(self._failures, 32), self._limit)
        self._failures += 1
        return delay

    def reset(self) -> None:
        """It worked: start over."""
        self._failures = 0


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
        self._backoffs: dict[K, RetryBackoff] = {}
        self._sequence = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None  # while it runs: to ask for it is a system call
        self._tasks: asyncio.TaskGroup | None = None  # while it runs
        self._ended: asyncio.Future[None] | None = None  # as well; done once it is to stop
        self._made = 0  # workers so far
        self._idle: list[asyncio.Future[K]] = []  # workers with nothing to do
        self._short = False  # of workers: a key is due and waits for one
        self._soon: asyncio.Handle | None = None  # handing out keys that are due
        self._alarm: asyncio.TimerHandle | None = None  # for the first that is not due yet
        self.told: Told | None = None

    def add(self, key: K, after: float = 0.0) -> None:
        """Look at `key` after that many seconds, or earlier if that was already planned."""
        at = self._now() + after
        if key in self._running:
            self._again[key] = min(at, self._again.get(key, at))
        elif at < self._due_at.get(key, float("inf")):
            self._due_at[key] = at
            heapq.heappush(self._due, (at, next(self._sequence), key))
            self._compact()
            if self._due[0][0] == at:
                self._expect(at)

    def _now(self) -> float:
        return (self._loop or asyncio.get_running_loop()).time()

    def _compact(self) -> None:
        """Times that were superseded, or whose key was forgotten, may lie weeks ahead: they do not pile up."""
        if len(self._due) > 2 * len(self._due_at) + FEWEST_TO_COMPACT:
            self._due = [entry for entry in self._due if self._due_at.get(entry[2]) == entry[0]]
            heapq.heapify(self._due)

    def caught_up(self, key: K) -> None:
        """Everything heard of `key` while it was being worked on is known by now: it needs no other look for that."""
        self._again.pop(key, None)

    def forget(self, key: K) -> None:
        """The object is gone: no more waits are owed to it."""
        self._due_at.pop(key, None)
        self._again.pop(key, None)
        self._backoffs.pop(key, None)

    @property
    def idle(self) -> bool:
        """Whether nothing is running and nothing is due now."""
        now = self._now()
        return not self._running and not any(at <= now for at in self._due_at.values())

    @property
    def depth(self) -> int:
        """How many keys are due and wait for a worker."""
        now = self._now()
        return sum(at <= now for at in self._due_at.values())

    async def run(self) -> None:
        """Work until cancelled."""
        self._idle.clear()
        self._made, self._short = 0, False
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._ended = self._loop.create_future()
                self._hand_out()
                await self._ended  # it is cancelled, by whoever runs this or by a worker that broke
        finally:
            self._loop = self._tasks = self._ended = None
            self._disarm()

    def _disarm(self) -> None:
        for handle in (self._soon, self._alarm):
            if handle is not None:
                handle.cancel()
        self._soon = self._alarm = None

    def _expect(self, at: float) -> None:
        """A key is the first to be due, at that time."""
        loop = self._loop
        if loop is None or self._ended is None or self._ended.done() or self._soon is not None or self._short:
            return
        if at <= loop.time():
            self._soon = loop.call_soon(self._hand_out)
        elif self._alarm is None or self._alarm.when() != at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._soon is None:
            self._hand_out()

    def _hand_out(self) -> None:
        """Give every key that is due to a worker, as long as there are any, and wait for the next."""
        self._soon = None
        now = self._now()
        while self._due and self._ended is not None and not self._ended.done():
            at, _, key = self._due[0]
            if self._due_at.get(key) != at:
                heapq.heappop(self._due)  # superseded by an earlier time, or forgotten
            elif at > now:
                return self._expect(at)
            elif not self._idle and self._made == self._workers:
                self._short = True
                return None
            else:
                heapq.heappop(self._due)
                del self._due_at[key]
                self._employ(key)
        return None

    def _employ(self, key: K) -> None:
        assert self._tasks is not None, "keys are handed out while it runs"
        self._running.add(key)
        if self._idle:
            self._idle.pop().set_result(key)
        else:
            self._made += 1
            self._tasks.create_task(self._serve(key), name=f"{self.name}:{self._made}")

    async def _serve(self, key: K) -> None:
        """Work on one key after another, as they are handed out."""
        loop = asyncio.get_running_loop()
        while True:
            await self._work(key)
            handed: asyncio.Future[K] = loop.create_future()
            self._idle.append(handed)
            if self._short:
                self._short = False
                self._soon = self._soon or loop.call_soon(self._hand_out)
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
            self.add(key, max(0.0, again - self._now()))

    async def _attempt(self, key: K) -> float | None:
        began = self._now()
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
            self.told(self.name, result, self._now() - began)

    def _failed(self, key: K) -> float:
        if key not in self._backoffs:
            self._backoffs[key] = RetryBackoff(self._first_backoff, self._backoff_limit)
        return self._backoffs[key].next()
