"""The EC2 instances of this cluster: describe, list and terminate, and convert to the `Instance` of the cloud port.

Lookups and terminations of single instances are batched. DescribeInstances is called with a filter instead of ids,
because an unknown id fails the whole request. `list` finds instances by the cluster's tags.

`_known` holds each instance as last described. `get_cached` and `cached` read it for decisions that tolerate an answer
a few minutes old, for example drift; a termination never relies on it.
"""

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from dovetail.cloud.aws.clients import AwsClients, AwsError, Batched, chunks
from dovetail.cloud.aws.labels import (
    CLAIM_UID_TAG,
    CLUSTER_NAME_TAG,
    EFA,
    INSTANCE_PROFILE_NAME,
    INSTANCE_TENANCY,
    NODE_CLASS_TAG,
    NODEPOOL_TAG,
    PROVIDER_PREFIX,
)
from dovetail.cloud.aws.nodeclass_hash import recorded_hashes
from dovetail.cloud.aws.resolve.network import Filter, ec2_filter
from dovetail.model.catalog import Instance, InstanceType, Offering
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ON_DEMAND, RESERVED, SPOT, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.resources import Resources

_MOST_VALUES = 200  # values per filter, an EC2 limit
_PAGE = {"PageSize": 1000}
_TERMINATING_STATES = frozenset({"shutting-down", "terminated"})
_EXISTING_STATES = ("pending", "running", "stopping", "stopped", "shutting-down")
_NOT_FOUND = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
_ID = re.compile(r"i-[0-9a-zA-Z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Instance:
    """An instance as EC2 described it last."""

    id: str
    instance_type: str
    zone: str
    capacity_type: str
    state: str
    image_id: str
    subnet_id: str
    security_groups: frozenset[str]
    reservation_id: str = ""
    tenancy: str = "default"
    launched_at: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def provider_id(self) -> str:
        """The provider ID, as in `spec.providerID` of the node."""
        return f"{PROVIDER_PREFIX}{self.zone}/{self.id}"

    @property
    def terminating(self) -> bool:
        """Whether it is shutting down or terminated."""
        return self.state in _TERMINATING_STATES


def instance_id(provider_id: str) -> str:
    """The instance id in `aws:///<zone>/<id>`; empty if the provider ID has another form."""
    zone, _, id_ = provider_id.removeprefix(PROVIDER_PREFIX).partition("/")
    return id_ if provider_id.startswith(PROVIDER_PREFIX) and zone and _ID.fullmatch(id_) else ""


class Instances:
    """Describes and terminates instances."""

    def __init__(self, aws: AwsClients, cluster_name: str) -> None:
        self._aws = aws
        self._cluster_name = cluster_name
        self._known: dict[str, Ec2Instance] = {}
        self._termination_requested: set[str] = set()
        described, terminated = (partial(self._measure, name) for name in ("describe_instances", "terminate_instances"))
        self._by_id: Batched[str, Ec2Instance] = Batched(self._describe, on_batch=described)
        self._by_claim: Batched[str, tuple[Ec2Instance, ...]] = Batched(self._describe_claims, on_batch=described)
        self._terminations: Batched[str, bool] = Batched(self._terminate_batch, on_batch=terminated)

    def _measure(self, batcher: str, seconds: float, size: int) -> None:
        self._aws.metrics.observe("karpenter_cloudprovider_batcher_batch_time_seconds", seconds, batcher=batcher)
        self._aws.metrics.observe("karpenter_cloudprovider_batcher_batch_size", size, batcher=batcher)

    async def get(self, id_: str) -> Ec2Instance | None:
        """Describe one instance; None if it is terminated or unknown."""
        return await self._by_id.get(id_)

    async def get_cached(self, id_: str) -> Ec2Instance | None:
        """One instance as last described; requested from EC2 if it is not cached."""
        return self._known.get(id_) or await self._by_id.get(id_)

    def cached(self) -> tuple[Ec2Instance, ...]:
        """All cached instances, described minutes ago at most."""
        return tuple(self._known.values())

    async def list_for_claim(self, uid: str) -> tuple[Ec2Instance, ...]:
        """Every instance launched for a claim; terminated ones as long as EC2 returns them."""
        return await self._by_claim.get(uid) or ()

    async def list(self) -> tuple[Ec2Instance, ...]:
        """List every instance of the cluster that is not terminated, ordered by id."""
        filters = [
            ec2_filter("tag-key", NODEPOOL_TAG),
            ec2_filter("tag-key", NODE_CLASS_TAG),
            ec2_filter(f"tag:{CLUSTER_NAME_TAG}", self._cluster_name),
            ec2_filter("instance-state-name", *_EXISTING_STATES),
        ]
        found = {each.id: each async for each in self._read(filters)}
        self._known = found
        self._termination_requested.intersection_update(found)
        return tuple(each for _, each in sorted(found.items()))

    async def terminate(self, id_: str) -> bool:
        """Request the termination once; later calls only check it. True if the instance is terminated."""
        if id_ not in self._termination_requested:
            return bool(await self._terminations.get(id_))
        if await self._by_id.get(id_) is not None:
            return False
        self._forget(id_)
        return True

    def add_to_cache(self, instance: Ec2Instance) -> None:
        """Add an instance to the cache."""
        self._known[instance.id] = instance

    async def aclose(self) -> None:
        """Cancel the requests in flight."""
        for each in (self._by_id, self._by_claim, self._terminations):
            await each.aclose()

    def _forget(self, id_: str) -> None:
        self._known.pop(id_, None)
        self._termination_requested.discard(id_)

    async def _describe(self, ids: Sequence[str]) -> Mapping[str, Ec2Instance]:
        found: dict[str, Ec2Instance] = {}
        for some in chunks(ids, _MOST_VALUES):
            filters = [ec2_filter("instance-id", *some), ec2_filter("instance-state-name", *_EXISTING_STATES)]
            found |= {each.id: each async for each in self._read(filters)}
        self._known |= found
        return found

    async def _describe_claims(self, uids: Sequence[str]) -> Mapping[str, tuple[Ec2Instance, ...]]:
        found: dict[str, tuple[Ec2Instance, ...]] = {}
        for some in chunks(uids, _MOST_VALUES):
            ours = ec2_filter(f"tag:{CLUSTER_NAME_TAG}", self._cluster_name)
            async for each in self._read([ec2_filter(f"tag:{CLAIM_UID_TAG}", *some), ours]):
                uid = each.tags[CLAIM_UID_TAG]
                found[uid] = (*found.get(uid, ()), each)
        return found

    async def _read(self, filters: Sequence[Filter]) -> AsyncIterator[Ec2Instance]:
        pages = self._aws.pages("ec2", "describe_instances", Filters=filters, PaginationConfig=_PAGE)
        async for page in pages:
            for reservation in page["Reservations"]:
                for described in reservation["Instances"]:
                    yield read_instance(described)

    async def _terminate_batch(self, ids: Sequence[str]) -> Mapping[str, bool]:
        """Terminate a batch. EC2 rejects the whole request for one unknown id and names it; retry without it."""
        gone: dict[str, bool] = {}
        left = list(ids)
        while left:
            try:
                answer = await self._aws.call("ec2", "terminate_instances", InstanceIds=left)
            except AwsError as error:
                if error.code not in _NOT_FOUND:
                    self._count_failures(left)
                    raise
                unknown = set(_ID.findall(error.message)) & set(left) or set(left[:1])
                gone |= dict.fromkeys(unknown, True)
                left = [id_ for id_ in left if id_ not in unknown]
                continue
            terminated = {each["InstanceId"] for each in answer["TerminatingInstances"] if _is_terminated(each)}
            gone |= {id_: id_ in terminated for id_ in left}
            break
        self._termination_requested.update(id_ for id_, is_gone in gone.items() if not is_gone)
        for id_ in (id_ for id_, is_gone in gone.items() if is_gone):
            self._forget(id_)
        return gone

    def _count_failures(self, ids: Iterable[str]) -> None:
        """Count terminations that EC2 refused; the id of the zone is not known here."""
        for known in (self._known.get(id_) for id_ in ids):
            zone = known.zone if known is not None else ""
            metric = "karpenter_cloudprovider_instance_termination_failures_total"
            self._aws.metrics.count(metric, zone=zone, zone_id="")


def _is_terminated(described: Mapping[str, Any]) -> bool:
    return any(described.get(state, {}).get("Name") == "terminated" for state in ("PreviousState", "CurrentState"))


def read_instance(described: Mapping[str, Any]) -> Ec2Instance:
    """Parse one entry of a DescribeInstances response."""
    reservation, launched_at = described.get("CapacityReservationId", ""), described.get("LaunchTime")
    spot = described.get("InstanceLifecycle") == SPOT
    return Ec2Instance(
        id=described["InstanceId"],
        instance_type=described["InstanceType"],
        zone=described["Placement"]["AvailabilityZone"],
        capacity_type=SPOT if spot else RESERVED if reservation else ON_DEMAND,
        state=described["State"]["Name"],
        image_id=described.get("ImageId", ""),
        subnet_id=described.get("SubnetId", ""),
        security_groups=frozenset(_groups(described)),
        reservation_id=reservation,
        tenancy=described["Placement"].get("Tenancy") or "default",
        launched_at=launched_at.astimezone(UTC) if launched_at is not None else None,
        tags={each["Key"]: each["Value"] for each in described.get("Tags", ())},
    )


def _groups(described: Mapping[str, Any]) -> Iterator[str]:
    listed: Iterable[Mapping[str, Any]] = described.get("SecurityGroups") or [
        group for interface in described.get("NetworkInterfaces", ()) for group in interface.get("Groups", ())
    ]
    for group in listed:
        yield group["GroupId"]


def without_capacity(instance: Ec2Instance) -> Instance:
    """Convert an instance without its capacity, which needs the instance type."""
    return Instance(
        provider_id=instance.provider_id,
        labels=_instance_labels(instance),
        capacity={},
        allocatable={},
        annotations={},
        image_id=instance.image_id,
        terminating=instance.terminating,
        launched_at=instance.launched_at,
    )


def with_capacity(
    instance: Ec2Instance, types: Iterable[InstanceType], node_class: EC2NodeClass, claim: NodeClaim
) -> Instance:
    """Convert the instance launched for a claim. It keeps the class hashes of its launch, even if the class changed."""
    instance_type = next((each for each in types if each.name == instance.instance_type), None)
    if instance_type is None:
        return without_capacity(instance)
    offering = next((each for each in instance_type.offerings if _matches(each, instance)), None)
    offering_labels = offering.requirements.labels() if offering is not None else {}
    not_requested = () if EFA in claim.spec.resources.requests or node_class.spec.network_interfaces else (EFA,)
    return Instance(
        provider_id=instance.provider_id,
        labels={**instance_type.requirements.labels(), **offering_labels, **_instance_labels(instance)},
        capacity=_without(instance_type.capacity, not_requested),
        allocatable=_without(instance_type.allocatable, not_requested),
        annotations={
            **(recorded_hashes(instance.tags) or recorded_hashes(node_class.metadata.annotations)),
            INSTANCE_PROFILE_NAME: node_class.status.instance_profile,
        },
        image_id=instance.image_id,
        launched_at=instance.launched_at,
    )


def _instance_labels(instance: Ec2Instance) -> dict[str, str]:
    pool = instance.tags.get(NODEPOOL_TAG, "")
    own = {
        INSTANCE_TYPE: instance.instance_type,
        ZONE: instance.zone,
        CAPACITY_TYPE: instance.capacity_type,
        INSTANCE_TENANCY: instance.tenancy,
    }
    return {**own, **({NODEPOOL: pool} if pool else {})}


def _matches(offering: Offering, instance: Ec2Instance) -> bool:
    return (offering.zone, offering.capacity_type) == (instance.zone, instance.capacity_type)


def _without(amounts: Resources, names: Iterable[str]) -> Resources:
    return {name: amount for name, amount in amounts.items() if name not in names}
