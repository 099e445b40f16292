"""What was worked out from a value, found again by the value itself, not by one that equals it.

For values that are large, never change and are asked about again and again: a catalogue, the spec of a pool. Only the
last few are kept. Whoever asks gets what would be worked out anew, so nothing can be told from it.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
KEPT = 64


class IdentityCache(Generic[K, V]):
    """Answers of one function."""

    def __init__(self, make: Callable[[K], V]) -> None:
        self._make = make
        self._kept: deque[tuple[K, V]] = deque(maxlen=KEPT)  # with the values, so that no identity is given away

    def of(self, value: K) -> V:
        """The answer for this very value."""
        for known, answer in tuple(self._kept):
            if known is value:
                return answer
        answer = self._make(value)
        self._kept.append((value, answer))
        return answer
