"""The `Compute` of production: one daemon thread that runs computations, first in, first out.

Python code in the thread gives up the interpreter lock every 5 milliseconds, so the event loop answers meanwhile. One
thread and not a pool: computations share the caches of the planner, which are made for one user at a time.

`close` does not wait: a computation that still runs has no effects, and the daemon thread ends with the process. So
neither a stop request nor the loss of leadership waits for the end of a long pass.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")
Request = tuple["Future[Any]", Callable[[], Any]]


class ComputeThread:
    """A daemon thread that runs computations until it is closed."""

    def __init__(self, name: str) -> None:
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    async def run(self, work: Callable[[], R], /) -> R:
        """Run the work in the thread and wait for it; work that has not begun is dropped if the wait is cancelled."""
        future: Future[R] = Future()
        self._requests.put((future, work))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """End the thread after the works that were requested before; returns at once."""
        self._requests.put(None)

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            _answer(*request)
            del request  # it refers to a snapshot, which must not live until the next request


def _answer(future: "Future[R]", work: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - raised again where the work was requested
        future.set_exception(error)
    else:
        future.set_result(result)
