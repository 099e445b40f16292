"""Decodes stored objects into model values, and reuses the decoded parts of the previous version.

A write changes few fields of an object, and stored JSON is never changed in place. A field that is the identical JSON
object as in the previous version therefore decodes to the same value, which is taken from there. The result equals
decoding the whole object; the cost is proportional to what changed.
"""

from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from dovetail.manifest import codec
from dovetail.manifest.codec import Interner
from dovetail.manifest.nodepool_annotations import has_field_annotations
from dovetail.model.kinds import NODE_POOL, Kind
from dovetail.model.kube_object import KubeObject, ObjectMeta, UnreadableObject
from dovetail.model.pod import PodSpec
from dovetail.sim.kubernetes.merge_patch import Plain

T = TypeVar("T", bound=KubeObject)


class PreviousVersion(NamedTuple):
    """An earlier version of an object, with the values decoded from it by model class."""

    plain: Plain
    values: dict[type, Any]
    same_meta: bool = False
    """Whether only `resourceVersion` has changed in the metadata since."""


class DecodeCache:
    """Decodes the objects of one simulated cluster."""

    def __init__(self) -> None:
        self._interner = Interner()

    def read(self, kind: Kind[T], plain: Plain, previous: PreviousVersion | None) -> T | UnreadableObject:
        """Decode the object; `previous` is the last version of it that was decoded, if any."""
        known: T | UnreadableObject | None = previous.values.get(kind.model) if previous is not None else None
        annotations = plain["metadata"].get("annotations")
        if (
            previous is None
            or known is None
            or isinstance(known, UnreadableObject)
            or _merged(kind, annotations, known)
        ):
            value = codec.from_plain(kind, plain)
            if not isinstance(value, UnreadableObject):
                self._interner.apply(value)
            return value
        try:
            return self._decode_changed(kind.model, plain, previous, known)
        except (msgspec.ValidationError, ValueError):
            return codec.from_plain(kind, plain)  # reports the path of the fault

    def _decode_changed(self, model: type[T], plain: Plain, previous: PreviousVersion, known: T) -> T:
        before = previous.plain
        parts: dict[str, Any] = {}
        decoded = False
        for name, wire, wanted in _parts(model):
            if wire not in plain:
                continue
            part, past = plain[wire], before.get(wire)
            if part is past:
                parts[name] = getattr(known, name)
            elif wanted is ObjectMeta:
                parts[name] = (
                    _replaced(known.metadata, resource_version=part["resourceVersion"])
                    if previous.same_meta
                    else _metadata(part, before["metadata"], known.metadata)
                )
            elif wanted is PodSpec and _bound(part, past):
                parts[name] = _replaced(getattr(known, name), node_name=part["nodeName"])
            else:
                parts[name] = msgspec.convert(part, wanted, dec_hook=codec.decode_hook)
                decoded = decoded or name == "spec"
        value = model(**parts)
        if decoded:
            self._interner.apply(value)
        return value


def _merged(kind: Kind[Any], annotations: object, known: KubeObject) -> bool:
    """Whether this or the last version of a NodePool has annotations that are merged into its spec."""
    return kind == NODE_POOL and (
        has_field_annotations(annotations) or has_field_annotations(known.metadata.annotations)
    )


def _changed(plain: Plain, before: Plain) -> set[str]:
    """The fields whose values are not the identical objects as before."""
    changed = {name for name, value in plain.items() if value is not before.get(name, _ABSENT)}
    return changed if before.keys() <= plain.keys() else changed | (before.keys() - plain.keys())


def _bound(spec: Plain, before: Plain | None) -> bool:
    """Whether `nodeName` is the only field of a pod spec that changed."""
    return before is not None and _changed(spec, before) == _NODE_NAME and isinstance(spec.get("nodeName"), str)


def _metadata(plain: Plain, before: Plain, known: ObjectMeta) -> ObjectMeta:
    """Decode metadata; in most writes only the resource version differs."""
    changed = _changed(plain, before)
    version = plain.get("resourceVersion")
    if changed <= _VERSION and isinstance(version, str):
        return _replaced(known, resource_version=version)
    read = msgspec.convert(plain, ObjectMeta)
    for name, wire in _SHARED:
        if wire in plain and wire not in changed:
            msgspec.structs.force_setattr(read, name, getattr(known, name))
    return read


_replaced = msgspec.structs.replace
_ABSENT = object()
_NODE_NAME = frozenset({"nodeName"})
_VERSION = frozenset({"resourceVersion"})
_SHARED = (("labels", "labels"), ("annotations", "annotations"), ("owner_references", "ownerReferences"))


@cache
def _parts(model: type[KubeObject]) -> tuple[tuple[str, str, Any], ...]:
    """The fields of a model: attribute name, JSON name and type."""
    return tuple((field.name, field.encode_name, field.type) for field in msgspec.structs.fields(model))
