"""Resolves capacity reservations, and relabels nodes whose reservation ended.

`CapacityReservations` finds the reservations that a class selects and their available instance counts, cached for a
minute. A capacity block is `expiring` in its last 40 minutes and takes no new instances.

When a reservation ends, EC2 keeps its instances running on demand. `ExpiredReservations` runs at every reconcile of the
class and changes the labels of the Node and the NodeClaim from reserved to on-demand. It confirms a cached finding with
a new request before it writes. The Node is patched first: the NodeClaim keeps the reserved label until then, so an
interrupted run is repeated.
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
from dovetail.cloud.aws.resolve.network import cache_key, ec2_filter, tag_filters
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
"""A capacity block takes no new instances this long before its end."""


@dataclass(frozen=True, slots=True)
class CapacityReservation:
    """A reservation as EC2 described it last, and how many instances still fit."""

    resolved: ResolvedCapacityReservation
    available_count: int


class CapacityReservations:
    """Finds reservations, cached for a minute."""

    def __init__(self, aws: AwsClients, clock: Clock) -> None:
        self._aws = aws
        self._clock = clock
        self._cache: TtlCache[bytes, tuple[CapacityReservation, ...]] = TtlCache(clock, LIFETIME)
        self.blocks: dict[str, datetime] = {}
        """The end of every capacity block found since the process started, by reservation id."""

    async def find(self, terms: tuple[CapacityReservationSelectorTerm, ...]) -> tuple[CapacityReservation, ...]:
        """The matching reservations, ordered by id; none, and no request, without terms."""
        return await self._cache.get(cache_key(terms), lambda: self._describe(terms)) if terms else ()

    async def _describe(self, terms: tuple[CapacityReservationSelectorTerm, ...]) -> tuple[CapacityReservation, ...]:
        found: dict[str, CapacityReservation] = {}
        for request in _requests(terms):
            described = await self._aws.collect(
                "ec2", "describe_capacity_reservations", "CapacityReservations", **request
            )
            found |= {each["CapacityReservationId"]: self._reservation(each) for each in described}
        return tuple(each for _, each in sorted(found.items()))

    def _reservation(self, described: Mapping[str, Any]) -> CapacityReservation:
        ends_at, block = described.get("EndDate"), described.get("ReservationType") == "capacity-block"
        if block and ends_at is not None:
            self.blocks[described["CapacityReservationId"]] = ends_at
        expiring = block and ends_at is not None and ends_at - EXPIRING_BEFORE <= self._clock.now()
        resolved = ResolvedCapacityReservation(
            id=described["CapacityReservationId"],
            availability_zone=described["AvailabilityZone"],
            instance_type=described["InstanceType"],
            instance_match_criteria=described.get("InstanceMatchCriteria", ""),
            owner_id=described.get("OwnerId", ""),
            reservation_type=described.get("ReservationType", "default"),
            interruptible=bool(described.get("Interruptible", False)),
            state="expiring" if expiring else "active",
            end_time=ends_at,
        )
        return CapacityReservation(resolved, described.get("AvailableInstanceCount", 0))


def _requests(terms: Iterable[CapacityReservationSelectorTerm]) -> list[dict[str, Any]]:
    active = ec2_filter("state", "active")
    ids = sorted({term.id for term in terms if term.id})
    requests: list[dict[str, Any]] = [{"Filters": [active], "CapacityReservationIds": ids}] if ids else []
    for term in terms:
        if not term.id:
            filters = [*tag_filters(term.tags), active]
            for name, value in (("owner-id", term.owner_id), ("instance-match-criteria", term.instance_match_criteria)):
                filters += [ec2_filter(name, value)] if value else []
            requests.append({"Filters": filters})
    return requests


log = logging.getLogger(__name__)
_LABELS: dict[str, Any] = {
    CAPACITY_TYPE: ON_DEMAND,
    labels.RESERVATION_ID: None,
    labels.RESERVATION_TYPE: None,
    labels.RESERVATION_INTERRUPTIBLE: None,
}
_ON_DEMAND_PATCH = Patch({"metadata": {"labels": _LABELS}})


class ExpiredReservations:
    """Relabels Nodes and NodeClaims from reserved to on-demand when their reservation ended."""

    def __init__(self, cluster: Cluster, instances: Instances) -> None:
        self._cluster = cluster
        self._instances = instances

    async def __call__(self, claims: Sequence[NodeClaim]) -> None:
        """Relabel the claims whose instance no longer uses a reservation."""
        reserved = [claim for claim in claims if _is_reserved(claim)]
        cached = await asyncio.gather(
            *(self._instances.get_cached(instance_id(claim.provider_id)) for claim in reserved)
        )
        suspects = [claim for claim, instance in zip(reserved, cached, strict=True) if _runs_on_demand(instance)]
        fresh = await asyncio.gather(*(self._instances.get(instance_id(claim.provider_id)) for claim in suspects))
        for claim, instance in zip(suspects, fresh, strict=True):
            if _runs_on_demand(instance):
                await self._relabel(claim)

    async def _relabel(self, claim: NodeClaim) -> None:
        with suppress(NotFound):
            if claim.status.node_name:
                await self._cluster.patch(NODE, Key("", claim.status.node_name), _ON_DEMAND_PATCH)
        with suppress(NotFound):
            await self._cluster.patch(NODE_CLAIM, claim.key, _ON_DEMAND_PATCH)
        reservation_id = claim.metadata.labels.get(labels.RESERVATION_ID, "")
        log.info(
            "capacity reservation ended: relabeled as on-demand",
            extra={"nodeclaim": claim.name, "reservation": reservation_id},
        )


def _is_reserved(claim: NodeClaim) -> bool:
    reserved = claim.metadata.labels.get(CAPACITY_TYPE) == RESERVED
    return reserved and not claim.deleting and bool(instance_id(claim.provider_id))


def _runs_on_demand(instance: Ec2Instance | None) -> bool:
    return instance is not None and not instance.terminating and instance.capacity_type == ON_DEMAND
