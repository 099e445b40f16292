"""The kinds of objects that Dovetail reads and writes.

A `Kind` has the API group, version, plural and scope, and the model class that objects are decoded to.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from dovetail.model.cluster_objects import (
    ConfigMap,
    CustomResourceDefinition,
    DaemonSet,
    Event,
    Lease,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
)
from dovetail.model.ec2nodeclass import EC2NodeClass
from dovetail.model.kube_object import KubeObject
from dovetail.model.kwoknodeclass import KWOKNodeClass
from dovetail.model.node import Node
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodepool import NodePool
from dovetail.model.pod import Pod
from dovetail.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of object in one API version."""

    model: type[T]
    name: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        """The `apiVersion` of manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return self.name


POD = Kind(Pod, "Pod", "pods", namespaced=True)
NODE = Kind(Node, "Node", "nodes")
NAMESPACE = Kind(Namespace, "Namespace", "namespaces")
CONFIG_MAP = Kind(ConfigMap, "ConfigMap", "configmaps", namespaced=True)
EVENT = Kind(Event, "Event", "events", namespaced=True)
PERSISTENT_VOLUME_CLAIM = Kind(
    PersistentVolumeClaim, "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True
)
PERSISTENT_VOLUME = Kind(PersistentVolume, "PersistentVolume", "persistentvolumes")
DAEMON_SET = Kind(DaemonSet, "DaemonSet", "daemonsets", "apps", namespaced=True)
POD_DISRUPTION_BUDGET = Kind(
    PodDisruptionBudget, "PodDisruptionBudget", "poddisruptionbudgets", "policy", namespaced=True
)
PRIORITY_CLASS = Kind(PriorityClass, "PriorityClass", "priorityclasses", "scheduling.k8s.io")
STORAGE_CLASS = Kind(StorageClass, "StorageClass", "storageclasses", "storage.k8s.io")
CSI_NODE = Kind(CSINode, "CSINode", "csinodes", "storage.k8s.io")
VOLUME_ATTACHMENT = Kind(VolumeAttachment, "VolumeAttachment", "volumeattachments", "storage.k8s.io")
LEASE = Kind(Lease, "Lease", "leases", "coordination.k8s.io", namespaced=True)
CUSTOM_RESOURCE_DEFINITION = Kind(
    CustomResourceDefinition, "CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io"
)
NODE_POOL = Kind(NodePool, "NodePool", "nodepools", "karpenter.sh")
NODE_CLAIM = Kind(NodeClaim, "NodeClaim", "nodeclaims", "karpenter.sh")
KWOK_NODE_CLASS = Kind(KWOKNodeClass, "KWOKNodeClass", "kwoknodeclasses", "karpenter.kwok.sh", "v1alpha1")
EC2_NODE_CLASS = Kind(EC2NodeClass, "EC2NodeClass", "ec2nodeclasses", "karpenter.k8s.aws")
