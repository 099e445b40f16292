"""One copy of what many pods have in common.

Replicas differ in name, node and instants; their containers, tolerations, affinities, labels and owners are equal. A
pod just decoded, which nobody else has seen yet, gets the parts of its earlier twin. Values stay equal to what was
decoded, spelling included; only memory changes.

Bytes, or plain data, to model values and back.

The real adapter and the simulated world decode through here, so both see the same values. An object that does not fit
its model, or cannot be decoded at all, becomes an `UnreadableObject` with the path and the reason, and with what can be
read of it; it is never dropped, and never taken for a whole one.

What can still be read of an object that does not fit its model.

Fields are converted one by one. A field that cannot be converted keeps its default and its path is noted as lost, so a
caller can tell "not set" from "not readable". Entries of lists and mappings are converted separately as well: one bad
entry does not lose the others. The result only serves to limit what the object's fault affects; nothing acts on it.

Finds the parts of a JSON text without reading them, at any depth of nesting.

The decoder gives up on a text as a whole when something in it is nested beyond the limit of recursion, so that one such
object would lose the list it is part of. This module cuts a text into its members or elements by brackets alone, in one
pass without recursion: what is good can be decoded, and what is bad still has its name. It is slow, used only after the
decoder has failed, and not meant for text that is no JSON: where a bracket or quote is missing, parts run together.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import msgspec

from dovetail.model.duration import Delay, Duration
from dovetail.model.kinds import LEASE, Kind
from dovetail.model.kube_object import Fault, KubeObject, UnreadableObject
from dovetail.model.pod import Pod
from dovetail.model.resources import Quantity

_ROOM = 1 << 15  # parts remembered; beyond, the table starts anew and the old parts live on in their pods
_replace = msgspec.structs.force_setattr


class Interner:
    """Remembers parts of pods by what they say."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._encoder = msgspec.msgpack.Encoder(enc_hook=encode_hook)

    def apply(self, value: KubeObject) -> None:
        """Give an object just decoded the parts already known. Kinds other than pods are too few to matter."""
        if not isinstance(value, Pod):
            return
        if len(self._known) > _ROOM:
            self._known = {}
        self._share_mappings(value.metadata, "labels", "annotations")
        self._share_mappings(value.spec, "node_selector")
        self._share_values(value.metadata, "namespace", "owner_references")
        self._share_values(value.spec, "tolerations")
        self._share_encoded(value.spec, "containers", "init_containers", "affinity", "topology_spread_constraints")
        for condition in value.status.conditions:
            self._share_values(condition, "type", "status")

    def _share_values(self, holder: msgspec.Struct, *names: str) -> None:
        for name in names:
            part = getattr(holder, name)
            if part:
                _replace(holder, name, self._known.setdefault(part, part))

    def _share_mappings(self, holder: msgspec.Struct, *names: str) -> None:
        for name in names:
            part: Mapping[str, str] = getattr(holder, name)
            if part:
                _replace(holder, name, self._known.setdefault(tuple(part.items()), part))

    def _share_encoded(self, holder: msgspec.Struct, *names: str) -> None:
        for name in names:
            part = getattr(holder, name)
            if part:
                _replace(holder, name, self._known.setdefault((name, self._encoder.encode(part)), part))


UNDECODABLE = (ValueError, RecursionError)
"""What decoding may raise: errors of msgspec and bad UTF-8 are ValueErrors; nesting too deep is a RecursionError."""
LONGEST = 64 * 1024 * 1024
"""Bytes. A longer text would hold up everything else for more than a few seconds."""
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
UNDECODED = object()
"""In place of a value that cannot be decoded. It fits no type."""


def no_json(error: Exception) -> bool:
    """Whether a text could not be decoded because it is no JSON: cut or mangled, as may be what surrounds it."""
    return type(error) is msgspec.DecodeError


