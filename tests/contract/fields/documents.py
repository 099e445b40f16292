"""The smallest valid object of each kind that the tables change."""

from typing import Any

Plain = dict[str, Any]
LABELS = {"app": "web"}
SELECTOR = {"matchLabels": LABELS}


def container(**parts: Any) -> Plain:
    """A container; `name=None` leaves a field out."""
    return present({"name": "main", "image": "registry.k8s.io/pause:3.10", **parts})


def present(parts: Plain) -> Plain:
    """The fields that are not None."""
    return {name: value for name, value in parts.items() if value is not None}


def pod(meta: Plain | None = None, **spec: Any) -> Plain:
    """A pod that no scheduler takes."""
    plain = {"schedulerName": "nobody", "automountServiceAccountToken": False, "containers": [container()]}
    body = present({**plain, **spec})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta or {}, "spec": body}


def sized(requests: Plain | None = None, limits: Plain | None = None) -> Plain:
    """A pod with one container of this size."""
    return pod(containers=[container(resources=present({"requests": requests, "limits": limits}))])


def node(meta: Plain | None = None, **spec: Any) -> Plain:
    """A node without an instance."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta or {}, "spec": spec}


def config_map(meta: Plain | None = None, **data: Any) -> Plain:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta or {}, "data": data}


def template(meta: Plain | None = None, **spec: Any) -> Plain:
    """The pod template of a workload."""
    return {"metadata": {"labels": LABELS} if meta is None else meta, "spec": pod(**spec)["spec"]}


def workload(kind: str, meta: Plain | None = None, **spec: Any) -> Plain:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    body = present({"selector": SELECTOR, "template": template(), **spec})
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta or {}, "spec": body}


def job(**spec: Any) -> Plain:
    """A Job."""
    body = present({"template": template({}, restartPolicy="Never"), **spec})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": body}


def budget(meta: Plain | None = None, **spec: Any) -> Plain:
    """A PodDisruptionBudget."""
    body = present({"selector": SELECTOR, **spec})
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta or {}, "spec": body}


def lease(**spec: Any) -> Plain:
    """A Lease."""
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {}, "spec": spec}


def volume(**spec: Any) -> Plain:
    """A PersistentVolume."""
    parts = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
        **spec,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {}, "spec": present(parts)}


def volume_claim(**spec: Any) -> Plain:
    """A PersistentVolumeClaim."""
    parts = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {}, "spec": present(parts)}


def storage_class(**parts: Any) -> Plain:
    """A StorageClass."""
    body = present({"provisioner": "ebs.csi.aws.com", **parts})
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {}, **body}


def attachment(**spec: Any) -> Plain:
    """A VolumeAttachment."""
    parts = present({"attacher": "ebs.csi.aws.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}, **spec})
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {}, "spec": parts}


def csi_node(*drivers: Plain) -> Plain:
    """A CSINode."""
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {}, "spec": {"drivers": list(drivers)}}


def priority_class(meta: Plain | None = None, **parts: Any) -> Plain:
    """A PriorityClass."""
    body = present({"value": 10, **parts})
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta or {}, **body}


def namespace(meta: Plain | None = None) -> Plain:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta or {}}
