"""The contract of the `Cluster` port: every case, for every implementation.

Each case is an `async def` that takes an `Environment`. Cases are written for the behaviour of a real API server with
its controllers, a scheduler and simulated kubelets; the embedded world has to follow.
"""

from collections.abc import Awaitable, Callable

from contract import evictions, freshness, life, nominations, objects, watches, writes
from contract.environment import Environment
from contract.fields import changes, custom, metadata, placement, pods, workloads

Case = Callable[[Environment], Awaitable[None]]

FIELDS: tuple[Case, ...] = tuple(
    case for table in (metadata, pods, placement, workloads, changes, custom) for case in table.CASES
)
CASES: tuple[Case, ...] = (
    *objects.CASES,
    *writes.CASES,
    *freshness.CASES,
    *watches.CASES,
    *evictions.CASES,
    *life.CASES,
    *nominations.CASES,
    *FIELDS,
)


def title(case: Case) -> str:
    """The case as a sentence."""
    return case.__name__
