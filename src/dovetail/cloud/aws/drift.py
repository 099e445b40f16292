"""Whether an instance still is what its node class asks for, and if not, why. Nothing is asked here.

What instances are made from is compared by fingerprint; subnets, security groups, images and reservations by what they
resolve to now. What cannot be told is not drift: a class that nobody has resolved since it changed says nothing.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from dovetail.cloud.aws.instances import Ec2Instance
from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION
from dovetail.cloud.aws.resolve.amis import image_for
from dovetail.model.catalog import InstanceType
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.labels import RESERVED
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.errors import CloudError

NODE_CLASS_DRIFT = "NodeClassDrift"
AMI_DRIFT = "AMIDrift"
SUBNET_DRIFT = "SubnetDrift"
SECURITY_GROUP_DRIFT = "SecurityGroupDrift"
CAPACITY_RESERVATION_DRIFT = "CapacityReservationDrift"


class DriftUnknown(CloudError):
    """The class does not say now what an instance should be."""


def state_of(node_class: EC2NodeClass) -> str:
    """A digest of all that drift is judged by: the class as it is written, and what it resolves to."""
    status = node_class.status
    resolved = [sorted(each.id for each in some) for some in (status.security_groups, status.subnets)]
    reserved = sorted(each.id for each in status.capacity_reservations)
    images = [each.id for each in status.amis]  # in their order: the first that suits is used
    content = msgspec.json.encode([node_class.metadata.generation, images, *resolved, reserved])
    return hashlib.sha256(content).hexdigest()[:16]


def static_drift(claim: NodeClaim, node_class: EC2NodeClass) -> str:
    """Whether the instance was made from something else. Stamps of different versions cannot be compared."""
    made, now = claim.metadata.annotations, node_class.metadata.annotations
    comparable = all(each.get(CLASS_HASH) and each.get(CLASS_HASH_VERSION) for each in (made, now))
    if not comparable or made[CLASS_HASH_VERSION] != now[CLASS_HASH_VERSION]:
        return ""
    return NODE_CLASS_DRIFT if made[CLASS_HASH] != now[CLASS_HASH] else ""


def resolved_drift(node_class: EC2NodeClass, instance: Ec2Instance, types: Iterable[InstanceType]) -> str:
    """Whether the instance has an image, groups, a subnet or a reservation that the class no longer selects."""
    status = node_class.status
    for what, found in (("images", status.amis), ("groups", status.security_groups), ("subnets", status.subnets)):
        if not found:
            raise DriftUnknown(f"EC2NodeClass {node_class.name!r} selects no {what} now")
    if _image_drifted(node_class, instance, types):
        return AMI_DRIFT
    if instance.security_groups != {group.id for group in status.security_groups}:
        return SECURITY_GROUP_DRIFT
    if instance.subnet_id not in {subnet.id for subnet in status.subnets}:
        return SUBNET_DRIFT
    reserved = {each.id for each in status.capacity_reservations}
    if instance.capacity_type == RESERVED and instance.reservation_id not in reserved:
        return CAPACITY_RESERVATION_DRIFT
    return ""


def _image_drifted(node_class: EC2NodeClass, instance: Ec2Instance, types: Iterable[InstanceType]) -> bool:
    mine = next((each for each in types if each.name == instance.instance_type), None)
    if mine is None:
        raise DriftUnknown(f"instance type {instance.instance_type} is not in the catalogue")
    image = image_for(mine.requirements, node_class.status.amis)
    if image is None:
        raise DriftUnknown(f"EC2NodeClass {node_class.name!r} has no image for {instance.instance_type} now")
    return image.id != instance.image_id
