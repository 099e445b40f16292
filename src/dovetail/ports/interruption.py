"""Where warnings about instances come from: a queue of the cloud, or a staged one.

A delivery is acknowledged only after it was handled, so a crash in between brings it again; whoever handles it must
bear to see it twice. What a source cannot understand it sets aside itself, and counts; it never reaches the handler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class InterruptionKind(StrEnum):
    """What is about to happen to an instance. The values are metric labels and reasons."""

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
    """One warning. `instance_ids` are the last segments of provider ids; those of other clusters may be among them.

    `at` is when it is going to happen, if the warning tells: a drain that has not ended by then is cut short. The
    instant at which the warning was sent is not this one.
    """

    kind: InterruptionKind
    instance_ids: tuple[str, ...]
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as received. `interruption` is None where it was understood and asks for nothing."""

    id: str
    interruption: Interruption | None
    sent_at: datetime | None = None


class InterruptionSource(Protocol):
    """A place warnings come from."""

    @property
    def shared(self) -> bool:
        """Whether many may listen and each hears everything. A queue hides from others what it hands out."""
        ...

    async def receive(self) -> Sequence[Delivery]:
        """Wait for the next messages. May answer with none; raises `ApiError` or `CloudError` to be asked again."""
        ...

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """They were handled and must not come again."""
        ...
