"""The capacity reservations of a node class, and how much of each is left.

Nodes whose reservation ended: EC2 goes on running them on demand, and their labels have to say so.

Looked at with the node class, once a minute. An instance that was seen without its reservation is asked for once more
before anything is written. The node is written first: as long as the claim says `reserved`, somebody looks again.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.clients import AwsClients, TtlCache
from dovetail.cloud.aws.instances import Ec2Instance, Instances, instance_id
from dovetail.cloud.aws.resolve.network import key_of, named, tagged
from dovetail.model.ec2nodeclass import CapacityReservationSelectorTerm, ResolvedCapacityReservation
from dovetail.model.kinds import NODE, NODE_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.clock import Clock
from dovetail.ports.cluster import Cluster, Patch
from dovetail.ports.errors import NotFound

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


log = logging.getLogger(__name__)
_LABELS: dict[str, Any] = {
    CAPACITY_TYPE: ON_DEMAND,
    labels.RESERVATION_ID: None,
    labels.RESERVATION_TYPE: None,
    labels.RESERVATION_INTERRUPTIBLE: None,
}
_DEMOTED = Patch({"metadata": {"labels": _LABELS}})


class ExpiredReservations:
    """Relabels nodes and claims from reserved to on demand."""

    def __init__(self, cluster: Cluster, instances: Instances) -> None:
        self._cluster = cluster
        self._instances = instances

    async def __call__(self, claims: Sequence[NodeClaim]) -> None:
        """Relabel those of these claims whose instance draws on no reservation any more."""
        reserved = [claim for claim in claims if _is_reserved(claim)]
        seen = await asyncio.gather(*(self._instances.known(instance_id(claim.provider_id)) for claim in reserved))
        suspects = [claim for claim, instance in zip(reserved, seen, strict=True) if _is_demoted(instance)]
        fresh = await asyncio.gather(*(self._instances.get(instance_id(claim.provider_id)) for claim in suspects))
        for claim, instance in zip(suspects, fresh, strict=True):
            if _is_demoted(instance):
                await self._demote(claim)

    async def _demote(self, claim: NodeClaim) -> None:
        with suppress(NotFound):
            if claim.status.node_name:
                await self._cluster.patch(NODE, Key("", claim.status.node_name), _DEMOTED)
        with suppress(NotFound):
            await self._cluster.patch(NODE_CLAIM, claim.key, _DEMOTED)
        was = claim.metadata.labels.get(labels.RESERVATION_ID, "")
        log.info("on demand from now on: the reservation ended", extra={"nodeclaim": claim.name, "reservation": was})


def _is_reserved(claim: NodeClaim) -> bool:
    said = claim.metadata.labels.get(CAPACITY_TYPE) == RESERVED
    return said and not claim.deleting and bool(instance_id(claim.provider_id))


def _is_demoted(instance: Ec2Instance | None) -> bool:
    return instance is not None and not instance.terminating and instance.capacity_type == ON_DEMAND
