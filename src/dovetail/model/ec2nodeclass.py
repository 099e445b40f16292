"""EC2NodeClass: the AWS part of a NodePool's template.

`spec` is what users write, `status` what it was resolved to: subnets, security groups, AMIs, capacity reservations and
the instance profile. Objects of v1 and v1beta1 become the same value. Nothing here calls AWS.

A hashed field that was not written differs from an empty one (None, `ABSENT_LIST`, `ABSENT_MAP`), as in Karpenter.
"""

from collections.abc import Mapping

import msgspec

from dovetail.model.kube_object import ApiStruct, Condition, Instant, KubeObject
from dovetail.model.nodepool import ABSENT_LIST, ABSENT_MAP, NodeRequirement

GROUP = "karpenter.k8s.aws"
NODE_CLASS_KIND = "EC2NodeClass"
CUSTOM = "Custom"
FAMILY_BY_ALIAS: Mapping[str, str] = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}
"""AMI families by the lowercase name that an alias has for them."""
FAMILIES = (*FAMILY_BY_ALIAS.values(), CUSTOM)
LATEST = "latest"

AMIS_READY = "AMIsReady"
SUBNETS_READY = "SubnetsReady"
SECURITY_GROUPS_READY = "SecurityGroupsReady"
CAPACITY_RESERVATIONS_READY = "CapacityReservationsReady"
INSTANCE_PROFILE_READY = "InstanceProfileReady"
VALIDATION_SUCCEEDED = "ValidationSucceeded"
DEPENDENTS = (AMIS_READY, SUBNETS_READY, SECURITY_GROUPS_READY, INSTANCE_PROFILE_READY, VALIDATION_SUCCEEDED)
"""The conditions that make an EC2NodeClass Ready, besides that of capacity reservations if it selects any."""


class SubnetSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Subnets by id, or by all of these tags."""

    tags: Mapping[str, str] = {}
    id: str = ""


class SecurityGroupSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Security groups by id, by name, or by all of these tags."""

    tags: Mapping[str, str] = {}
    id: str = ""
    name: str = ""


class AMISelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Images by alias, id or SSM parameter, or by tags, name and owner together."""

    alias: str = ""
    tags: Mapping[str, str] = {}
    id: str = ""
    name: str = ""
    owner: str = ""
    ssm_parameter: str = ""

    @property
    def alias_family(self) -> str:
        """The family an alias names, or empty."""
        return FAMILY_BY_ALIAS.get(self.alias.partition("@")[0].lower(), "")

    @property
    def alias_version(self) -> str:
        """The version an alias names; `latest` follows every release."""
        return self.alias.partition("@")[2]


class CapacityReservationSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Capacity reservations by id, or by tags, owner and match criteria together."""

    tags: Mapping[str, str] = {}
    id: str = ""
    owner_id: str = msgspec.field(default="", name="ownerID")
    instance_match_criteria: str = ""


class PlacementGroupSelector(ApiStruct, frozen=True, kw_only=True):
    """The placement group of every instance, by name or by id."""

    name: str = ""
    id: str = ""


class BlockDevice(ApiStruct, frozen=True, kw_only=True):
    """An EBS volume that is created with the instance."""

    delete_on_termination: bool | None = None
    encrypted: bool | None = None
    iops: int | None = None
    kms_key_id: str | None = msgspec.field(default=None, name="kmsKeyID")
    snapshot_id: str | None = msgspec.field(default=None, name="snapshotID")
    throughput: int | None = None
    volume_initialization_rate: int | None = None
    volume_size: str = ""
    volume_type: str = ""


class BlockDeviceMapping(ApiStruct, frozen=True, kw_only=True):
    """A volume and the device it appears as."""

    device_name: str | None = None
    ebs: BlockDevice | None = None
    root_volume: bool = False


class MetadataOptions(ApiStruct, frozen=True, kw_only=True):
    """Settings of the instance metadata service. The defaults are those of Karpenter."""

    http_endpoint: str = "enabled"
    http_protocol_ipv6: str = msgspec.field(default="disabled", name="httpProtocolIPv6")
    http_put_response_hop_limit: int = 1
    http_tokens: str = "required"


