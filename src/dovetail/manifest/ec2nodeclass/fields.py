"""Descriptions, limits, defaults and rules of EC2NodeClass fields, as in `field_constraints` for NodePools."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dovetail.manifest.cel_rules import BOTH, Rule
from dovetail.manifest.ec2nodeclass import rules
from dovetail.manifest.ec2nodeclass.passed_on import PASSED_ON_FIELDS, ConnectionTracking, CPUOptions, KubeletSettings
from dovetail.manifest.field_constraints import INT32, Field, text
from dovetail.manifest.patterns import (
    ACCEPTED_AMI_ID,
    ACCEPTED_SECURITY_GROUP_ID,
    ACCEPTED_SUBNET_ID,
    ACCEPTED_VOLUME_SIZE,
    ACCOUNT,
    ALIAS,
    AMI_ID,
    PLACEMENT_GROUP_ID,
    RESERVATION_ID,
    SECURITY_GROUP_ID,
    SUBNET_ID,
    VOLUME_SIZE,
)
from dovetail.model import ec2nodeclass as model

_ATOMIC = {"x-kubernetes-list-type": "atomic"}
_TERMS = {"maxItems": 30, **_ATOMIC}
_SOME_TERMS = {"minItems": 1, **_TERMS}
_NAME = {"maxLength": 255}
_TAG_TEXT = {"maxLength": 256}
_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
_SWITCH = {"enum": ["enabled", "disabled"]}
_TAGS = Field(
    about="Tags that must all match; the value * matches any.",
    limits={"maxProperties": 20},
    strict_each=_TAG_TEXT,
    rules=(rules.NO_EMPTY_TAGS,),
)
VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
_METADATA_DEFAULTS: Mapping[str, Any] = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 1,
    "httpTokens": "required",
}
_HOPS = {"v1": 1, "v1beta1": 2}


def _id(accepted: str, pattern: str, about: str) -> Field:
    return Field(about=about, limits={"pattern": accepted}, strict=text(pattern, 64))


def _at_least(least: int, about: str) -> Field:
    return Field(about=about, limits={**INT32, "minimum": least})


def _between(least: int, most: int, about: str) -> Field:
    return Field(about=about, limits={**INT32, "minimum": least, "maximum": most})


_SPEC: Mapping[str, Field] = {
    "subnet_selector_terms": Field(
        about="The subnets instances are launched into. Terms are alternatives.",
        limits=_SOME_TERMS,
        rules=rules.SUBNET_TERMS,
        required_in=BOTH,
    ),
    "security_group_selector_terms": Field(
        about="The security groups of the instances. Terms are alternatives.",
        limits=_SOME_TERMS,
        rules=rules.SECURITY_GROUP_TERMS,
        required_in=BOTH,
    ),
    "ami_selector_terms": Field(
        about="The images of the instances. Terms are alternatives. Absent in v1beta1: the newest of amiFamily.",
        limits=_SOME_TERMS,
        rules=(rules.ALIAS_IS_THE_ONLY_TERM,),
        required_in=("v1",),
    ),
    "capacity_reservation_selector_terms": Field(
        about="The capacity reservations instances may use. Terms are alternatives.",
        limits=_TERMS,
        rules=rules.RESERVATION_TERMS,
    ),
    "placement_group_selector": Field(about="The placement group of the instances."),
    "ami_family": Field(
        about="Determines user data and default volumes. An alias implies it.",
        limits={"enum": list(model.FAMILIES)},
    ),
    "role": Field(
        about="The IAM role of the nodes; an instance profile is created for it.",
        strict=_NAME,
        rules=(rules.NOT_EMPTY,),
    ),
    "instance_profile": Field(
        about="An existing instance profile for the nodes.", strict=_NAME, rules=(rules.NOT_EMPTY,)
    ),
    "user_data": Field(about="Merged with the user data that the family needs; for Custom, used unchanged."),
    "tags": Field(
        about="Tags of all AWS resources that are created for a node.",
        strict={"maxProperties": 50},
        strict_each=_TAG_TEXT,
        rules=rules.INSTANCE_TAGS,
    ),
    "kubelet": Field(
        about="Settings of the kubelet. maxPods, podsPerCore, kubeReserved, systemReserved and evictionHard change the"
        " allocatable resources of nodes. Settings that are not listed are passed on.",
        limits=_OPEN,
        shape=KubeletSettings,
    ),
    "block_device_mappings": Field(
        about="The volumes of the instances. Absent: the defaults of the family.",
        limits={"maxItems": 50, **_ATOMIC},
        rules=(rules.ONE_ROOT_VOLUME,),
    ),
    "instance_store_policy": Field(
        about="The use of local disks. RAID0: ephemeral storage of the pods. Absent: unused.",
        limits={"enum": ["RAID0"]},
    ),
    "network_interfaces": Field(
        about="The network interfaces of the instances.",
        limits={"maxItems": 150, **_ATOMIC},
        rules=rules.NETWORK_INTERFACES,
    ),
    "metadata_options": Field(
        about="The instances' metadata service.",
        defaults={version: {**_METADATA_DEFAULTS, "httpPutResponseHopLimit": hops} for version, hops in _HOPS.items()},
    ),
    "associate_public_ip_address": Field(about="Whether instances get public addresses. Absent: the subnet decides."),
    "detailed_monitoring": Field(about="Whether CloudWatch monitors instances every minute."),
    "context": Field(about="Reserved by EC2."),
    "connection_tracking": Field(
        about="Timeouts of tracked connections in seconds, passed to EC2.", shape=ConnectionTracking
    ),
    "cpu_options": Field(
        about="CPU options of the instances, passed to EC2, also those that are not listed.",
        limits=_OPEN,
        shape=CPUOptions,
    ),
    "ip_prefix_count": _at_least(0, "How many address prefixes each interface gets. A change causes no drift."),
}
_BLOCK_DEVICE: Mapping[str, Field] = {
    "delete_on_termination": Field(about="Whether the volume is deleted with the instance. Absent: true."),
    "encrypted": Field(about="Whether the volume is encrypted."),
    "iops": Field(about="Operations per second of an io1, io2 or gp3 volume.", strict={"minimum": 1}),
    "kms_key_id": Field(about="The KMS key of the encryption."),
    "snapshot_id": Field(about="The snapshot that the volume is created from."),
    "throughput": Field(about="Throughput of a gp3 volume, in MiB/s.", strict={"minimum": 1}),
    "volume_initialization_rate": _between(100, 300, "How fast data of the snapshot is fetched, in MiB/s."),
    "volume_size": Field(
        about="The size of the volume.", limits={"pattern": ACCEPTED_VOLUME_SIZE}, strict={"pattern": VOLUME_SIZE}
    ),
    "volume_type": Field(about="The type of the volume.", limits={"enum": list(VOLUME_TYPES)}),
}
_METADATA_OPTIONS: Mapping[str, Field] = {
    "http_endpoint": Field(about="Whether the service is available.", limits=_SWITCH, defaults={"v1": "enabled"}),
    "http_protocol_ipv6": Field(
        about="Whether the service is available over IPv6.", limits=_SWITCH, defaults={"v1": "disabled"}
    ),
    "http_put_response_hop_limit": Field(
        about="The hop limit of its responses.", limits={"minimum": 1, "maximum": 64}, defaults=_HOPS
    ),
    "http_tokens": Field(
        about="Whether session tokens are required.",
        limits={"enum": ["required", "optional"]},
        defaults={"v1": "required"},
    ),
}
_STATUS: Mapping[str, Field] = {
    "subnets": Field(about="The matching subnets, most free addresses first."),
    "security_groups": Field(about="The matching security groups."),
    "amis": Field(about="The matching images, newest first."),
    "capacity_reservations": Field(about="The matching capacity reservations."),
    "instance_profile": Field(about="The instance profile of the nodes."),
}

EC2_FIELDS: Mapping[type, Mapping[str, Field]] = {
    model.EC2NodeClass: {
        "metadata": Field(about="Standard metadata."),
        "spec": Field(about="The configuration of the instances.", required_in=BOTH),
        "status": Field(about="The AWS resources that the terms resolve to."),
    },
    model.EC2NodeClassSpec: _SPEC,
    model.SubnetSelectorTerm: {"tags": _TAGS, "id": _id(ACCEPTED_SUBNET_ID, SUBNET_ID, "The subnet.")},
    model.SecurityGroupSelectorTerm: {
        "tags": _TAGS,
        "id": _id(ACCEPTED_SECURITY_GROUP_ID, SECURITY_GROUP_ID, "The security group."),
        "name": Field(about="The name of the security group, which is not its Name tag.", strict=_NAME),
    },
    model.AMISelectorTerm: {
        "alias": Field(
            about="An EKS image as family@version, such as al2023@latest.",
            limits={"maxLength": 30},
            strict={"pattern": ALIAS},
            rules=rules.ALIAS,
        ),
        "tags": _TAGS,
        "id": _id(ACCEPTED_AMI_ID, AMI_ID, "The image."),
        "name": Field(about="The name of the image; * matches any text.", strict=_NAME),
        "owner": Field(about="An account, self, amazon or aws-marketplace.", strict=_NAME),
        "ssm_parameter": Field(about="An SSM parameter that holds the id of an image."),
    },
    model.CapacityReservationSelectorTerm: {
        "tags": _TAGS,
        "id": _id(RESERVATION_ID, RESERVATION_ID, "The capacity reservation."),
        "owner_id": Field(about="The account that owns it.", limits={"pattern": ACCOUNT}),
        "instance_match_criteria": Field(about="Which instances may use it.", limits={"enum": ["open", "targeted"]}),
    },
    model.PlacementGroupSelector: {
        "name": Field(about="The name of the placement group.", limits={"minLength": 1}, strict=_NAME),
        "id": _id(PLACEMENT_GROUP_ID, PLACEMENT_GROUP_ID, "The placement group."),
    },
    model.BlockDevice: _BLOCK_DEVICE,
    model.BlockDeviceMapping: {
        "device_name": Field(about="The device, such as /dev/xvda."),
        "ebs": Field(about="The EBS volume of the device."),
        "root_volume": Field(about="Whether the kubelet stores ephemeral storage of pods on it."),
    },
    model.MetadataOptions: _METADATA_OPTIONS,
    model.NetworkInterface: {
        "network_card_index": replace(_at_least(0, "The network card it belongs to."), required_in=BOTH),
        "device_index": replace(_at_least(0, "Its device index on the card."), required_in=BOTH),
        "interface_type": Field(
            about="The type of the interface.", limits={"enum": ["interface", "efa-only"]}, required_in=BOTH
        ),
    },
    model.ResolvedSubnet: {
        "id": Field(about="The subnet."),
        "zone": Field(about="Its availability zone.", required_in=BOTH),
        "zone_id": Field(about="The id of that zone, the same in every account."),
    },
    model.ResolvedSecurityGroup: {"id": Field(about="The security group."), "name": Field(about="Its name.")},
    model.ResolvedAMI: {
        "id": Field(about="The image."),
        "name": Field(about="Its name."),
        "deprecated": Field(about="Whether its owner deprecated it."),
        "requirements": Field(about="The requirements on instance types that run it.", required_in=BOTH),
    },
    model.ResolvedCapacityReservation: {
        "id": Field(about="The capacity reservation.", limits={"pattern": RESERVATION_ID}),
        "availability_zone": Field(about="Its availability zone.", required_in=BOTH),
        "instance_type": Field(about="Its instance type.", required_in=BOTH),
        "instance_match_criteria": Field(
            about="Which instances may use it.", limits={"enum": ["open", "targeted"]}, required_in=BOTH
        ),
        "owner_id": Field(about="The account that owns it.", limits={"pattern": ACCOUNT}, required_in=BOTH),
        "reservation_type": Field(
            about="What was reserved.",
            limits={"enum": ["default", "capacity-block"]},
            defaults=dict.fromkeys(BOTH, "default"),
        ),
        "interruptible": Field(about="Whether EC2 may reclaim it."),
        "state": Field(
            about="Whether it ends soon.",
            limits={"enum": ["active", "expiring"]},
            defaults=dict.fromkeys(BOTH, "active"),
        ),
        "end_time": Field(about="When it ends."),
    },
    model.EC2NodeClassStatus: _STATUS,
    **PASSED_ON_FIELDS,
}
EC2_RULES: Mapping[type, tuple[Rule, ...]] = {
    model.EC2NodeClassSpec: rules.SPEC,
    model.SubnetSelectorTerm: rules.SUBNET_TERM,
    model.SecurityGroupSelectorTerm: rules.SECURITY_GROUP_TERM,
    model.AMISelectorTerm: rules.AMI_TERM,
    model.CapacityReservationSelectorTerm: rules.RESERVATION_TERM,
    model.PlacementGroupSelector: rules.PLACEMENT_GROUP,
    model.BlockDevice: rules.VOLUME,
    KubeletSettings: rules.KUBELET,
    ConnectionTracking: rules.CONNECTION_TRACKING,
}
