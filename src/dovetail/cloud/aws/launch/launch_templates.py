"""EC2 launch templates: their content, and their creation and deletion.

A template holds everything EC2 needs to start an instance of one type for a claim: AMI, user data, volumes, network
interfaces, tags. Its name is a hash of the content, so creating one that exists is not an error, and processes with
equal launches share it. Templates that were not used for ten minutes are deleted; those that an earlier process left
are found by their tags and deleted in the same way.
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
from dovetail.cloud.aws.launch.launch_options import FleetPurchase, LaunchOption
from dovetail.cloud.aws.launch.userdata import BootstrapConfig, user_data
from dovetail.cloud.aws.resolve.amis import image_for
from dovetail.cloud.aws.resolve.network import ec2_filter
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
_ALREADY_EXISTS = "InvalidLaunchTemplateName.AlreadyExistsException"
_NOT_FOUND = frozenset(
    {
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
    }
)


@dataclass(frozen=True)
class LaunchTemplate:
    """A launch template to create."""

    name: str
    data: Mapping[str, Any]
    tags: Mapping[str, str]


def template(tags: Mapping[str, str], data: Mapping[str, Any]) -> LaunchTemplate:
    """The template with this content. `tags` name its owner; IAM policies may refer to them."""
    content = json.dumps([tags, data], sort_keys=True)
    return LaunchTemplate(f"{GROUP}/{hashlib.sha256(content.encode()).hexdigest()[:24]}", data, tags)


def is_not_found(code: str) -> bool:
    """Whether the error code means that the launch template does not exist."""
    return code in _NOT_FOUND


class LaunchTemplates:
    """Creates and deletes launch templates."""

    def __init__(self, aws: AwsClients, clock: Clock, cluster_name: str) -> None:
        self._aws = aws
        self._clock = clock
        self._cluster_name = cluster_name
        self._created: TtlCache[str, bool] = TtlCache(clock, timedelta(days=1))
        self._used_at: dict[str, datetime] = {}

    async def ensure(self, template: LaunchTemplate) -> None:
        """Create the template, unless this process created it before. A launch reports if it was deleted since."""
        self._used_at[template.name] = self._clock.now()
        await self._created.get(template.name, lambda: self._create(template))

    def forget(self, template: LaunchTemplate) -> None:
        """Record that the template does not exist at EC2."""
        self._created.forget(template.name)

    async def adopt(self) -> None:
        """Adopt the templates of an earlier process, so that they are deleted when unused."""
        for name in await self._find({CLUSTER_NAME_TAG: self._cluster_name}):
            self._used_at.setdefault(name, self._clock.now())

    async def delete_unused(self) -> None:
        """Delete the templates that were not used for ten minutes."""
        limit = self._clock.now() - UNUSED_FOR
        for name in [name for name, used_at in self._used_at.items() if used_at <= limit]:
            self._created.forget(name)
            await self._delete(name)
            self._used_at.pop(name, None)

    async def delete_all(self, node_class: EC2NodeClass) -> None:
        """Delete all templates of a class."""
        for name in await self._find({CLUSTER_NAME_TAG: self._cluster_name, NODE_CLASS_TAG: node_class.name}):
            self._used_at.pop(name, None)
            self._created.forget(name)
            await self._delete(name)

    async def _create(self, template: LaunchTemplate) -> bool:
        tags = template.tags
        listed = [{"ResourceType": "launch-template", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]
        request: dict[str, Any] = {
            "LaunchTemplateName": template.name,
            "LaunchTemplateData": template.data,
            "TagSpecifications": listed,
        }
        try:
            await self._aws.call("ec2", "create_launch_template", **request)
        except AwsError as error:
            if error.code != _ALREADY_EXISTS:
                raise
        return True

    async def _find(self, tags: Mapping[str, str]) -> list[str]:
        filters = [ec2_filter(f"tag:{key}", value) for key, value in tags.items()]
        found = await self._aws.collect("ec2", "describe_launch_templates", "LaunchTemplates", Filters=filters)
        return [each["LaunchTemplateName"] for each in found if each["LaunchTemplateName"].startswith(f"{GROUP}/")]

    async def _delete(self, name: str) -> None:
        try:
            await self._aws.call("ec2", "delete_launch_template", LaunchTemplateName=name)
        except AwsError as error:
            if not is_not_found(error.code):
                raise


SHARED, DEDICATED = "default", "dedicated"
"""EC2 tenancies."""
_GIB = 1 << 30
_DEVICES = {"Bottlerocket": (("/dev/xvda", 4), ("/dev/xvdb", 20)), "Custom": ()}
_WINDOWS_DEVICES = (("/dev/sda1", 50),)
_DEFAULT_DEVICES = (("/dev/xvda", 20),)


@dataclass(frozen=True)
class TemplateConfig:
    """What all launch templates of one launch share."""

    node_class: EC2NodeClass
    purchase: FleetPurchase
    bootstrap: BootstrapConfig
    tags: Mapping[str, str]  # of network interfaces and spot requests
    efa: bool = False  # whether the claim requests EFA interfaces
    tenancy: str = SHARED


def image_of(option: LaunchOption, node_class: EC2NodeClass) -> str:
    """The id of the AMI for an option; empty if there is none."""
    found = image_for(option.instance_type.requirements, node_class.status.amis)
    return found.id if found is not None else ""


def template_data(option: LaunchOption, config: TemplateConfig) -> dict[str, Any]:
    """The content of the launch template for an option."""
    spec, status = config.node_class.spec, config.node_class.status
    pods = int(option.instance_type.capacity[PODS].units)
    bootstrap = replace(config.bootstrap, kubelet={**config.bootstrap.kubelet, "maxPods": pods})
    listed = [{"Key": key, "Value": value} for key, value in sorted(config.tags.items())]
    tagged = ["network-interface", *(["spot-instances-request"] if config.purchase.capacity_type == SPOT else [])]
    groups = [group.id for group in status.security_groups]
    interfaces = _interfaces(option, config, groups)
    data: dict[str, Any] = {
        "ImageId": image_of(option, config.node_class),
        "IamInstanceProfile": {"Name": status.instance_profile},
        "UserData": user_data(spec, bootstrap),
        "BlockDeviceMappings": _volumes(spec),
        "MetadataOptions": _metadata(spec.metadata_options or MetadataOptions()),
        "Monitoring": {"Enabled": bool(spec.detailed_monitoring)},
        "CapacityReservationSpecification": _reservation(option),
        "TagSpecifications": [{"ResourceType": each, "Tags": listed} for each in tagged],
        **({"NetworkInterfaces": interfaces} if interfaces else {"SecurityGroupIds": groups}),
        "Placement": _placement(config),
        **({"CpuOptions": _capitalized(spec.cpu_options)} if spec.cpu_options else {}),
    }
    if config.purchase.capacity_block:
        data["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    return data


def tenancy_of(claim: NodeClaim) -> str:
    """The tenancy of a claim's instance: dedicated only if the requirements exclude the default one."""
    return SHARED if claim.requirements.get(labels.INSTANCE_TENANCY).has(SHARED) else DEDICATED


