"""What stays as it was created, for kinds other than pods."""

from collections.abc import Iterator, Mapping

from dovetail.model.kube_object import Fault
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.validation.objects import VOLUME_SOURCES
from dovetail.sim.kubernetes.validation.pods import pod_change_faults

_FIXED: Mapping[str, tuple[str, ...]] = {
    "Deployment": ("spec.selector",),
    "ReplicaSet": ("spec.selector",),
    "DaemonSet": ("spec.selector",),
    "StatefulSet": ("spec.selector",),
    "Job": ("spec.selector", "spec.template", "spec.completions"),
    "VolumeAttachment": ("spec",),
    "StorageClass": ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    "PriorityClass": ("value", "preemptionPolicy"),
}
"""The fields of each kind that cannot change."""
_CLAIM_CHANGES = frozenset({"resources", "volumeAttributesClassName"})


def change_faults(kind: str, before: Plain, after: Plain) -> Iterator[Fault]:
    """Everything that may not change and did."""
    for path in _FIXED.get(kind, ()):
        if _at(before, path) != _at(after, path):
            yield Fault(path, "cannot change once the object is created")
    old, new = before.get("spec") or {}, after.get("spec") or {}
    if kind == "Pod" and old is not new:
        yield from pod_change_faults(old, new)
    elif kind == "Node" and old.get("providerID") and old["providerID"] != new.get("providerID"):
        yield Fault("spec.providerID", f"cannot change from {old['providerID']}", new.get("providerID"))
    elif kind == "PersistentVolume" and any(old.get(name) != new.get(name) for name in VOLUME_SOURCES):
        yield Fault("spec.persistentvolumesource", "cannot change once the object is created")
    elif kind == "PersistentVolumeClaim" and old != new:
        yield from _claim_faults(old, new)
    elif kind == "ConfigMap" and before.get("immutable"):
        yield from _immutable_faults(before, after)


def _at(plain: Plain, path: str) -> object:
    head, _, rest = path.partition(".")
    value = plain.get(head)
    return value if not rest or not isinstance(value, dict) else _at(value, rest)


def _claim_faults(before: Plain, after: Plain) -> Iterator[Fault]:
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    free = _CLAIM_CHANGES if before.get("volumeName") else _CLAIM_CHANGES | {"volumeName"}
    if changed - free:
        yield Fault("spec", f"cannot change {', '.join(sorted(changed - free))} once the claim is created")


def _immutable_faults(before: Plain, after: Plain) -> Iterator[Fault]:
    if not after.get("immutable"):
        yield Fault("immutable", "cannot be taken back")
    for name in ("data", "binaryData"):
        if before.get(name) != after.get(name):
            yield Fault(name, "cannot change while immutable is set")
