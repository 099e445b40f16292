"""The capacity reservations of a node class, and how much of each is left."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dovetail.cloud.aws.clients import AwsClients
from dovetail.cloud.aws.resolve.selector_terms import key_of, named, tagged
from dovetail.cloud.aws.ttl_cache import TtlCache
from dovetail.model.ec2nodeclass import CapacityReservationSelectorTerm, ResolvedCapacityReservation
from dovetail.ports.clock import Clock

LIFETIME = timedelta(minutes=1)
EXPIRING_BEFORE = timedelta(minutes=40)
"""How long before its end a capacity block takes no new instances."""


@dataclass(frozen=True, slots=True)
class CapacityReservation:
    """A reservation as EC2 told of it last."""

    resolved: ResolvedCapacityReservation
    left: int


class CapacityReservations:
    """Finds reservations, and asks again after a minute."""

    def __init__(self, aws: AwsClients, clock: Clock) -> None:
        self._aws = aws
        self._clock = clock
        self._kept: TtlCache[bytes, tuple[CapacityReservation, ...]] = TtlCache(clock, LIFETIME)
        self.blocks: dict[str, datetime] = {}
        """Capacity blocks that were found since the start, and when each ends."""

    async def find(self, terms: tuple[CapacityReservationSelectorTerm, ...]) -> tuple[CapacityReservation, ...]:
        """Those the terms select, by id; none without terms, and nobody is asked."""
        return await self._kept.get(key_of(terms), lambda: self._ask(terms)) if terms else ()

    async def _ask(self, terms: tuple[CapacityReservationSelectorTerm, ...]) -> tuple[CapacityReservation, ...]:
        found: dict[str, CapacityReservation] = {}
        for request in _requests(terms):
            said = await self._aws.collect("ec2", "describe_capacity_reservations", "CapacityReservations", **request)
            found |= {each["CapacityReservationId"]: self._reservation(each) for each in said}
        return tuple(each for _, each in sorted(found.items()))

    def _reservation(self, said: Mapping[str, Any]) -> CapacityReservation:
        ends_at, block = said.get("EndDate"), said.get("ReservationType") == "capacity-block"
        if block and ends_at is not None:
            self.blocks[said["CapacityReservationId"]] = ends_at
        expiring = block and ends_at is not None and ends_at - EXPIRING_BEFORE <= self._clock.now()
        resolved = ResolvedCapacityReservation(
            id=said["CapacityReservationId"],
            availability_zone=said["AvailabilityZone"],
            instance_type=said["InstanceType"],
            instance_match_criteria=said.get("InstanceMatchCriteria", ""),
            owner_id=said.get("OwnerId", ""),
            reservation_type=said.get("ReservationType", "default"),
            interruptible=bool(said.get("Interruptible", False)),
            state="expiring" if expiring else "active",
            end_time=ends_at,
        )
        return CapacityReservation(resolved, said.get("AvailableInstanceCount", 0))


def _requests(terms: Iterable[CapacityReservationSelectorTerm]) -> list[dict[str, Any]]:
    active = named("state", "active")
    ids = sorted({term.id for term in terms if term.id})
    asked: list[dict[str, Any]] = [{"Filters": [active], "CapacityReservationIds": ids}] if ids else []
    for term in terms:
        if not term.id:
            filters = [*tagged(term.tags), active]
            for name, value in (("owner-id", term.owner_id), ("instance-match-criteria", term.instance_match_criteria)):
                filters += [named(name, value)] if value else []
            asked.append({"Filters": filters})
    return asked
