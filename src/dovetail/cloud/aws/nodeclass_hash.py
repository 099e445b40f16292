"""Hashes of an EC2NodeClass: instances that were launched from another spec have drifted.

`class_hash` is the hash of Karpenter's AWS provider, version v5, bit for bit: the annotations that Karpenter wrote stay
true when Dovetail takes a cluster over, and the other way round. It covers the spec without the fields that drift by
what they resolve to (selector terms) or that only matter at launch (`ipPrefixCount`), the effective AMI family, and the
CA bundle of the cluster, which is part of the user data. Lists are compared without order.

`own_hash` covers what Karpenter's v1 does not have: other kubelet, CPU and connection tracking settings. It has an
annotation of its own, which is absent where nothing of that kind is set.

Hashes of another version (a newer Karpenter, an earlier Dovetail) are not comparable: NodeClaims that carry one receive
the current hash instead of drifting.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec.structs import replace

from dovetail.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION, OWN_CLASS_HASH
from dovetail.model.duration import parse_duration
from dovetail.model.ec2nodeclass import BlockDevice, EC2NodeClass, EC2NodeClassSpec, MetadataOptions
from dovetail.model.nodepool import ABSENT_LIST, ABSENT_MAP
from dovetail.model.resources import Quantity
from dovetail.model.struct_hash import GoStruct, GoValue, Int32, struct_hash

HASH_VERSION = "v5"
HASH_ANNOTATIONS = (CLASS_HASH, CLASS_HASH_VERSION, OWN_CLASS_HASH)
_T = TypeVar("_T")


def hash_annotations(node_class: EC2NodeClass, ca_bundle: str) -> dict[str, str]:
    """Return the annotations that the class and the NodeClaims launched from it carry."""
    own = own_hash(node_class)
    stamp = {CLASS_HASH: class_hash(node_class, ca_bundle), CLASS_HASH_VERSION: HASH_VERSION}
    return {**stamp, OWN_CLASS_HASH: own} if own else stamp


def stamped(node_class: EC2NodeClass, ca_bundle: str) -> EC2NodeClass:
    """Return the class with current hash annotations, whichever ones it carries."""
    others = {name: each for name, each in node_class.metadata.annotations.items() if name not in HASH_ANNOTATIONS}
    annotations = {**others, **hash_annotations(node_class, ca_bundle)}
    return replace(node_class, metadata=replace(node_class.metadata, annotations=annotations))


def recorded_hashes(written: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes among annotations or tags; empty if they are of another version."""
    if written.get(CLASS_HASH_VERSION) != HASH_VERSION:
        return {}
    return {name: written[name] for name in HASH_ANNOTATIONS if name in written}


def class_hash(node_class: EC2NodeClass, ca_bundle: str) -> str:
    """Return Karpenter's hash in decimal digits."""
    spec = node_class.spec
    return str(struct_hash(_spec(spec)) ^ struct_hash(spec.family) ^ struct_hash(ca_bundle))


def own_hash(node_class: EC2NodeClass) -> str:
    """Return the hash of the settings that Karpenter does not have; empty where none is set."""
    spec = node_class.spec
    known = (("kubelet", spec.kubelet, _KUBELET), ("cpuOptions", spec.cpu_options, _CPU_OPTIONS))
    own = {
        name: {key: value for key, value in settings.items() if _go_value(go_fields, key, value) is None}
        for name, settings, go_fields in (*known, ("connectionTracking", spec.connection_tracking, _TRACKING))
        if settings is not None
    }
    own = {name: settings for name, settings in own.items() if settings}
    if not own:
        return ""
    digest = hashlib.sha256(msgspec.json.encode(own, order="deterministic")).digest()
    return str(int.from_bytes(digest[:8]))


def _spec(spec: EC2NodeClassSpec) -> GoStruct:
    """The hashed fields in the order of Karpenter's type."""
    group = spec.placement_group_selector
    return GoStruct(
        "EC2NodeClassSpec",
        {
            "PlacementGroupSelector": (
                GoStruct("PlacementGroupSelector", {"Name": group.name or None, "ID": group.id or None})
                if group is not None
                else None
            ),
            "AssociatePublicIPAddress": spec.associate_public_ip_address,
            "UserData": spec.user_data,
            "Role": spec.role or None,
            "InstanceProfile": spec.instance_profile or None,
            "Tags": None if spec.tags is ABSENT_MAP else spec.tags,
            "Kubelet": _settings("KubeletConfiguration", spec.kubelet, _KUBELET),
            "BlockDeviceMappings": _block_devices(spec),
            "InstanceStorePolicy": spec.instance_store_policy or None,
            "NetworkInterfaces": _interfaces(spec),
            "DetailedMonitoring": spec.detailed_monitoring,
            "MetadataOptions": _metadata_options(spec.metadata_options or MetadataOptions()),
            "ConnectionTracking": _settings("ConnectionTracking", spec.connection_tracking, _TRACKING),
            "Context": spec.context,
            "CPUOptions": _settings("CPUOptions", spec.cpu_options, _CPU_OPTIONS),
        },
    )


