"""A summary with quantiles over the last ten minutes, as Go's Prometheus client has them; Python's has none.

Like Go's, the window is five streams: each receives every value, and every two minutes the oldest is emptied, so that
the quantiles cover the last eight to ten minutes. A stream keeps at most `MAX_VALUES` values. When it is full, it keeps
every second one and from then on takes only every second value, and so on: the rank error is about 1 / `MAX_VALUES`.
The smallest and the largest value are kept exactly. `count` and `sum` cover all time. `quantiles` changes nothing, so
another thread may call it.
"""

import math
from collections import deque
from collections.abc import Callable

QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)
STREAMS = 5
STREAM_SECONDS = 120.0
MAX_VALUES = 1000


class _Stream:
    """The values since this stream was emptied."""

    __slots__ = ("largest", "seen", "smallest", "stride", "values")

    def __init__(self) -> None:
        self.values: list[float] = []
        self.seen = 0
        self.stride = 1
        self.smallest = math.inf
        self.largest = -math.inf

    def add(self, value: float) -> None:
        self.smallest, self.largest = min(self.smallest, value), max(self.largest, value)
        if self.seen % self.stride == 0:
            if len(self.values) >= MAX_VALUES:
                self.values = self.values[::2]
                self.stride *= 2
            if self.seen % self.stride == 0:
                self.values.append(value)
        self.seen += 1

    def quantile(self, rank: float, ordered: list[float]) -> float:
        if not ordered:
            return math.nan
        if rank in (0.0, 1.0):
            return self.largest if rank else self.smallest
        return ordered[max(0, math.ceil(rank * len(ordered)) - 1)]


class SlidingSummary:
    """Quantiles, count and sum of one series. `now` returns seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._streams = deque(_Stream() for _ in range(STREAMS))
        self._rotate_at = now() + STREAM_SECONDS
        self.count = 0
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Add a value."""
        steps = self._due_steps()
        for _ in range(min(steps, STREAMS)):
            self._streams.popleft()
            self._streams.append(_Stream())
        self._rotate_at += steps * STREAM_SECONDS
        self.count += 1
        self.sum += value
        for stream in self._streams:
            stream.add(value)

    def quantiles(self) -> dict[float, float]:
        """Return the value of each quantile; NaN if nothing was observed within the window."""
        streams, steps = tuple(self._streams), self._due_steps()
        stream = streams[steps] if steps < STREAMS else _Stream()
        ordered = sorted(stream.values)
        return {rank: stream.quantile(rank, ordered) for rank in QUANTILES}

    def _due_steps(self) -> int:
        """Return how many streams should have been emptied since the last value."""
        late = self._now() - self._rotate_at
        return int(late // STREAM_SECONDS) + 1 if late >= 0 else 0
