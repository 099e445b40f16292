"""Launch templates: made when a launch needs them, named by their content, removed when nobody has used them a while.

The name follows from what is in it, so making one that exists already is no fault, and two processes that launch alike
share it. Those of a process that died are found by their tags and go the same way.

What is in a launch template: everything EC2 needs to start one kind of machine for a claim.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from dovetail.cloud.aws import labels
from dovetail.cloud.aws.clients import AwsClients, AwsError, TtlCache
from dovetail.cloud.aws.labels import CLUSTER_NAME_TAG, NODE_CLASS_TAG
from dovetail.cloud.aws.launch.launch_options import FleetPurchase, Option
from dovetail.cloud.aws.launch.userdata import Boot, user_data
from dovetail.cloud.aws.resolve.amis import image_for
from dovetail.cloud.aws.resolve.network import named
from dovetail.model.duration import Duration
from dovetail.model.ec2nodeclass import (
    GROUP,
    BlockDevice,
    BlockDeviceMapping,
    EC2NodeClass,
    EC2NodeClassSpec,
    MetadataOptions,
)
from dovetail.model.labels import SPOT
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.resources import PODS, Quantity
from dovetail.ports.clock import Clock

UNUSED_FOR = timedelta(minutes=10)
_EXISTS = "InvalidLaunchTemplateName.AlreadyExistsException"
_GONE = frozenset(
    {
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
    }
)


@dataclass(frozen=True)
class LaunchTemplate:
    """A launch template as it should be."""

    name: str
    data: Mapping[str, Any]
    tags: Mapping[str, str]


def template(tags: Mapping[str, str], data: Mapping[str, Any]) -> LaunchTemplate:
    """The template with this content. `tags` say whose it is, and are what permissions are bound to."""
    told = json.dumps([tags, data], sort_keys=True)
    return LaunchTemplate(f"{GROUP}/{hashlib.sha256(told.encode()).hexdigest()[:24]}", data, tags)


def is_gone(code: str) -> bool:
    """Whether a launch failed because its template is not there any more."""
    return code in _GONE


class LaunchTemplates:
    """Makes and removes launch templates."""

    def __init__(self, aws: AwsClients, clock: Clock, cluster_name: str) -> None:
        self._aws = aws
        self._clock = clock
        self._cluster_name = cluster_name
        self._made: TtlCache[str, bool] = TtlCache(clock, timedelta(days=1))
        self._used_at: dict[str, datetime] = {}

    async def ensure(self, wanted: LaunchTemplate) -> None:
        """Have it at EC2. What was made before is not asked for again; a launch says if it is gone."""
        self._used_at[wanted.name] = self._clock.now()
        await self._made.get(wanted.name, lambda: self._make(wanted))

    def forget(self, wanted: LaunchTemplate) -> None:
        """It is not there, whatever we thought."""
        self._made.forget(wanted.name)

    async def adopt(self) -> None:
        """Take over those that an earlier process left: they go when nobody uses them."""
        for name in await self._find({CLUSTER_NAME_TAG: self._cluster_name}):
            self._used_at.setdefault(name, self._clock.now())

    async def sweep(self) -> None:
        """Remove those nobody has used for a while."""
        limit = self._clock.now() - UNUSED_FOR
        for name in [name for name, used_at in self._used_at.items() if used_at <= limit]:
            self._made.forget(name)
            await self._delete(name)
            self._used_at.pop(name, None)

    async def remove_all(self, node_class: EC2NodeClass) -> None:
        """Remove those of a class that goes."""
        for name in await self._find({CLUSTER_NAME_TAG: self._cluster_name, NODE_CLASS_TAG: node_class.name}):
            self._used_at.pop(name, None)
            self._made.forget(name)
            await self._delete(name)

    async def _make(self, wanted: LaunchTemplate) -> bool:
        tags = wanted.tags
        listed = [{"ResourceType": "launch-template", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]
        given: dict[str, Any] = {
            "LaunchTemplateName": wanted.name,
            "LaunchTemplateData": wanted.data,
            "TagSpecifications": listed,
        }
        try:
            await self._aws.call("ec2", "create_launch_template", **given)
        except AwsError as error:
            if error.code != _EXISTS:
                raise
        return True

    async def _find(self, tags: Mapping[str, str]) -> list[str]:
        filters = [named(f"tag:{key}", value) for key, value in tags.items()]
        found = await self._aws.collect("ec2", "describe_launch_templates", "LaunchTemplates", Filters=filters)
        return [each["LaunchTemplateName"] for each in found if each["LaunchTemplateName"].startswith(f"{GROUP}/")]

    async def _delete(self, name: str) -> None:
        try:
            await self._aws.call("ec2", "delete_launch_template", LaunchTemplateName=name)
        except AwsError as error:
            if not is_gone(error.code):
                raise


SHARED, DEDICATED = "default", "dedicated"
"""Tenancies as EC2 names them."""
_GIB = 1 << 30
_DEVICES = {"Bottlerocket": (("/dev/xvda", 4), ("/dev/xvdb", 20)), "Custom": ()}
_WINDOWS = (("/dev/sda1", 50),)
_USUAL = (("/dev/xvda", 20),)


@dataclass(frozen=True)
class Start:
    """What all machines of one launch share."""

    node_class: EC2NodeClass
    purchase: FleetPurchase
    boot: Boot
    tags: Mapping[str, str]  # of what the instance brings along
    efa: bool = False  # whether the claim asks for such interfaces
    tenancy: str = SHARED


def image_of(option: Option, node_class: EC2NodeClass) -> str:
    """The image a machine is started from; empty if none suits it."""
    found = image_for(option.instance_type.requirements, node_class.status.amis)
    return found.id if found is not None else ""


def template_data(option: Option, start: Start) -> dict[str, Any]:
    """The content of the template the option is launched from."""
    spec, status = start.node_class.spec, start.node_class.status
    pods = int(option.instance_type.capacity[PODS].units)
    boot = replace(start.boot, kubelet={**start.boot.kubelet, "maxPods": pods})
    listed = [{"Key": key, "Value": value} for key, value in sorted(start.tags.items())]
    brought = ["network-interface", *(["spot-instances-request"] if start.purchase.capacity_type == SPOT else [])]
    groups = [group.id for group in status.security_groups]
    interfaces = _interfaces(option, start, groups)
    data: dict[str, Any] = {
        "ImageId": image_of(option, start.node_class),
        "IamInstanceProfile": {"Name": status.instance_profile},
        "UserData": user_data(spec, boot),
        "BlockDeviceMappings": _volumes(spec),
        "MetadataOptions": _metadata(spec.metadata_options or MetadataOptions()),
        "Monitoring": {"Enabled": bool(spec.detailed_monitoring)},
        "CapacityReservationSpecification": _reservation(option),
        "TagSpecifications": [{"ResourceType": each, "Tags": listed} for each in brought],
        **({"NetworkInterfaces": interfaces} if interfaces else {"SecurityGroupIds": groups}),
        "Placement": _placement(start),
        **({"CpuOptions": _capitalised(spec.cpu_options)} if spec.cpu_options else {}),
    }
    if start.purchase.capacity_block:
        data["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    return data


def tenancy_of(claim: NodeClaim) -> str:
    """The tenancy a claim is launched with: dedicated only if its requirements leave nothing else."""
    return SHARED if claim.requirements.get(labels.INSTANCE_TENANCY).has(SHARED) else DEDICATED


def _placement(start: Start) -> dict[str, Any]:
    placement = {"Tenancy": start.tenancy}
    group = start.node_class.spec.placement_group_selector
    if group is None:
        return placement
    return {**placement, **({"GroupId": group.id} if group.id else {"GroupName": group.name})}


def _reservation(option: Option) -> dict[str, Any]:
    """Nobody draws on a reservation by accident."""
    if not option.reservation_id:
        return {"CapacityReservationPreference": "none"}
    return {"CapacityReservationTarget": {"CapacityReservationId": option.reservation_id}}


def _interfaces(option: Option, start: Start, groups: Sequence[str]) -> list[dict[str, Any]]:
    spec = start.node_class.spec
    wanted = [
        {
            "NetworkCardIndex": each.network_card_index,
            "DeviceIndex": each.device_index,
            "InterfaceType": each.interface_type,
        }
        for each in spec.network_interfaces
    ]
    if start.efa and not wanted:
        count = int(option.instance_type.capacity.get(labels.EFA, Quantity.of(0)).units)
        wanted = [
            {"NetworkCardIndex": card, "DeviceIndex": min(card, 1), "InterfaceType": "efa"} for card in range(count)
        ]
    told = (spec.associate_public_ip_address, spec.ip_prefix_count, spec.connection_tracking)
    if not wanted and any(each is not None for each in told):
        wanted = [{"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "interface"}]
    for interface in wanted:
        interface["Groups"] = list(groups)
        if spec.connection_tracking:
            interface["ConnectionTrackingSpecification"] = _timeouts(spec.connection_tracking)
        first = interface["DeviceIndex"] == 0 and interface["NetworkCardIndex"] == 0
        if first and spec.associate_public_ip_address is not None:
            interface["AssociatePublicIpAddress"] = spec.associate_public_ip_address
        if first and spec.ip_prefix_count is not None:
            interface["Ipv4PrefixCount"] = spec.ip_prefix_count
    return wanted


def _volumes(spec: EC2NodeClassSpec) -> list[dict[str, Any]]:
    mappings = spec.block_device_mappings or tuple(_default_volumes(spec.family))
    return [{"DeviceName": each.device_name, "Ebs": _volume(each.ebs)} for each in mappings if each.ebs is not None]


def _default_volumes(family: str) -> list[BlockDeviceMapping]:
    devices = _WINDOWS if family.startswith("Windows") else _DEVICES.get(family, _USUAL)
    return [
        BlockDeviceMapping(
            device_name=device, ebs=BlockDevice(encrypted=True, volume_type="gp3", volume_size=f"{size}Gi")
        )
        for device, size in devices
    ]


def _volume(ebs: BlockDevice) -> dict[str, Any]:
    size = -(-int(Quantity.parse(ebs.volume_size).units) // _GIB) if ebs.volume_size else None
    told = {
        "DeleteOnTermination": True if ebs.delete_on_termination is None else ebs.delete_on_termination,
        "Encrypted": ebs.encrypted,
        "Iops": ebs.iops,
        "KmsKeyId": ebs.kms_key_id or None,
        "SnapshotId": ebs.snapshot_id or None,
        "Throughput": ebs.throughput,
        "VolumeInitializationRate": ebs.volume_initialization_rate,
        "VolumeSize": size,
        "VolumeType": ebs.volume_type or None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _metadata(options: MetadataOptions) -> dict[str, Any]:
    return {
        "HttpEndpoint": options.http_endpoint,
        "HttpProtocolIpv6": options.http_protocol_ipv6,
        "HttpPutResponseHopLimit": options.http_put_response_hop_limit,
        "HttpTokens": options.http_tokens,
        "InstanceMetadataTags": "disabled",
    }


def _timeouts(said: Mapping[str, object]) -> dict[str, object]:
    """EC2 takes whole seconds."""
    return {name: _seconds(value) for name, value in _capitalised(said).items()}


def _seconds(value: object) -> object:
    """What is no duration is for the launch to complain about, by name."""
    try:
        return int(Duration.parse(value).span.total_seconds()) if isinstance(value, str) else value
    except ValueError:
        return value


def _capitalised(said: Mapping[str, object]) -> dict[str, object]:
    return {name[:1].upper() + name[1:]: value for name, value in said.items()}
