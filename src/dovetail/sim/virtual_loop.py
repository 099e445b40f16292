"""An asyncio event loop on virtual time: the clock jumps to the next timer as soon as no callback is ready.

Everything that waits through asyncio waits on virtual time, so a simulated week takes only as long as its work. The
loop is deterministic: ready callbacks run first in, first out; timers of one instant run in the order of their
creation; tasks hash by number, so that sets of tasks iterate in the same order in every process.

Timers are a heap of (instant, sequence number, handle). Cancelled timers stay in the heap until they come up, or until
they are more than half of it; then the heap is compacted. There is no I/O and there are no threads. If neither a
callback nor a timer is left and the main task has not finished, the loop raises `Stalled` instead of blocking.
"""

import asyncio
import sys
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar, TypeVarTuple, Unpack

from dovetail.sim.timer_handles import VirtualHandle, VirtualTimer

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)
"""The default start of virtual time: a Monday, midnight UTC."""

Pace = Callable[[float], None]
"""Called before each jump with its target, in seconds since the start; may block to slow the simulation down."""

_FEWEST_CANCELLED_TO_COMPACT = 128


class Stalled(RuntimeError):
    """Nothing is left to run and no timer is set, yet the main task has not finished."""


class OutOfTime(RuntimeError):
    """The main task has not finished within its limit of virtual time."""


