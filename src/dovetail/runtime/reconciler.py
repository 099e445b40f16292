"""A work queue with delayed keys, like client-go's rate-limited queue, and exponential backoff.

Informers add keys, and workers call one function per key, each key at most once at a time. The function returns the
seconds until its key is due again; None means only after the next change. A failed call is retried with backoff, and a
failing key does not affect other keys. Assertions are not caught: they mean a defect, not a failure of the cluster.

`_due` is a heap of (time, sequence, key); `_due_at` holds the valid time of each key, so an entry with another time is
stale and skipped. `add` costs O(log n). A key that is added while it runs is queued again afterwards (`_requeue_at`).
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dovetail.ports.errors import Conflict, WorldError


class RetryBackoff:
    """The doubling delays of one series of failures."""

    def __init__(self, first: float, limit: float) -> None:
        self._first = first
        self._limit = limit
        self._failures = 0

    def next(self) -> float:
        """Return the seconds to wait after one more failure."""
        delay = min(self._first * 2.0 ** min(self._failures, 32), self._limit)
        self._failures += 1
        return delay

    def reset(self) -> None:
        """Start over after a success."""
        self._failures = 0


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """How one call ended: success, requeue_after (success, due again later), requeue (conflict) or error."""

    name: str
    outcome: str
    queued_seconds: float  # from due to started
    seconds: float
    unexpected: bool = False  # an error that no port declares


ReconcileListener = Callable[[ReconcileResult], None]
K = TypeVar("K", bound=Hashable)
MIN_STALE_ENTRIES = 64


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
        self.workers = workers
        self._first_backoff = first_backoff
        self._backoff_limit = backoff_limit
        self._due: list[tuple[float, int, K]] = []
        self._due_at: dict[K, float] = {}
        self._running: dict[K, tuple[float, float]] = {}  # when it was due, and when it started
        self._requeue_at: dict[K, float] = {}
        self._backoffs: dict[K, RetryBackoff] = {}
        self._sequence = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None  # while it runs; cached because get_running_loop is slow
        self._tasks: asyncio.TaskGroup | None = None  # while it runs
        self._stopped: asyncio.Future[None] | None = None  # while it runs; done when it must stop
        self._worker_count = 0  # workers started so far
        self._idle_workers: list[asyncio.Future[K]] = []
        self._short_of_workers = False  # a key is due, and all workers are busy
        self._dispatch_handle: asyncio.Handle | None = None  # a scheduled `_dispatch`
        self._timer: asyncio.TimerHandle | None = None  # for the first key that is not due yet
        self.on_result: ReconcileListener | None = None
        self.adds = 0  # keys queued so far
        self.retries = 0  # failed calls so far

    def add(self, key: K, after: float = 0.0) -> None:
        """Queue `key` for that many seconds from now, unless it is queued for an earlier time."""
        at = self._now() + after
        if key in self._running:
            self._requeue_at[key] = min(at, self._requeue_at.get(key, at))
        elif at < self._due_at.get(key, float("inf")):
            self.adds += 1
            self._due_at[key] = at
            heapq.heappush(self._due, (at, next(self._sequence), key))
            self._compact()
            if self._due[0][0] == at:
                self._schedule(at)

    def _now(self) -> float:
        return (self._loop or asyncio.get_running_loop()).time()

    def _compact(self) -> None:
        """Remove stale heap entries once they outnumber the valid ones: their times may be weeks ahead."""
        if len(self._due) > 2 * len(self._due_at) + MIN_STALE_ENTRIES:
            self._due = [entry for entry in self._due if self._due_at.get(entry[2]) == entry[0]]
            heapq.heapify(self._due)

    def drop_requeue(self, key: K) -> None:
        """Cancel the requeue of a running `key`: the running call has already seen every change."""
        self._requeue_at.pop(key, None)

    def forget(self, key: K) -> None:
        """Drop `key` and its backoff: its object is gone."""
        self._due_at.pop(key, None)
        self._requeue_at.pop(key, None)
        self._backoffs.pop(key, None)

    @property
    def idle(self) -> bool:
        """Whether nothing is running and nothing is due now."""
        now = self._now()
        return not self._running and not any(at <= now for at in self._due_at.values())

    @property
    def depth(self) -> int:
        """The number of keys that are due and wait for a worker."""
        now = self._now()
        return sum(at <= now for at in self._due_at.values())

    def running_seconds(self) -> list[float]:
        """How long each call that runs has taken so far."""
        return [self._now() - started for _, started in self._running.values()]

    async def run(self) -> None:
        """Reconcile keys until cancelled."""
        self._idle_workers.clear()
        self._worker_count, self._short_of_workers = 0, False
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._stopped = self._loop.create_future()
                self._dispatch()
                await self._stopped  # cancelled from outside, or by a worker that failed
        finally:
            self._loop = self._tasks = self._stopped = None
            self._disarm()

    def _disarm(self) -> None:
        for handle in (self._dispatch_handle, self._timer):
            if handle is not None:
                handle.cancel()
        self._dispatch_handle = self._timer = None

    def _schedule(self, at: float) -> None:
        """Schedule `_dispatch` for the time at which the first key is due."""
        loop = self._loop
        if (
            loop is None
            or self._stopped is None
            or self._stopped.done()
            or self._dispatch_handle is not None
            or self._short_of_workers
        ):
            return
        if at <= loop.time():
            self._dispatch_handle = loop.call_soon(self._dispatch)
        elif self._timer is None or self._timer.when() != at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._dispatch_handle is None:
            self._dispatch()

    def _dispatch(self) -> None:
        """Assign due keys to workers while there are idle ones, then schedule the next call."""
        self._dispatch_handle = None
        now = self._now()
        while self._due and self._stopped is not None and not self._stopped.done():
            at, _, key = self._due[0]
            if self._due_at.get(key) != at:
                heapq.heappop(self._due)  # superseded by an earlier time, or forgotten
            elif at > now:
                return self._schedule(at)
            elif not self._idle_workers and self._worker_count == self.workers:
                self._short_of_workers = True
                return None
            else:
                heapq.heappop(self._due)
                del self._due_at[key]
                self._assign(key, at, now)
        return None

    def _assign(self, key: K, due_at: float, now: float) -> None:
        assert self._tasks is not None, "keys are assigned only while it runs"
        self._running[key] = due_at, now
        if self._idle_workers:
            self._idle_workers.pop().set_result(key)
        else:
            self._worker_count += 1
            self._tasks.create_task(self._worker_loop(key), name=f"{self.name}:{self._worker_count}")

    async def _worker_loop(self, key: K) -> None:
        """Reconcile one assigned key after the other."""
        loop = asyncio.get_running_loop()
        while True:
            await self._run_key(key)
            next_key: asyncio.Future[K] = loop.create_future()
            self._idle_workers.append(next_key)
            if self._short_of_workers:
                self._short_of_workers = False
                self._dispatch_handle = self._dispatch_handle or loop.call_soon(self._dispatch)
            key = await next_key

    async def _run_key(self, key: K) -> None:
        try:
            after = await self._attempt(key)
        finally:
            del self._running[key]
        again = self._requeue_at.pop(key, None)
        if after is not None:
            self.add(key, after)
        if again is not None:
            self.add(key, max(0.0, again - self._now()))

    async def _attempt(self, key: K) -> float | None:
        try:
            after = await self._reconcile(key)
        except AssertionError:
            raise
        except Conflict:
            self._report(key, "requeue")
            return self._failed(key)
        except WorldError as error:
            self._report(key, "error")
            after = max(self._failed(key), getattr(error, "retry_after", None) or 0.0)
            log.warning(
                "reconcile failed",
                extra={"controller": self.name, "object": str(key), "error": str(error), "retry_seconds": after},
            )
            return after
        except Exception:
            self._report(key, "error", unexpected=True)
            after = self._failed(key)
            log.exception("reconcile broke", extra={"controller": self.name, "object": str(key)})
            return after
        self._report(key, "success" if after is None else "requeue_after")
        self._backoffs.pop(key, None)
        return after

    def _report(self, key: K, outcome: str, *, unexpected: bool = False) -> None:
        if self.on_result is not None:
            due_at, started = self._running[key]
            took, queued = self._now() - started, max(0.0, started - due_at)
            self.on_result(ReconcileResult(self.name, outcome, queued, took, unexpected))

    def _failed(self, key: K) -> float:
        if key not in self._backoffs:
            self._backoffs[key] = RetryBackoff(self._first_backoff, self._backoff_limit)
        self.retries += 1
        return self._backoffs[key].next()
