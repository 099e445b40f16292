"""Where the controllers run long computations: planning a pass, placing pending pods, validating a command.

Planning a cluster of ten thousand nodes takes seconds. On the event loop that would delay every other task by as much:
drains, interruption warnings, probes. In production a `Compute` runs the work in a thread; `InlineCompute` calls it at
once, so that a loop on virtual time stays deterministic.

Contract: works run one at a time, in the order of the calls, and never beside each other, so the caches that they share
need no locks. A work must not touch what the event loop changes; it reads immutable snapshots. If the caller is
cancelled, a work that has begun ends by itself, its result is dropped, and the next work begins only after it.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

R = TypeVar("R")


class Compute(Protocol):
    """Runs computations for the controllers."""

    async def run(self, work: Callable[[], R], /) -> R:
        """Return the result of the work, or raise what it raises."""
        ...


class InlineCompute:
    """Calls the work on the event loop, without giving way to other tasks."""

    async def run(self, work: Callable[[], R], /) -> R:
        """Call the work."""
        return work()
