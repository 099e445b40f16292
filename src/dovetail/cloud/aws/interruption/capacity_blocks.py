"""Capacity blocks that are about to end, as a source of warnings: their instances are drained while there is time.

EC2 begins to take instances of a block away half an hour before its end, without a word. Forty minutes before the end
its instances are told of, every minute for as long as they are there. Nobody is asked: blocks are those the node
classes resolved last, instances those that were listed last.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from dovetail.cloud.aws.instances import Instances
from dovetail.cloud.aws.resolve.capacity_reservations import EXPIRING_BEFORE, CapacityReservations
from dovetail.ports.clock import Clock
from dovetail.ports.interruption import Delivery, Interruption, InterruptionKind

EVERY_SECONDS = 60.0
TAKEN_BEFORE = timedelta(minutes=30)


class EndingCapacityBlocks:
    """The capacity blocks of all node classes."""

    shared = True

    def __init__(
        self, reservations: CapacityReservations, instances: Instances, clock: Clock, every: float = EVERY_SECONDS
    ) -> None:
        self._reservations = reservations
        self._instances = instances
        self._clock = clock
        self._every = every

    async def receive(self) -> Sequence[Delivery]:
        """The instances whose block ends soon, after a minute."""
        await asyncio.sleep(self._every)
        soon = self._clock.now() + EXPIRING_BEFORE
        ending = {id_: ends_at for id_, ends_at in self._reservations.blocks.items() if ends_at <= soon}
        kind = InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED
        return [
            Delivery(f"{each.reservation_id}/{each.id}", Interruption(kind, (each.id,), ends_at - TAKEN_BEFORE))
            for each in self._instances.seen()
            if (ends_at := ending.get(each.reservation_id)) is not None and not each.terminating
        ]

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing is kept that would have to be taken back."""
