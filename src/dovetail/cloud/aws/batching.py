"""Questions about single things, gathered for a moment and asked together.

Whoever asks waits until nobody has asked for a while, or the first has waited long enough, or the batch is full. A
thing asked for twice is asked once. A batch that fails fails everybody in it, and nobody after.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """How long a batch gathers, in seconds, and how much it takes."""

    idle: float = 0.1
    longest: float = 1.0
    most: int = 200


class Batched(Generic[K, V]):
    """Answers by key; None for what `fetch` does not answer for."""

    def __init__(
        self, fetch: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]], window: BatchWindow | None = None
    ) -> None:
        self._fetch = fetch
        self._window = window or BatchWindow()
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def ask(self, key: K) -> V | None:
        """The answer for one key, with whatever else is asked for around now."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._began = loop.time()
        answer = self._waiting.setdefault(key, loop.create_future())
        self._set_timer(loop)
        return await asyncio.shield(answer)  # one who gives up takes the answer from nobody else

    async def aclose(self) -> None:
        """Ask nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if len(self._waiting) >= self._window.most:
            self._send()
            return
        due = min(loop.time() + self._window.idle, self._began + self._window.longest)
        self._timer = loop.call_at(due, self._send)

    def _send(self) -> None:
        batch, self._waiting, self._timer = self._waiting, {}, None
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _run(self, batch: dict[K, asyncio.Future[V | None]]) -> None:
        try:
            answers = await self._fetch(list(batch))
        except asyncio.CancelledError:
            for waiting in batch.values():
                waiting.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to those who asked
            for waiting in batch.values():
                waiting.set_exception(error)
                waiting.exception()  # all who asked may have gone
            return
        for key, waiting in batch.items():
            waiting.set_result(answers.get(key))


def chunks(keys: Sequence[K], most: int) -> Iterator[Sequence[K]]:
    """The keys, at most so many at a time."""
    for start in range(0, len(keys), most):
        yield keys[start : start + most]
