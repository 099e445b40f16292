"""Bytes, or plain data, to model values and back.

The real adapter and the simulated world decode through here, so both see the same values. An object that does not fit
its model, or cannot be decoded at all, becomes an `UnreadableObject` with the path and the reason, and with what can be
read of it; it is never dropped, and never taken for a whole one.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from dovetail.manifest.json_parts import loose, no_json
from dovetail.manifest.salvage import UNFIT, Salvage
from dovetail.model.duration import Delay, Duration
from dovetail.model.kinds import LEASE, Kind
from dovetail.model.kube_object import Fault, KubeObject, UnreadableObject
from dovetail.model.quantity import Quantity

T = TypeVar("T", bound=KubeObject)


def decode_hook(wanted: type, value: Any) -> Any:
    """How the values that JSON has no word for are read."""
    if wanted is Quantity:
        return Quantity.of(value)
    if wanted is Duration:
        return Duration.parse(_text(value))
    if wanted is Delay:
        return Delay.parse(_text(value))
    if wanted is object:
        return value
    raise NotImplementedError(f"no decoder for {wanted!r}")


def encode_hook(value: Any) -> Any:
    """How they are written."""
    if isinstance(value, Quantity | Duration | Delay):
        return str(value)
    raise NotImplementedError(f"no encoder for {type(value)!r}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text such as 30m, got {value!r}")  # noqa: TRY004 - msgspec reports ValueError with the path
    return value


@cache
def decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """A decoder for one type, made once."""
    return msgspec.json.Decoder(wanted, dec_hook=decode_hook)


def decode(kind: Kind[T], data: bytes | memoryview | msgspec.Raw) -> T | UnreadableObject:
    """One object from JSON bytes; `UNDECODABLE` if it is no JSON, or if not even its name can be read."""
    try:
        return cast("T", decoder(kind.model).decode(data))
    except UNFIT as error:
        if no_json(error):
            raise
        bad = _unreadable(kind, loose(bytes(data)), error)
        if not bad.metadata.name:
            raise ValueError("has no name") from error
        return bad


def from_plain(kind: Kind[T], data: Mapping[str, Any]) -> T | UnreadableObject:
    """One object from dicts and lists, as YAML and the simulated world hold it."""
    try:
        return cast("T", _convert(data, kind.model))
    except UNFIT as error:
        return _unreadable(kind, data, error)


def _convert(data: Any, wanted: Any) -> Any:
    return msgspec.convert(data, wanted, dec_hook=decode_hook)


def _unreadable(kind: Kind[Any], data: object, error: Exception) -> UnreadableObject:
    salvage = Salvage(_convert)
    partial = salvage.read(kind.model, data)
    place, problem = place_of(error)
    faults = (Fault(place or "$", problem),)
    return UnreadableObject(metadata=partial.metadata, faults=faults, partial=partial, lost=tuple(salvage.lost))


def to_plain(kind: Kind[T], value: T) -> dict[str, Any]:
    """The object as dicts and lists, with its apiVersion and kind."""
    body = plain(value)
    if kind == LEASE:
        spell_micro_times(body)
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


def spell_micro_times(lease: dict[str, Any]) -> None:
    """The API server reads the instants of a Lease with six digits after the point, even for whole seconds."""
    spec = lease.get("spec")
    if not isinstance(spec, dict):
        return
    for name in ("acquireTime", "renewTime"):
        written = spec.get(name)
        if isinstance(written, str) and written.endswith("Z") and "." not in written:
            spec[name] = f"{written.removesuffix('Z')}.000000Z"


def plain(value: object) -> Any:
    """Any model value as dicts and lists of plain JSON, instants as RFC 3339 text."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=encode_hook))


def ordered(value: object) -> Any:
    """The same with every mapping in order of its keys: equal values make equal text."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=encode_hook, order="deterministic"))


def place_of(error: Exception) -> tuple[str, str]:
    """Where a value did not fit (empty: as a whole), and why."""
    problem, _, place = str(error).partition(" - at `")
    return place.rstrip("`").removeprefix("$").removeprefix("."), problem
