"""What EC2 finds out about its instances by itself: failed status checks, and events it has scheduled.

Asked once a minute with three questions, however many instances there are: EC2 tells of the bad ones only. A check must
have failed for two minutes. Events that are over or called off are left out. Instances of other clusters in the account
are told of, too; nobody claims them here. What is wrong is told every minute for as long as it lasts.

Capacity blocks that are about to end, as a source of warnings: their instances are drained while there is time.

EC2 begins to take instances of a block away half an hour before its end, without a word. Forty minutes before the end
its instances are told of, every minute for as long as they are there. Nobody is asked: blocks are those the node
classes resolved last, instances those that were listed last.

Which sources of warnings there are on AWS: status checks and ends of capacity blocks always, the queue if named.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dovetail.cloud.aws.clients import AwsClients, AwsError
from dovetail.cloud.aws.instances import Instances
from dovetail.cloud.aws.interruption.sqs import SqsQueue
from dovetail.cloud.aws.provider import AwsParts
from dovetail.cloud.aws.resolve.capacity_reservations import EXPIRING_BEFORE, CapacityReservations
from dovetail.ports.clock import Clock
from dovetail.ports.interruption import Delivery, Interruption, InterruptionKind, InterruptionSource
from dovetail.ports.metrics import Metrics

EVERY_SECONDS = 60.0
REFUSED_SECONDS = 3600.0
"""Between two questions while EC2 does not let us ask."""
LASTING = timedelta(seconds=120)
_OVER = ("[Completed]", "[Canceled]")
_EVENTS = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
_CHECKS = (
    ("instance-status.status", "InstanceStatus", InterruptionKind.INSTANCE_STATUS),
    ("system-status.status", "SystemStatus", InterruptionKind.SYSTEM_STATUS),
)


class StatusChecks:
    """EC2's own checks as a source of warnings."""

    shared = True

    def __init__(self, aws: AwsClients, clock: Clock, every: float = EVERY_SECONDS) -> None:
        self._aws = aws
        self._clock = clock
        self._every = every
        self._wait = 0.0

    async def receive(self) -> Sequence[Delivery]:
        """What is wrong now, a minute after it was asked last."""
        await asyncio.sleep(self._wait)
        self._wait = self._every
        try:
            found = [await self._failing(*check) for check in _CHECKS]
            found.append(await self._scheduled())
        except AwsError as error:
            self._wait = REFUSED_SECONDS if error.unauthorized else 0.0
            raise
        return [delivery for each in found for delivery in each]

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing is kept that would have to be taken back."""

    async def _failing(self, condition: str, field: str, kind: InterruptionKind) -> list[Delivery]:
        since = self._clock.now() - LASTING
        return [
            _delivery(kind, status["InstanceId"])
            for status in await self._ask(condition, ["impaired"])
            if _failed_since(status.get(field, {}).get("Details", ()), since)
        ]

    async def _scheduled(self) -> list[Delivery]:
        return [
            _delivery(InterruptionKind.EVENT_STATUS, status["InstanceId"], event.get("NotBefore"))
            for status in await self._ask("event.code", list(_EVENTS))
            for event in _first(_to_come(status.get("Events", ())))
        ]

    async def _ask(self, condition: str, values: Sequence[str]) -> list[Any]:
        filters = [{"Name": condition, "Values": values}]
        return await self._aws.collect("ec2", "describe_instance_status", "InstanceStatuses", Filters=filters)


def _delivery(kind: InterruptionKind, instance: str, at: datetime | None = None) -> Delivery:
    return Delivery(f"{kind}/{instance}", Interruption(kind, (instance,), at))


def _failed_since(details: Iterable[Mapping[str, Any]], latest: datetime) -> bool:
    """Whether it has lasted. A failure of which nobody knows since when does not count: what follows is forceful."""
    failed = (each for each in details if each.get("Status") == "failed" and each.get("ImpairedSince"))
    return any(each["ImpairedSince"] <= latest for each in failed)


def _to_come(events: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (
        event for event in events if event.get("Code") in _EVENTS and not event.get("Description", "").startswith(_OVER)
    )


def _first(events: Iterator[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The soonest of them: one warning for an instance is enough."""
    known = list(events)
    timed = sorted((event for event in known if event.get("NotBefore")), key=lambda event: event["NotBefore"])
    return (timed or known)[:1]


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


def find_sources(parts: AwsParts, metrics: Metrics) -> tuple[InterruptionSource, ...]:
    """The sources the settings ask for. Nothing is asked yet."""
    always = (
        StatusChecks(parts.aws, parts.clock),
        EndingCapacityBlocks(parts.resolvers.reservations, parts.instances, parts.clock),
    )
    name = parts.settings.interruption_queue
    return (SqsQueue(parts.aws, name, metrics), *always) if name else always