class NetworkInterface(ApiStruct, frozen=True, kw_only=True):
    """A network interface that every instance gets."""

    network_card_index: int = 0
    device_index: int = 0
    interface_type: str = "interface"


class EC2NodeClassSpec(ApiStruct, frozen=True, kw_only=True):
    """The settings of the instances of a node class."""

    subnet_selector_terms: tuple[SubnetSelectorTerm, ...] = ()
    security_group_selector_terms: tuple[SecurityGroupSelectorTerm, ...] = ()
    ami_selector_terms: tuple[AMISelectorTerm, ...] = ()
    capacity_reservation_selector_terms: tuple[CapacityReservationSelectorTerm, ...] = ()
    placement_group_selector: PlacementGroupSelector | None = None
    ami_family: str = ""
    role: str = ""
    instance_profile: str = ""
    user_data: str | None = None
    tags: Mapping[str, str] = ABSENT_MAP
    kubelet: Mapping[str, object] | None = None
    block_device_mappings: tuple[BlockDeviceMapping, ...] = ABSENT_LIST
    instance_store_policy: str = ""
    network_interfaces: tuple[NetworkInterface, ...] = ABSENT_LIST
    metadata_options: MetadataOptions | None = None
    associate_public_ip_address: bool | None = msgspec.field(default=None, name="associatePublicIPAddress")
    detailed_monitoring: bool | None = None
    context: str | None = None
    connection_tracking: Mapping[str, object] | None = None
    cpu_options: Mapping[str, object] | None = None
    ip_prefix_count: int | None = None

    @property
    def family(self) -> str:
        """The AMI family: the field, that of an alias, AL2 without any terms (v1beta1), otherwise Custom."""
        if self.ami_family:
            return self.ami_family
        named = next((term.alias_family for term in self.ami_selector_terms if term.alias_family), "")
        return named or ("AL2" if not self.ami_selector_terms else CUSTOM)

    @property
    def image_terms(self) -> tuple[AMISelectorTerm, ...]:
        """The AMI selector terms. Without terms (v1beta1) the newest AMI of the family."""
        if self.ami_selector_terms or self.family == CUSTOM:
            return self.ami_selector_terms
        return (AMISelectorTerm(alias=f"{self.family.lower()}@{LATEST}"),)


class ResolvedSubnet(ApiStruct, frozen=True, kw_only=True):
    """A subnet that the terms select."""

    id: str
    zone: str = ""
    zone_id: str = msgspec.field(default="", name="zoneID")


class ResolvedSecurityGroup(ApiStruct, frozen=True, kw_only=True):
    """A security group that the terms select."""

    id: str
    name: str = ""


class ResolvedAMI(ApiStruct, frozen=True, kw_only=True):
    """An image that the terms select, and which instance types can run it."""

    id: str
    name: str = ""
    deprecated: bool = False
    requirements: tuple[NodeRequirement, ...] = ()


class ResolvedCapacityReservation(ApiStruct, frozen=True, kw_only=True):
    """A capacity reservation that the terms select."""

    id: str
    availability_zone: str = ""
    instance_type: str = ""
    instance_match_criteria: str = ""
    owner_id: str = msgspec.field(default="", name="ownerID")
    reservation_type: str = ""
    interruptible: bool = False
    state: str = ""
    end_time: Instant | None = None


class EC2NodeClassStatus(ApiStruct, frozen=True, kw_only=True):
    """The AWS resources that the terms select, and whether nodes can be launched with them."""

    subnets: tuple[ResolvedSubnet, ...] = ()
    security_groups: tuple[ResolvedSecurityGroup, ...] = ()
    amis: tuple[ResolvedAMI, ...] = ()
    capacity_reservations: tuple[ResolvedCapacityReservation, ...] = ()
    instance_profile: str = ""
    conditions: tuple[Condition, ...] = ()


class EC2NodeClass(KubeObject, frozen=True, kw_only=True):
    """An EC2NodeClass."""

    spec: EC2NodeClassSpec = EC2NodeClassSpec()
    status: EC2NodeClassStatus = EC2NodeClassStatus()