def _placement(config: TemplateConfig) -> dict[str, Any]:
    placement = {"Tenancy": config.tenancy}
    group = config.node_class.spec.placement_group_selector
    if group is None:
        return placement
    return {**placement, **({"GroupId": group.id} if group.id else {"GroupName": group.name})}


def _reservation(option: LaunchOption) -> dict[str, Any]:
    """Instances use a capacity reservation only if the option names it."""
    if not option.reservation_id:
        return {"CapacityReservationPreference": "none"}
    return {"CapacityReservationTarget": {"CapacityReservationId": option.reservation_id}}


def _interfaces(option: LaunchOption, config: TemplateConfig, groups: Sequence[str]) -> list[dict[str, Any]]:
    spec = config.node_class.spec
    interfaces = [
        {
            "NetworkCardIndex": each.network_card_index,
            "DeviceIndex": each.device_index,
            "InterfaceType": each.interface_type,
        }
        for each in spec.network_interfaces
    ]
    if config.efa and not interfaces:
        count = int(option.instance_type.capacity.get(labels.EFA, Quantity.of(0)).units)
        interfaces = [
            {"NetworkCardIndex": card, "DeviceIndex": min(card, 1), "InterfaceType": "efa"} for card in range(count)
        ]
    settings = (spec.associate_public_ip_address, spec.ip_prefix_count, spec.connection_tracking)
    if not interfaces and any(each is not None for each in settings):
        interfaces = [{"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "interface"}]
    for interface in interfaces:
        interface["Groups"] = list(groups)
        if spec.connection_tracking:
            interface["ConnectionTrackingSpecification"] = _timeouts(spec.connection_tracking)
        first = interface["DeviceIndex"] == 0 and interface["NetworkCardIndex"] == 0
        if first and spec.associate_public_ip_address is not None:
            interface["AssociatePublicIpAddress"] = spec.associate_public_ip_address
        if first and spec.ip_prefix_count is not None:
            interface["Ipv4PrefixCount"] = spec.ip_prefix_count
    return interfaces


def _volumes(spec: EC2NodeClassSpec) -> list[dict[str, Any]]:
    mappings = spec.block_device_mappings or tuple(_default_volumes(spec.family))
    return [{"DeviceName": each.device_name, "Ebs": _volume(each.ebs)} for each in mappings if each.ebs is not None]


def _default_volumes(family: str) -> list[BlockDeviceMapping]:
    devices = _WINDOWS_DEVICES if family.startswith("Windows") else _DEVICES.get(family, _DEFAULT_DEVICES)
    return [
        BlockDeviceMapping(
            device_name=device, ebs=BlockDevice(encrypted=True, volume_type="gp3", volume_size=f"{size}Gi")
        )
        for device, size in devices
    ]


def _volume(ebs: BlockDevice) -> dict[str, Any]:
    size = -(-int(Quantity.parse(ebs.volume_size).units) // _GIB) if ebs.volume_size else None
    settings = {
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
    return {name: value for name, value in settings.items() if value is not None}


def _metadata(options: MetadataOptions) -> dict[str, Any]:
    return {
        "HttpEndpoint": options.http_endpoint,
        "HttpProtocolIpv6": options.http_protocol_ipv6,
        "HttpPutResponseHopLimit": options.http_put_response_hop_limit,
        "HttpTokens": options.http_tokens,
        "InstanceMetadataTags": "disabled",
    }


def _timeouts(settings: Mapping[str, object]) -> dict[str, object]:
    """Connection tracking timeouts as whole seconds, the unit of EC2."""
    return {name: _seconds(value) for name, value in _capitalized(settings).items()}


def _seconds(value: object) -> object:
    """Convert a duration to seconds. Another value is passed on, and EC2 rejects it with its name."""
    try:
        return int(Duration.parse(value).span.total_seconds()) if isinstance(value, str) else value
    except ValueError:
        return value


def _capitalized(settings: Mapping[str, object]) -> dict[str, object]:
    return {name[:1].upper() + name[1:]: value for name, value in settings.items()}