class VirtualTask(asyncio.Task[Any]):
    """A task that hashes by its number instead of its address."""

    def __init__(
        self, coro: Coroutine[Any, Any, Any], *, number: int, loop: "VirtualLoop", context: Context | None = None
    ) -> None:
        self.number = number  # before the task is registered, which hashes it
        super().__init__(coro, loop=loop, name=f"task-{number}", context=context)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop. `limit` is the last instant, in seconds, that time may jump to."""

    def __init__(self, *, pace: Pace | None = None, limit: float | None = None) -> None:
        self.failures: list[dict[str, Any]] = []
        self._pace = pace
        self._limit = limit
        self._now = 0.0
        self._ready: deque[VirtualHandle] = deque()
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._cancelled_timers = 0
        self._timers_made = 0
        self._tasks_made = 0
        self._running = False
        self._stopping = False
        self._closed = False
        self._generators: dict[int, AsyncGenerator[Any, Any]] = {}

    def time(self) -> float:
        """Seconds of virtual time since the loop was created."""
        return self._now

    # -- callbacks and timers

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run the callback at the current instant, after all callbacks that are ready."""
        handle = VirtualHandle(callback, args, self, context)
        if self._closed:
            self._check_open()
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """The same as `call_soon`: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run the callback after `delay` seconds of virtual time."""
        return self._set_timer(self._now + delay, callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run the callback at that instant of virtual time."""
        return self._set_timer(when, callback, args, context)

    def _set_timer(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> VirtualTimer:
        if self._closed:
            self._check_open()
        handle = VirtualTimer(when, callback, args, self, context)
        self._timers_made += 1
        handle._scheduled = True  # noqa: SLF001 - as asyncio does
        heappush(self._timers, (when, self._timers_made, handle))
        return handle

    def _timer_handle_cancelled(self, handle: VirtualTimer) -> None:
        if not handle._scheduled:  # noqa: SLF001 - no longer in the heap
            return
        self._cancelled_timers += 1
        if self._cancelled_timers > max(_FEWEST_CANCELLED_TO_COMPACT, len(self._timers) // 2):
            self._timers[:] = [timer for timer in self._timers if not timer[2].cancelled()]
            heapify(self._timers)
            self._cancelled_timers = 0

    def create_future(self) -> "asyncio.Future[Any]":
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, R] | Coroutine[Any, Any, R],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> "asyncio.Task[R]":
        """Run the coroutine as a task of this loop."""
        self._check_open()
        self._tasks_made += 1
        task = VirtualTask(coro, number=self._tasks_made, loop=self, context=context)  # type: ignore[arg-type]  # as asyncio
        if name is not None:
            task.set_name(name)
        return task

    # -- running

    def run_forever(self) -> None:
        """Run until stopped, or until `Stalled` or `OutOfTime`."""
        self._check_open()
        hooks = sys.get_asyncgen_hooks()
        self._running = True
        _set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=self._generator_started, finalizer=self._generator_dropped)
        try:
            self._run()
        finally:
            sys.set_asyncgen_hooks(*hooks)
            _set_running_loop(None)
            self._running = self._stopping = False

    def run_until_complete(self, future: Any) -> Any:
        """Run until the coroutine or future is done; returns its result."""
        main = asyncio.ensure_future(future, loop=self)
        main.add_done_callback(self._main_done)
        try:
            self.run_forever()
        finally:
            main.remove_done_callback(self._main_done)
        return main.result()

    def _main_done(self, _: object) -> None:
        self._stopping = True

    def stop(self) -> None:
        """Stop after the callbacks that are ready now."""
        self._stopping = True

    def _run(self) -> None:
        queue, take, timers = self._ready, self._ready.popleft, self._timers
        while not self._stopping:
            if not queue:
                self._jump()
            now = self._now
            while timers and timers[0][0] <= now:
                handle = heappop(timers)[2]
                handle._scheduled = False  # noqa: SLF001 - as asyncio does
                if handle._cancelled:  # noqa: SLF001 - faster than a method
                    self._cancelled_timers -= 1
                else:
                    queue.append(handle)
            for _ in range(len(queue)):
                ready = take()
                if ready._cancelled:  # noqa: SLF001 - as above
                    continue
                context = ready._context  # noqa: SLF001 - a handle has no public way to be run
                try:
                    if context is None:
                        ready._callback(*ready._args)  # noqa: SLF001 - as above
                    else:
                        context.run(ready._callback, *ready._args)  # noqa: SLF001 - as above
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - the loop keeps it, and `run` raises it
                    message = f"Exception in callback {ready._callback!r}"  # noqa: SLF001 - as above
                    self.call_exception_handler({"message": message, "exception": error, "handle": ready})

    def _jump(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heappop(self._timers)
            self._cancelled_timers -= 1
        if not self._timers:
            raise Stalled(f"no callback or timer is left at {self._now:.3f} s; blocked tasks: {self._waiting()}")
        when = self._timers[0][0]
        if self._limit is not None and when > self._limit:
            raise OutOfTime(
                f"not finished within {self._limit:.0f} s of virtual time; unfinished tasks: {self._waiting()}"
            )
        if when > self._now:
            if self._pace is not None:
                self._pace(when)
            self._now = when

    def _waiting(self) -> str:
        return ", ".join(_described(task) for task in self._tasks()) or "none"

    def _tasks(self) -> "list[asyncio.Task[Any]]":
        return sorted(asyncio.all_tasks(self), key=hash)

    # -- ending

    def shut_down(self) -> None:
        """Cancel every task, wait until each has cleaned up, and close."""
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        self._limit = None
        if tasks:
            self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.run_until_complete(self.shutdown_asyncgens())
        self.close()

    async def shutdown_asyncgens(self) -> None:
        """Close the asynchronous generators that are not exhausted."""
        for generator in list(self._generators.values()):
            await generator.aclose()
        self._generators.clear()

    async def shutdown_default_executor(self) -> None:
        """Do nothing: there is no executor."""

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = generator

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators.pop(id(generator), None)
        if not self._closed:
            self.create_task(generator.aclose())

    def close(self) -> None:
        """Drop all callbacks and timers."""
        self._ready.clear()
        self._timers.clear()
        self._closed = True

    def is_running(self) -> bool:
        """Whether the loop runs callbacks now."""
        return self._running

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    # -- required by asyncio

    def get_debug(self) -> bool:
        """Always false: debug mode measures real time."""
        return False

    def set_debug(self, enabled: bool) -> None:
        """Do nothing: debug mode is not supported."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Record the failure; `run` raises it."""
        self.failures.append(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Handle the failure of a callback, or of a task whose result was never retrieved."""
        self.default_exception_handler(context)


def _described(task: "asyncio.Task[Any]") -> str:
    code = getattr(task.get_coro(), "__qualname__", "?")
    return f"{task.get_name()} ({code})"


async def pause(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """As `asyncio.sleep`, but without the system call that finds the running loop."""
    done = loop.create_future()
    timer = loop.call_later(seconds, _set_done, done)
    try:
        await done
    except BaseException:
        timer.cancel()
        raise


def _set_done(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


class VirtualClock:
    """A clock that reads the time of a virtual loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: datetime = EPOCH) -> None:
        self._loop = loop
        self._epoch = epoch
        self._at = -1.0
        self._now = epoch

    def now(self) -> datetime:
        """The epoch plus the loop's time."""
        at = self._loop.time()
        if at != self._at:
            self._at, self._now = at, self._epoch + timedelta(seconds=at)
        return self._now


def run(main: Coroutine[Any, Any, R], *, pace: Pace | None = None, limit: float | None = None) -> R:
    """Run a coroutine on a new virtual loop; also raises failures of callbacks and of other tasks."""
    loop = VirtualLoop(pace=pace, limit=limit)  # type: ignore[abstract]  # I/O and threads are left out on purpose
    try:
        result: R = loop.run_until_complete(main)
    finally:
        loop.shut_down()
    for context in loop.failures:
        raise RuntimeError(context.get("message", "failed")) from context.get("exception")
    return result
