"""The instances of this cluster: described, listed and terminated, many at a time.

What is asked one by one is gathered and asked together; ids are asked for through a filter, so that one that is gone
spoils nothing. The list is what the cluster's own tags mark. What was seen last is kept for questions that bear to be
answered a little late; nothing that ends an instance relies on it.

Instances as the rest of the program sees them: labels, capacity, and what they were made from.
"""

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dovetail.cloud.aws.clients import AwsClients, AwsError, Batched, chunks
from dovetail.cloud.aws.labels import (
    CLAIM_UID_TAG,
    CLASS_HASH,
    CLASS_HASH_VERSION,
    CLUSTER_NAME_TAG,
    EFA,
    INSTANCE_PROFILE_NAME,
    INSTANCE_TENANCY,
    NODE_CLASS_TAG,
    NODEPOOL_TAG,
    PROVIDER_PREFIX,
)
from dovetail.cloud.aws.nodeclass_hash import HASH_VERSION, stamped_hash
from dovetail.cloud.aws.resolve.network import Filter, named
from dovetail.model.catalog import Instance, InstanceType, Offering
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ON_DEMAND, RESERVED, SPOT, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.resources import Resources

_MOST_VALUES = 200  # that a filter takes
_PAGE = {"PageSize": 1000}
_GOING = frozenset({"shutting-down", "terminated"})
_PRESENT = ("pending", "running", "stopping", "stopped", "shutting-down")
_NOT_FOUND = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
_ID = re.compile(r"i-[0-9a-zA-Z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Instance:
    """An instance as EC2 told of it last."""

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
        """As nodes and claims name it."""
        return f"{PROVIDER_PREFIX}{self.zone}/{self.id}"

    @property
    def terminating(self) -> bool:
        """Whether it is on its way out, or gone."""
        return self.state in _GOING


def instance_id(provider_id: str) -> str:
    """The id at the end of `aws:///<zone>/<id>`; empty if it is nothing of the kind."""
    place, _, id_ = provider_id.removeprefix(PROVIDER_PREFIX).partition("/")
    return id_ if provider_id.startswith(PROVIDER_PREFIX) and place and _ID.fullmatch(id_) else ""


class Instances:
    """Asks EC2 about instances, and ends them."""

    def __init__(self, aws: AwsClients, cluster_name: str) -> None:
        self._aws = aws
        self._cluster_name = cluster_name
        self._known: dict[str, Ec2Instance] = {}
        self._asked_to_end: set[str] = set()
        self._by_id: Batched[str, Ec2Instance] = Batched(self._describe)
        self._by_claim: Batched[str, tuple[Ec2Instance, ...]] = Batched(self._describe_claims)
        self._endings: Batched[str, bool] = Batched(self._end)

    async def get(self, id_: str) -> Ec2Instance | None:
        """One instance as it is now; None once it is terminated."""
        return await self._by_id.ask(id_)

    async def known(self, id_: str) -> Ec2Instance | None:
        """One instance as it was seen last, minutes ago at most."""
        return self._known.get(id_) or await self._by_id.ask(id_)

    def seen(self) -> tuple[Ec2Instance, ...]:
        """All that were seen last, minutes ago at most."""
        return tuple(self._known.values())

    async def of_claim(self, uid: str) -> tuple[Ec2Instance, ...]:
        """Every instance that was launched for a claim, those that are gone included as long as EC2 tells of them."""
        return await self._by_claim.ask(uid) or ()

    async def list(self) -> tuple[Ec2Instance, ...]:
        """Every instance of the cluster that is not gone, by id."""
        filters = [
            named("tag-key", NODEPOOL_TAG),
            named("tag-key", NODE_CLASS_TAG),
            named(f"tag:{CLUSTER_NAME_TAG}", self._cluster_name),
            named("instance-state-name", *_PRESENT),
        ]
        found = {each.id: each async for each in self._read(filters)}
        self._known = found
        self._asked_to_end.intersection_update(found)
        return tuple(each for _, each in sorted(found.items()))

    async def terminate(self, id_: str) -> bool:
        """Ask for its end, once; True if it is gone."""
        if id_ not in self._asked_to_end:
            return bool(await self._endings.ask(id_))
        if await self._by_id.ask(id_) is not None:
            return False
        self._forget(id_)
        return True

    def note(self, instance: Ec2Instance) -> None:
        """Keep what was learned elsewhere."""
        self._known[instance.id] = instance

    async def aclose(self) -> None:
        """Ask nothing any more."""
        for each in (self._by_id, self._by_claim, self._endings):
            await each.aclose()

    def _forget(self, id_: str) -> None:
        self._known.pop(id_, None)
        self._asked_to_end.discard(id_)

    async def _describe(self, ids: Sequence[str]) -> Mapping[str, Ec2Instance]:
        found: dict[str, Ec2Instance] = {}
        for some in chunks(ids, _MOST_VALUES):
            filters = [named("instance-id", *some), named("instance-state-name", *_PRESENT)]
            found |= {each.id: each async for each in self._read(filters)}
        self._known |= found
        return found

    async def _describe_claims(self, uids: Sequence[str]) -> Mapping[str, tuple[Ec2Instance, ...]]:
        found: dict[str, tuple[Ec2Instance, ...]] = {}
        for some in chunks(uids, _MOST_VALUES):
            ours = named(f"tag:{CLUSTER_NAME_TAG}", self._cluster_name)
            async for each in self._read([named(f"tag:{CLAIM_UID_TAG}", *some), ours]):
                uid = each.tags[CLAIM_UID_TAG]
                found[uid] = (*found.get(uid, ()), each)
        return found

    async def _read(self, filters: Sequence[Filter]) -> AsyncIterator[Ec2Instance]:
        pages = self._aws.pages("ec2", "describe_instances", Filters=filters, PaginationConfig=_PAGE)
        async for page in pages:
            for reservation in page["Reservations"]:
                for said in reservation["Instances"]:
                    yield read_instance(said)

    async def _end(self, ids: Sequence[str]) -> Mapping[str, bool]:
        """Terminate all of them at once. EC2 refuses the whole request for one it does not know, and names that."""
        gone: dict[str, bool] = {}
        left = list(ids)
        while left:
            try:
                answer = await self._aws.call("ec2", "terminate_instances", InstanceIds=left)
            except AwsError as error:
                if error.code not in _NOT_FOUND:
                    raise
                unknown = set(_ID.findall(error.message)) & set(left) or set(left[:1])
                gone |= dict.fromkeys(unknown, True)
                left = [id_ for id_ in left if id_ not in unknown]
                continue
            over = {each["InstanceId"] for each in answer["TerminatingInstances"] if _is_over(each)}
            gone |= {id_: id_ in over for id_ in left}
            break
        self._asked_to_end.update(id_ for id_, is_gone in gone.items() if not is_gone)
        for id_ in (id_ for id_, is_gone in gone.items() if is_gone):
            self._forget(id_)
        return gone


def _is_over(said: Mapping[str, Any]) -> bool:
    return any(said.get(state, {}).get("Name") == "terminated" for state in ("PreviousState", "CurrentState"))


def read_instance(said: Mapping[str, Any]) -> Ec2Instance:
    """One entry of DescribeInstances."""
    reservation, launched_at = said.get("CapacityReservationId", ""), said.get("LaunchTime")
    spot = said.get("InstanceLifecycle") == SPOT
    return Ec2Instance(
        id=said["InstanceId"],
        instance_type=said["InstanceType"],
        zone=said["Placement"]["AvailabilityZone"],
        capacity_type=SPOT if spot else RESERVED if reservation else ON_DEMAND,
        state=said["State"]["Name"],
        image_id=said.get("ImageId", ""),
        subnet_id=said.get("SubnetId", ""),
        security_groups=frozenset(_groups(said)),
        reservation_id=reservation,
        tenancy=said["Placement"].get("Tenancy") or "default",
        launched_at=launched_at.astimezone(UTC) if launched_at is not None else None,
        tags={each["Key"]: each["Value"] for each in said.get("Tags", ())},
    )


def _groups(said: Mapping[str, Any]) -> Iterator[str]:
    listed: Iterable[Mapping[str, Any]] = said.get("SecurityGroups") or [
        group for interface in said.get("NetworkInterfaces", ()) for group in interface.get("Groups", ())
    ]
    for group in listed:
        yield group["GroupId"]


def seen(instance: Ec2Instance) -> Instance:
    """An instance as EC2 tells of it: what it could do for pods is not asked."""
    return Instance(
        provider_id=instance.provider_id,
        labels=_own_labels(instance),
        capacity={},
        allocatable={},
        annotations={},
        image_id=instance.image_id,
        terminating=instance.terminating,
        launched_at=instance.launched_at,
    )


def launched(
    instance: Ec2Instance, types: Iterable[InstanceType], node_class: EC2NodeClass, claim: NodeClaim
) -> Instance:
    """The instance of a claim. It is stamped with what it was made from, also if the class has changed since."""
    mine = next((each for each in types if each.name == instance.instance_type), None)
    if mine is None:
        return seen(instance)
    offering = next((each for each in mine.offerings if _is_sold_as(each, instance)), None)
    settled = offering.requirements.labels() if offering is not None else {}
    unasked = () if EFA in claim.spec.resources.requests or node_class.spec.network_interfaces else (EFA,)
    return Instance(
        provider_id=instance.provider_id,
        labels={**mine.requirements.labels(), **settled, **_own_labels(instance)},
        capacity=_without(mine.capacity, unasked),
        allocatable=_without(mine.allocatable, unasked),
        annotations={
            CLASS_HASH: instance.tags.get(CLASS_HASH) or stamped_hash(node_class),
            CLASS_HASH_VERSION: HASH_VERSION,
            INSTANCE_PROFILE_NAME: node_class.status.instance_profile,
        },
        image_id=instance.image_id,
        launched_at=instance.launched_at,
    )


def _own_labels(instance: Ec2Instance) -> dict[str, str]:
    pool = instance.tags.get(NODEPOOL_TAG, "")
    own = {
        INSTANCE_TYPE: instance.instance_type,
        ZONE: instance.zone,
        CAPACITY_TYPE: instance.capacity_type,
        INSTANCE_TENANCY: instance.tenancy,
    }
    return {**own, **({NODEPOOL: pool} if pool else {})}


def _is_sold_as(offering: Offering, instance: Ec2Instance) -> bool:
    return (offering.zone, offering.capacity_type) == (instance.zone, instance.capacity_type)


def _without(amounts: Resources, names: Iterable[str]) -> Resources:
    return {name: amount for name, amount in amounts.items() if name not in names}