def _metadata_options(options: MetadataOptions) -> GoStruct:
    return GoStruct(
        "MetadataOptions",
        {
            "HTTPEndpoint": options.http_endpoint,
            "HTTPProtocolIPv6": options.http_protocol_ipv6,
            "HTTPPutResponseHopLimit": options.http_put_response_hop_limit,
            "HTTPTokens": options.http_tokens,
        },
    )


def _block_devices(spec: EC2NodeClassSpec) -> GoValue | None:
    if spec.block_device_mappings is ABSENT_LIST:
        return None
    return [
        GoStruct(
            "BlockDeviceMapping",
            {
                "DeviceName": each.device_name,
                "EBS": _volume(each.ebs) if each.ebs is not None else None,
                "RootVolume": each.root_volume or None,
            },
        )
        for each in spec.block_device_mappings
    ]


def _volume(ebs: BlockDevice) -> GoStruct:
    rate = ebs.volume_initialization_rate
    return GoStruct(
        "BlockDevice",
        {
            "DeleteOnTermination": ebs.delete_on_termination,
            "Encrypted": ebs.encrypted,
            "IOPS": ebs.iops,
            "KMSKeyID": ebs.kms_key_id,
            "SnapshotID": ebs.snapshot_id,
            "Throughput": ebs.throughput,
            "VolumeInitializationRate": Int32(rate) if rate is not None else None,
            "VolumeSize": Quantity.parse(ebs.volume_size).canonical if ebs.volume_size else None,
            "VolumeType": ebs.volume_type or None,
        },
    )


def _interfaces(spec: EC2NodeClassSpec) -> GoValue | None:
    if spec.network_interfaces is ABSENT_LIST:
        return None
    return [
        GoStruct(
            "NetworkInterface",
            {
                "NetworkCardIndex": Int32(each.network_card_index) if each.network_card_index else None,
                "DeviceIndex": Int32(each.device_index) if each.device_index else None,
                "InterfaceType": each.interface_type or None,
            },
        )
        for each in spec.network_interfaces
    ]


_IN_32_BITS = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]


def _int32(value: object) -> GoValue:
    return Int32(msgspec.convert(value, _IN_32_BITS))


def _durations(value: object) -> GoValue:
    return {
        name: GoStruct("Duration", {"Duration": parse_duration(span) or None})
        for name, span in msgspec.convert(value, dict[str, str]).items()
    }


def _typed(kind: type[_T]) -> Callable[[object], _T]:
    return lambda value: msgspec.convert(value, kind)


_MAP = _typed(dict[str, str])
_GoFields = Mapping[str, tuple[str, Callable[[object], GoValue]]]
"""Name and type in Karpenter, in the order of its type, by name of the setting."""
_KUBELET: _GoFields = {
    "clusterDNS": ("ClusterDNS", _typed(list[str])),
    "maxPods": ("MaxPods", _int32),
    "podsPerCore": ("PodsPerCore", _int32),
    "systemReserved": ("SystemReserved", _MAP),
    "kubeReserved": ("KubeReserved", _MAP),
    "evictionHard": ("EvictionHard", _MAP),
    "evictionSoft": ("EvictionSoft", _MAP),
    "evictionSoftGracePeriod": ("EvictionSoftGracePeriod", _durations),
    "evictionMaxPodGracePeriod": ("EvictionMaxPodGracePeriod", _int32),
    "imageGCHighThresholdPercent": ("ImageGCHighThresholdPercent", _int32),
    "imageGCLowThresholdPercent": ("ImageGCLowThresholdPercent", _int32),
    "cpuCFSQuota": ("CPUCFSQuota", _typed(bool)),
}
_CPU_OPTIONS: _GoFields = {"nestedVirtualization": ("NestedVirtualization", _typed(str))}
_TRACKING: _GoFields = {
    "tcpEstablishedTimeout": ("TCPEstablishedTimeout", _int32),
    "udpStreamTimeout": ("UDPStreamTimeout", _int32),
    "udpTimeout": ("UDPTimeout", _int32),
}


def _settings(name: str, settings: Mapping[str, object] | None, go_fields: _GoFields) -> GoStruct | None:
    if settings is None:
        return None
    fields = {go_name: _go_value(go_fields, key, settings.get(key)) for key, (go_name, _) in go_fields.items()}
    return GoStruct(name, fields)


def _go_value(go_fields: _GoFields, key: str, value: object) -> GoValue | None:
    """The value in Karpenter's type; None if it is absent there, or of a type that Karpenter's CRD refuses."""
    if value is None or key not in go_fields:
        return None
    try:
        return go_fields[key][1](value)
    except ValueError:  # msgspec.ValidationError is one
        return None
