"""Interruption notices from EC2: failed status checks, scheduled events, and ending capacity blocks.

`StatusChecks` polls DescribeInstanceStatus once a minute with three filtered requests, independent of the number of
instances, because EC2 returns only the affected ones. A status check counts after it failed for two minutes. Completed
and canceled events are ignored. Results include instances of other clusters in the account; no NodeClaim matches them.

`EndingCapacityBlocks` reports the instances of a capacity block from 40 minutes before its end: EC2 starts to reclaim
them 30 minutes before the end without a notice. It sends no request: it uses the reservations that the node classes
resolved last and the cached instances.

Both repeat a notice every minute while its cause lasts. `find_sources` adds the SQS queue if one is configured.
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

POLL_SECONDS = 60.0
UNAUTHORIZED_POLL_SECONDS = 3600.0
"""The poll interval while EC2 denies the request."""
MIN_FAILURE = timedelta(seconds=120)
_FINISHED = ("[Completed]", "[Canceled]")
_EVENTS = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
_CHECKS = (
    ("instance-status.status", "InstanceStatus", InterruptionKind.INSTANCE_STATUS),
    ("system-status.status", "SystemStatus", InterruptionKind.SYSTEM_STATUS),
)


class StatusChecks:
    """Failed EC2 status checks and scheduled events as an interruption source."""

    shared = True

    def __init__(self, aws: AwsClients, clock: Clock, poll_seconds: float = POLL_SECONDS) -> None:
        self._aws = aws
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._wait = 0.0

    async def receive(self) -> Sequence[Delivery]:
        """The current failures and events; waits until a minute after the last poll."""
        await asyncio.sleep(self._wait)
        self._wait = self._poll_seconds
        try:
            found = [await self._failed_checks(*check) for check in _CHECKS]
            found.append(await self._scheduled_events())
        except AwsError as error:
            self._wait = UNAUTHORIZED_POLL_SECONDS if error.unauthorized else 0.0
            raise
        return [delivery for each in found for delivery in each]

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Does nothing: notices are not stored."""

    async def _failed_checks(self, condition: str, field: str, kind: InterruptionKind) -> list[Delivery]:
        since = self._clock.now() - MIN_FAILURE
        return [
            _delivery(kind, status["InstanceId"])
            for status in await self._describe(condition, ["impaired"])
            if _failed_since(status.get(field, {}).get("Details", ()), since)
        ]

    async def _scheduled_events(self) -> list[Delivery]:
        return [
            _delivery(InterruptionKind.EVENT_STATUS, status["InstanceId"], event.get("NotBefore"))
            for status in await self._describe("event.code", list(_EVENTS))
            for event in _earliest(_pending(status.get("Events", ())))
        ]

    async def _describe(self, condition: str, values: Sequence[str]) -> list[Any]:
        filters = [{"Name": condition, "Values": values}]
        return await self._aws.collect("ec2", "describe_instance_status", "InstanceStatuses", Filters=filters)


def _delivery(kind: InterruptionKind, instance: str, at: datetime | None = None) -> Delivery:
    return Delivery(f"{kind}/{instance}", Interruption(kind, (instance,), at))


def _failed_since(details: Iterable[Mapping[str, Any]], latest: datetime) -> bool:
    """Whether a check failed before `latest`. A failure without a start time does not count: repair is forceful."""
    failed = (each for each in details if each.get("Status") == "failed" and each.get("ImpairedSince"))
    return any(each["ImpairedSince"] <= latest for each in failed)


def _pending(events: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (
        event
        for event in events
        if event.get("Code") in _EVENTS and not event.get("Description", "").startswith(_FINISHED)
    )


def _earliest(events: Iterator[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The earliest event: one notice per instance is enough."""
    known = list(events)
    timed = sorted((event for event in known if event.get("NotBefore")), key=lambda event: event["NotBefore"])
    return (timed or known)[:1]


RECLAIMED_BEFORE = timedelta(minutes=30)


class EndingCapacityBlocks:
    """Reports the instances of capacity blocks that end soon, for all node classes."""

    shared = True

    def __init__(
        self, reservations: CapacityReservations, instances: Instances, clock: Clock, poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._reservations = reservations
        self._instances = instances
        self._clock = clock
        self._poll_seconds = poll_seconds

    async def receive(self) -> Sequence[Delivery]:
        """The instances whose capacity block ends soon, once a minute."""
        await asyncio.sleep(self._poll_seconds)
        soon = self._clock.now() + EXPIRING_BEFORE
        ending = {id_: ends_at for id_, ends_at in self._reservations.blocks.items() if ends_at <= soon}
        kind = InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED
        return [
            Delivery(f"{each.reservation_id}/{each.id}", Interruption(kind, (each.id,), ends_at - RECLAIMED_BEFORE))
            for each in self._instances.cached()
            if (ends_at := ending.get(each.reservation_id)) is not None and not each.terminating
        ]

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Does nothing: notices are not stored."""


def find_sources(parts: AwsParts, metrics: Metrics) -> tuple[InterruptionSource, ...]:
    """The interruption sources for the settings. Sends no request."""
    always = (
        StatusChecks(parts.aws, parts.clock),
        EndingCapacityBlocks(parts.resolvers.reservations, parts.instances, parts.clock),
    )
    name = parts.settings.interruption_queue
    return (SqsQueue(parts.aws, name, metrics), *always) if name else always