def parts(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and text of each member of an object, or of each element of an array, where names are empty.

    ValueError if the text is neither, or ends before its last bracket.
    """
    if len(text) > LONGEST or text.lstrip()[:1] not in (b"{", b"["):
        raise ValueError("is not a JSON object or array of a size that can be taken apart")
    depth, name, start = 0, b"", 0
    for token in _TOKENS.finditer(text):
        mark = token[0][:1]
        if mark in b"{[":
            depth += 1
            start = token.end() if depth == 1 else start
        elif mark in b"}]":
            depth -= 1
        if depth == 0 or (depth == 1 and mark == b","):
            if part := text[start : token.start()].strip():
                yield name, part
            name, start = b"", token.end()
        elif depth == 1 and mark == b":":
            name, start = text[start : token.start()].strip().strip(b'"'), token.end()
        if depth == 0:
            return
    raise ValueError("is cut off")


def loose(text: bytes, depth: int = 3) -> Any:
    """The value of a text that cannot be decoded as a whole; what cannot be decoded in it is `UNDECODED`.

    Members of objects are tried one by one, down to a depth at which names, labels and `spec.nodeName` are found.
    """
    try:
        return msgspec.json.decode(text)
    except UNDECODABLE:
        if depth == 0 or text.lstrip()[:1] != b"{":
            return UNDECODED
    try:
        return {name.decode(): loose(part, depth - 1) for name, part in parts(text)}
    except UNDECODABLE:
        return UNDECODED


UNFIT = (msgspec.ValidationError, ValueError, TypeError, ArithmeticError, RecursionError)
"""What converting a value that does not fit its type may raise."""
Convert = Callable[[Any, Any], Any]
_LOST = object()


class Salvage:
    """Converts what it can; `lost` has the paths of what it could not, as they are spelled on the wire."""

    def __init__(self, convert: Convert) -> None:
        self._convert = convert
        self.lost: list[str] = []

    def read(self, model: type[KubeObject], data: object) -> KubeObject:
        """The object without the fields that cannot be read."""
        found: Any = self._struct(model, data, "") if isinstance(data, Mapping) else _LOST
        if isinstance(found, KubeObject):
            return found
        self.lost.append("")
        return KubeObject()

    def _value(self, wanted: Any, data: Any, path: str) -> Any:
        try:
            return self._convert(data, wanted)
        except UNFIT:
            found = self._parts(wanted, data, path)
        if found is _LOST:
            self.lost.append(path)
        return found

    def _parts(self, wanted: Any, data: Any, path: str) -> Any:
        """What of a value that does not fit can be read entry by entry."""
        inner = _without_none(wanted)
        origin, arguments = get_origin(inner), get_args(inner)
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and isinstance(data, Mapping):
            return self._struct(inner, data, path)
        if origin is tuple and isinstance(data, list):
            read = [self._value(arguments[0], each, f"{path}[{at}]") for at, each in enumerate(data)]
            return tuple(each for each in read if each is not _LOST)
        if origin is Mapping and isinstance(data, Mapping):
            entries = {name: self._value(arguments[1], each, f"{path}.{name}") for name, each in data.items()}
            return {name: each for name, each in entries.items() if isinstance(name, str) and each is not _LOST}
        return _LOST

    def _struct(self, wanted: type[msgspec.Struct], data: Mapping[str, Any], path: str) -> Any:
        read = {
            field.name: self._value(field.type, data[field.encode_name], f"{path}.{field.encode_name}".lstrip("."))
            for field in msgspec.structs.fields(wanted)
            if field.encode_name in data
        }
        try:
            return wanted(**{name: each for name, each in read.items() if each is not _LOST})
        except UNFIT:  # a required field is missing, or the fields do not go together
            return _LOST


def _without_none(wanted: Any) -> Any:
    if get_origin(wanted) not in (Union, UnionType):
        return wanted
    left = [each for each in get_args(wanted) if each is not NoneType]
    return left[0] if len(left) == 1 else wanted


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
