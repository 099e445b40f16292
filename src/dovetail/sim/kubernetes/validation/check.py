"""Validation of creates, updates and patches for built-in kinds, as the API server does it.

Decoding comes first: an object with fields of the wrong type is refused as a whole, without paths. Then all faults are
reported together. An update is checked only where it changed, because the stored object was valid: parts that a write
does not change are shared with the stored version, so comparing by identity finds the changed ones.

The verdict on a pod spec depends on the spec alone and is cached by its encoded form, because many pods come from few
templates. `_FIXED` lists the fields that cannot change after creation; rules for pod updates are in `pods`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec

from dovetail.manifest.schema_check import without_nulls
from dovetail.model.kube_object import Fault
from dovetail.ports.errors import Invalid
from dovetail.sim.kubernetes.kinds import CUSTOM, NODE, POD, Resource
from dovetail.sim.kubernetes.merge_patch import Plain
from dovetail.sim.kubernetes.validation import objects
from dovetail.sim.kubernetes.validation.metadata import (
    CHECKED,
    CONTENT,
    METADATA,
    POD_SPEC,
    new_metadata_faults,
    part_faults,
    type_error,
)
from dovetail.sim.kubernetes.validation.objects import VOLUME_SOURCES
from dovetail.sim.kubernetes.validation.pods import (
    capacity_faults,
    nomination_faults,
    pod_change_faults,
    pod_spec_faults,
)

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
    """A fault for each changed field that is immutable."""
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
        yield Fault("immutable", "cannot be unset")
    for name in ("data", "binaryData"):
        if before.get(name) != after.get(name):
            yield Fault(name, "cannot change while immutable is set")


MOST_STORED_BYTES = 1536 * 1024
"""The request limit of etcd; the limit of the API server is higher."""
_WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")

Content = Callable[[Plain], Iterable[Fault]]


def _of_spec(check: Content) -> Content:
    return lambda plain: check(plain.get("spec") or {})


def _of_workload(kind: str) -> Content:
    return lambda plain: objects.workload_faults(kind, plain.get("spec") or {})


_CONTENT: Mapping[str, Content] = {
    **{kind: _of_workload(kind) for kind in _WORKLOADS},
    "Job": _of_spec(objects.job_faults),
    "PodDisruptionBudget": _of_spec(objects.budget_faults),
    "Node": _of_spec(objects.taint_faults),
    "ConfigMap": objects.config_map_faults,
    "Lease": _of_spec(objects.lease_faults),
    "Event": objects.event_faults,
    "PriorityClass": objects.priority_class_faults,
    "Namespace": objects.namespace_faults,
    "PersistentVolume": _of_spec(objects.volume_faults),
    "PersistentVolumeClaim": _of_spec(objects.volume_claim_faults),
    "StorageClass": objects.storage_class_faults,
    "VolumeAttachment": _of_spec(objects.attachment_faults),
    "CSINode": _of_spec(objects.csi_node_faults),
}
_STATUS: Mapping[str, Content] = {
    "Node": capacity_faults,
    "PodDisruptionBudget": objects.budget_status_faults,
    "Deployment": objects.deployment_status_faults,
}


def decode_new(resource: Resource, plain: Plain) -> Plain:
    """The object without null fields; raises `Invalid` if it cannot be decoded or is too large."""
    encoded = msgspec.json.encode(plain)
    if len(encoded) > MOST_STORED_BYTES:
        raise Invalid(f"{resource[1]}: the request is too large: {len(encoded)} bytes")
    if problem := _decoding_error(resource, plain):
        raise Invalid(f"{resource[1]} cannot be decoded: {problem}")
    return without_nulls(plain) if b"null" in encoded else plain


def check_new(resource: Resource, plain: Plain) -> None:
    """Raise `Invalid` with all faults of a new object."""
    faults = chain(new_metadata_faults(resource, plain["metadata"]), _content_faults(resource, plain))
    if resource == NODE:  # the only kind that keeps its status at creation
        faults = chain(faults, capacity_faults(plain.get("status") or {}))
    _refuse(resource, plain, faults)


def check_change(resource: Resource, before: Plain, after: Plain) -> None:
    """Raise `Invalid` with all faults of an update, immutable fields included."""
    faults: Iterable[Fault] = _metadata_change_faults(resource, before["metadata"], after["metadata"])
    if _content_changed(before, after):
        _decode_change(resource, after)
        faults = chain(faults, _content_faults(resource, after), change_faults(resource[1], before, after))
    _refuse(resource, after, faults)


def check_status(resource: Resource, before: Plain, after: Plain) -> None:
    """Raise `Invalid` with all faults of a status update, which for some kinds can change metadata too."""
    check = _STATUS.get(resource[1])
    if resource == POD:
        _refuse(resource, after, nomination_faults(before, after))
    if after["metadata"] is not before["metadata"]:
        _refuse(resource, after, _metadata_change_faults(resource, before["metadata"], after["metadata"]))
    if check is None or not _status_changed(resource, before.get("status") or {}, after.get("status") or {}):
        return
    if problem := type_error(CONTENT[resource[1]], {"status": after.get("status")}):
        raise Invalid(problem, (Fault("patch", problem),))
    _refuse(resource, after, check(after.get("status") or {}))


def _status_changed(resource: Resource, before: Plain, after: Plain) -> bool:
    """Whether a checked part of the status changed. Node conditions change often and are not checked."""
    if resource == NODE:
        return any(after.get(name) is not before.get(name) for name in ("capacity", "allocatable"))
    return True


def _decoding_error(resource: Resource, plain: Plain) -> str:
    found = type_error(METADATA, plain.get("metadata") or {})
    if resource == POD and isinstance(plain.get("spec"), dict):
        return found or _pod_spec_verdict(msgspec.json.encode(plain["spec"]))[0]
    shape = CONTENT.get(resource[1])
    return found or (type_error(shape, plain) if shape is not None else "")


def _decode_change(resource: Resource, after: Plain) -> None:
    problem = _decoding_error(resource, after)
    if not problem and (size := len(msgspec.json.encode(after))) > MOST_STORED_BYTES:
        raise Invalid(f"{resource[1]}: the object is too large: {size} bytes")
    if problem:
        raise Invalid(f"{resource[1]} cannot be decoded: {problem}", (Fault("patch", problem),))


def _content_changed(before: Plain, after: Plain) -> bool:
    if len(before) != len(after):
        return True
    old, new = before["metadata"].get("annotations"), after["metadata"].get("annotations")
    return old is not new or any(
        value is not before.get(name) for name, value in after.items() if name not in ("metadata", "status")
    )


def _content_faults(resource: Resource, plain: Plain) -> Iterable[Fault]:
    if resource == POD:
        return _pod_spec_verdict(msgspec.json.encode(plain.get("spec") or {}))[1]
    check = _CONTENT.get(resource[1])
    return check(plain) if check is not None else ()


@lru_cache(maxsize=1 << 10)
def _pod_spec_verdict(encoded: bytes) -> tuple[str, tuple[Fault, ...]]:
    """The decoding error of a pod spec, or its faults."""
    spec = msgspec.json.decode(encoded)
    problem = type_error(POD_SPEC, spec)
    return problem, () if problem else tuple(pod_spec_faults(spec))


def _metadata_change_faults(resource: Resource, before: Plain, after: Plain) -> Iterator[Fault]:
    for part in CHECKED:
        if after.get(part) is not before.get(part):
            if problem := type_error(METADATA, {part: after.get(part)}):
                raise Invalid(f"{resource[1]} cannot be decoded: {problem}", (Fault("patch", problem),))
            yield from part_faults(resource, part, after)
    if "deletionTimestamp" in before and after.get("finalizers") is not before.get("finalizers"):
        for name in after.get("finalizers") or ():
            if name not in (before.get("finalizers") or ()):
                problem = "no new finalizers can be added while the object is being deleted"
                yield Fault("metadata.finalizers", problem, name)


def _refuse(resource: Resource, plain: Plain, faults: Iterable[Fault]) -> None:
    found = tuple(faults)
    if found:
        name = plain["metadata"].get("name", "")
        raise Invalid(f"{resource[1]} {name} is invalid: {'; '.join(map(str, found))}", found)


_FIXED_BY_PATCH = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")


def check_identity(resource: Resource, meta: Plain, patched: Plain | None) -> None:
    """Raise `Invalid` if a patch changes the identity of an object. Other server-owned fields are ignored later."""
    if patched is None or any(patched.get(name, meta.get(name)) != meta.get(name) for name in ("name", "namespace")):
        raise Invalid(f"{resource[1]} {meta['name']}: name and namespace do not match those in the URL")
    for name in _FIXED_BY_PATCH:
        if patched.get(name) is not None and patched[name] != meta.get(name):
            fault = Fault(f"metadata.{name}", "cannot change", patched[name])
            raise Invalid(f"{resource[1]} {meta['name']} is invalid: {fault}", (fault,))


def check_type(resource: Resource, plain: Plain, patch: Mapping[str, Any]) -> None:
    """Raise `Invalid` if a patch changes kind or apiVersion. Custom kinds can be written in several versions."""
    same_version = resource in CUSTOM or patch.get("apiVersion", plain["apiVersion"]) == plain["apiVersion"]
    if patch.get("kind", plain["kind"]) != plain["kind"] or not same_version:
        problem = f"is for {plain['apiVersion']} {plain['kind']}"
        raise Invalid(f"{resource[1]}: the patch {problem}", (Fault("patch", problem),))
