"""The interface of interruption sources: a queue of the cloud, a poll of instance status, or a simulated one.

A delivery is acknowledged after it was handled, so it is delivered again after a crash, and handlers must be
idempotent. Messages that a source cannot parse are logged, counted and discarded by the source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class InterruptionKind(StrEnum):
    """The kind of an interruption. The values are metric labels and reasons."""

    SPOT_INTERRUPTED = "spot_interrupted"
    REBALANCE_RECOMMENDATION = "rebalance_recommendation"
    SCHEDULED_CHANGE = "scheduled_change"
    INSTANCE_STOPPED = "instance_stopped"
    INSTANCE_TERMINATED = "instance_terminated"
    CAPACITY_RESERVATION_INTERRUPTED = "capacity_reservation_interrupted"
    INSTANCE_STATUS = "instance_status"
    SYSTEM_STATUS = "system_status"
    EVENT_STATUS = "event_status"


@dataclass(frozen=True, slots=True)
class Interruption:
    """One warning. `instance_ids` are the last segments of provider ids, possibly of other clusters.

    `at` is when the interruption happens, if known, not when the warning was sent; the drain must end by then.
    """

    kind: InterruptionKind
    instance_ids: tuple[str, ...]
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A received message. `interruption` is None for a valid message that requires no action."""

    id: str
    interruption: Interruption | None
    sent_at: datetime | None = None


class InterruptionSource(Protocol):
    """A source of interruption warnings."""

    @property
    def shared(self) -> bool:
        """Whether every receiver gets all messages. A queue hides a received message from other receivers."""
        ...

    async def receive(self) -> Sequence[Delivery]:
        """Wait for the next messages, possibly none. Raises `ApiError` or `CloudError`; the caller retries."""
        ...

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Mark messages as handled, so that they are not delivered again."""
        ...
