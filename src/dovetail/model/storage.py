"""Volumes, as far as they decide where a pod can run and when a node has let go of them."""

from collections.abc import Mapping

import msgspec

from dovetail.model.pod import NodeSelector
from dovetail.model.quantity import Quantity
from dovetail.model.wire import KubeObject, Wire


class PersistentVolumeClaimSpec(Wire):
    """What kind of volume is asked for, and which one was given."""

    storage_class_name: str | None = None
    volume_name: str = ""


class PersistentVolumeClaimStatus(Wire):
    """Whether the claim is bound."""

    phase: str = "Pending"


class PersistentVolumeClaim(KubeObject):
    """A PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class CsiSource(Wire):
    """A volume behind a CSI driver."""

    driver: str
    volume_handle: str = ""


class HostSource(Wire):
    """A volume that is a path of one host."""

    path: str = ""


class VolumeNodeAffinity(Wire):
    """The nodes a volume can be reached from."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire):
    """Where a volume lives."""

    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    local: HostSource | None = None
    host_path: HostSource | None = None
    aws_elastic_block_store: Mapping[str, object] | None = msgspec.field(default=None, name="awsElasticBlockStore")
    capacity: Mapping[str, Quantity] = {}


class PersistentVolume(KubeObject):
    """A PersistentVolume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class TopologySelectorRequirement(Wire):
    """A label and the values it may have."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire):
    """A place in which a StorageClass may make volumes."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(KubeObject):
    """A StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class CSINodeAllocatable(Wire):
    """How many volumes of a driver fit on a node."""

    count: int | None = None


class CSINodeDriver(Wire):
    """A driver on a node."""

    name: str
    allocatable: CSINodeAllocatable | None = None


class CSINodeSpec(Wire):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeObject):
    """A CSINode: the volume limits of the node of the same name."""

    spec: CSINodeSpec = CSINodeSpec()


class AttachmentSource(Wire):
    """Which volume is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Wire):
    """Which volume is attached to which node."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachmentStatus(Wire):
    """Whether it is attached."""

    attached: bool = False


class VolumeAttachment(KubeObject):
    """A VolumeAttachment."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
