"""Nodes whose reservation ended: EC2 goes on running them on demand, and their labels have to say so.

Looked at with the node class, once a minute. An instance that was seen without its reservation is asked for once more
before anything is written. The node is written first: as long as the claim says `reserved`, somebody looks again.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.instances import Ec2Instance, Instances, instance_id
from dovetail.model.kinds import NODE, NODE_CLAIM
from dovetail.model.kube_object import Key
from dovetail.model.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.cluster import Cluster, Patch
from dovetail.ports.errors import NotFound

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
