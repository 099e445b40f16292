"""Detects drift of an EC2 instance from its EC2NodeClass. Sends no request.

Fields that shape the instance are compared by the class hash (`static_drift`). AMIs, subnets, security groups and
capacity reservations are compared by what the class resolves to now (`resolved_drift`), as in Karpenter: a new AMI
drifts instances although the spec did not change. An undecidable comparison is `DriftUnknown`, not drift.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from dovetail.cloud.aws.instances import Ec2Instance
from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION, OWN_CLASS_HASH
from dovetail.cloud.aws.resolve.amis import image_for
from dovetail.model.catalog import InstanceType
from dovetail.model.conditions import find
from dovetail.model.ec2nodeclass import AMIS_READY, SECURITY_GROUPS_READY, SUBNETS_READY, EC2NodeClass
from dovetail.model.labels import RESERVED
from dovetail.model.nodeclaim import NodeClaim
from dovetail.ports.errors import CloudError

NODE_CLASS_DRIFT = "NodeClassDrift"
AMI_DRIFT = "AMIDrift"
SUBNET_DRIFT = "SubnetDrift"
SECURITY_GROUP_DRIFT = "SecurityGroupDrift"
CAPACITY_RESERVATION_DRIFT = "CapacityReservationDrift"


class DriftUnknown(CloudError):
    """Drift cannot be decided now: the class is not resolved, or the instance type is unknown."""


def state_of(node_class: EC2NodeClass) -> str:
    """A digest of all inputs of drift detection: the generation of the class and what it resolves to."""
    status = node_class.status
    resolved = [sorted(each.id for each in some) for some in (status.security_groups, status.subnets)]
    reserved = sorted(each.id for each in status.capacity_reservations)
    images = [each.id for each in status.amis]  # order matters: an instance type uses the first AMI it can run
    content = msgspec.json.encode([node_class.metadata.generation, images, *resolved, reserved])
    return hashlib.sha256(content).hexdigest()[:16]


def static_drift(claim: NodeClaim, node_class: EC2NodeClass) -> str:
    """NodeClassDrift if the hashes differ. Hashes of different versions cannot be compared."""
    made, now = claim.metadata.annotations, node_class.metadata.annotations
    comparable = all(each.get(CLASS_HASH) and each.get(CLASS_HASH_VERSION) for each in (made, now))
    if not comparable or made[CLASS_HASH_VERSION] != now[CLASS_HASH_VERSION]:
        return ""
    changed = any(made.get(name, "") != now.get(name, "") for name in (CLASS_HASH, OWN_CLASS_HASH))
    return NODE_CLASS_DRIFT if changed else ""


def resolved_drift(node_class: EC2NodeClass, instance: Ec2Instance, types: Iterable[InstanceType]) -> str:
    """The drift reason if the class no longer selects the AMI, groups, subnet or reservation of the instance."""
    status = node_class.status
    for field, condition, found in (
        ("AMIs", AMIS_READY, status.amis),
        ("security groups", SECURITY_GROUPS_READY, status.security_groups),
        ("subnets", SUBNETS_READY, status.subnets),
    ):
        if not found:
            raise DriftUnknown(f"EC2NodeClass {node_class.name!r} selects no {field} now")
        ready = find(status.conditions, condition)
        if ready is not None and ready.status == "False":  # the status has what was found before
            raise DriftUnknown(f"EC2NodeClass {node_class.name!r}: {condition} is False: {ready.message}")
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
    instance_type = next((each for each in types if each.name == instance.instance_type), None)
    if instance_type is None:
        raise DriftUnknown(f"instance type {instance.instance_type} is not offered in the region")
    image = image_for(instance_type.requirements, node_class.status.amis)
    if image is None:
        raise DriftUnknown(f"EC2NodeClass {node_class.name!r} selects no AMI for {instance.instance_type} now")
    return image.id != instance.image_id
