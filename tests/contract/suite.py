"""The contract of the `Cluster` port: every case, for every implementation.

Each case is an `async def` that takes an `Environment`. Cases are written for the behaviour of a real API server with
its controllers, a scheduler and simulated kubelets; the embedded world has to follow.
"""

from collections.abc import Awaitable, Callable

from contract import evictions, life, objects, watches
from contract.environment import Environment

Case = Callable[[Environment], Awaitable[None]]

CASES: tuple[Case, ...] = (*objects.CASES, *watches.CASES, *evictions.CASES, *life.CASES)


def title(case: Case) -> str:
    """The case as a sentence."""
    return case.__name__
