"""Instances as the rest of the program sees them: labels, capacity, and what they were made from."""

from collections.abc import Iterable

from dovetail.cloud.aws.instances import Ec2Instance
from dovetail.cloud.aws.labels import (
    CLASS_HASH,
    CLASS_HASH_VERSION,
    EFA,
    INSTANCE_PROFILE_NAME,
    INSTANCE_TENANCY,
    NODEPOOL_TAG,
)
from dovetail.cloud.aws.nodeclass_hash import HASH_VERSION, stamped_hash
from dovetail.model.catalog import Instance, InstanceType, Offering
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.resources import Resources


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
