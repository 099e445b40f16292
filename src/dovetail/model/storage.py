"""Volumes: PersistentVolumes, their claims and classes, CSINodes and VolumeAttachments.

They decide where a pod can run, how many volumes fit on a node, and whether the volumes of a node are detached. Each
has only the fields that Dovetail reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from dovetail.model.kube_object import ApiStruct, Key, KubeObject
from dovetail.model.pod import NodeSelector
from dovetail.model.resources import Quantity


class PersistentVolumeClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The requested StorageClass, and the bound volume."""

    storage_class_name: str | None = None
    volume_name: str = ""


class PersistentVolumeClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """Whether the claim is bound."""

    phase: str = "Pending"


class PersistentVolumeClaim(KubeObject, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class CsiSource(ApiStruct, frozen=True, kw_only=True):
    """The source of a volume of a CSI driver."""

    driver: str
    volume_handle: str = ""


class HostSource(ApiStruct, frozen=True, kw_only=True):
    """The source of a volume that is a path of a host."""

    path: str = ""


class VolumeNodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """The nodes that can attach a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(ApiStruct, frozen=True, kw_only=True):
    """The source and the node affinity of a volume."""

    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    local: HostSource | None = None
    host_path: HostSource | None = None
    aws_elastic_block_store: Mapping[str, object] | None = msgspec.field(default=None, name="awsElasticBlockStore")
    capacity: Mapping[str, Quantity] = {}


class PersistentVolume(KubeObject, frozen=True, kw_only=True):
    """A PersistentVolume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class TopologySelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """A label and the values it may have."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """A topology in which a StorageClass may provision volumes."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(KubeObject, frozen=True, kw_only=True):
    """A StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class CSINodeAllocatable(ApiStruct, frozen=True, kw_only=True):
    """How many volumes of a driver can be attached to a node."""

    count: int | None = None


class CSINodeDriver(ApiStruct, frozen=True, kw_only=True):
    """A driver on a node."""

    name: str
    allocatable: CSINodeAllocatable | None = None


class CSINodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] | None = ()


class CSINode(KubeObject, frozen=True, kw_only=True):
    """A CSINode: the volume limits of the node of the same name."""

    spec: CSINodeSpec = CSINodeSpec()


class AttachmentSource(ApiStruct, frozen=True, kw_only=True):
    """Which volume is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True, kw_only=True):
    """Which volume is attached to which node."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachmentStatus(ApiStruct, frozen=True, kw_only=True):
    """Whether it is attached."""

    attached: bool = False


class VolumeAttachment(KubeObject, frozen=True, kw_only=True):
    """A VolumeAttachment."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


@dataclass(frozen=True)
class Storage:
    """The volume objects that decide where pods can run. `attach_limits` is by node, then by driver."""

    claims: Mapping[Key, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    attach_limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def attach_limits(nodes: Mapping[Key, CSINode]) -> dict[str, dict[str, int]]:
    """The attach limits of CSINodes, by node and driver; a driver without a count has no limit."""
    return {
        key.name: {
            driver.name: driver.allocatable.count
            for driver in node.spec.drivers or ()
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        for key, node in nodes.items()
    }
