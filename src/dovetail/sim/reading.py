"""Records as values of the model: what a version shares with the one before it is read once.

A write leaves most of an object as it was, and plain data is never changed in place. So a part that is the same object
as in the version before means the same value as before. What comes out is equal to reading the whole anew.
"""

from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from dovetail.manifest import codec
from dovetail.manifest.sharing import Sharing
from dovetail.model.kinds import Kind
from dovetail.model.wire import KubeObject, ObjectMeta, Unreadable
from dovetail.sim.patching import Plain

T = TypeVar("T", bound=KubeObject)


class Earlier(NamedTuple):
    """A version of an object from before, with what was read out of it, by model."""

    plain: Plain
    values: dict[type, Any]


class Reading:
    """Reads the objects of one world."""

    def __init__(self) -> None:
        self._sharing = Sharing()

    def read(self, kind: Kind[T], plain: Plain, earlier: Earlier | None) -> T | Unreadable:
        """The object as a value."""
        known = earlier.values.get(kind.model) if earlier is not None else None
        if earlier is None or known is None or isinstance(known, Unreadable):
            value = codec.from_plain(kind, plain)
            if not isinstance(value, Unreadable):
                self._sharing.apply(value)
            return value
        try:
            return cast("T", self._renewed(kind.model, plain, earlier.plain, known))
        except (msgspec.ValidationError, ValueError):
            return codec.from_plain(kind, plain)  # which says where

    def _renewed(self, model: type[T], plain: Plain, before: Plain, known: T) -> T:
        parts: dict[str, Any] = {}
        for name, wire, wanted in _parts(model):
            if wire not in plain:
                continue
            part = plain[wire]
            if part is before.get(wire):
                parts[name] = getattr(known, name)
            elif wanted is ObjectMeta:
                parts[name] = _metadata(part, before["metadata"], known.metadata)
            else:
                parts[name] = msgspec.convert(part, wanted, dec_hook=codec.decode_hook)
        value = model(**parts)
        if plain.get("spec") is not before.get("spec"):
            self._sharing.apply(value)
        return value


def _metadata(plain: Plain, before: Plain, known: ObjectMeta) -> ObjectMeta:
    """Most of the time nothing differs but the version."""
    changed = {name for name in plain.keys() | before.keys() if plain.get(name) is not before.get(name)}
    version = plain.get("resourceVersion")
    if changed <= _VERSION and isinstance(version, str):
        return msgspec.structs.replace(known, resource_version=version)
    read = msgspec.convert(plain, ObjectMeta)
    for name, wire in _SHARED:
        if wire in plain and wire not in changed:
            msgspec.structs.force_setattr(read, name, getattr(known, name))
    return read


_VERSION = frozenset({"resourceVersion"})
_SHARED = (("labels", "labels"), ("annotations", "annotations"), ("owner_references", "ownerReferences"))


@cache
def _parts(model: type[KubeObject]) -> tuple[tuple[str, str, Any], ...]:
    """The fields of a model, as they are called here and on the wire, and what they hold."""
    return tuple((field.name, field.encode_name, field.type) for field in msgspec.structs.fields(model))
