"""Decodes Kubernetes objects from JSON or plain data into the model, and encodes them.

The API client and the simulator both decode here, so they see equal values. An object that does not fit its model
becomes an `UnreadableObject` with the path, the reason, and the fields that could be read; it is never dropped, and
never treated as complete.

`Salvage` reads an unreadable object field by field. A field that cannot be converted keeps its default, and its path is
recorded in `lost`, so that callers can distinguish "not set" from "not readable". List items and map entries are
converted separately, too. The result only limits the effect of the fault; no decision acts on it.

`parts` splits a JSON text into its members without decoding them. The decoder fails on a whole list if one object in
it is nested beyond the recursion limit. `parts` only counts brackets, in one pass without recursion, so the other
objects can be decoded. It runs only after the decoder failed, and needs well-formed JSON.

`Interner` shares equal parts between pods: replicas differ in name, node and timestamps, but their containers,
tolerations, affinities, labels and owners are equal. It replaces the parts of a newly decoded pod by equal parts of
earlier ones, which saves memory and changes no value.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import msgspec

from dovetail.manifest.nodepool_annotations import has_field_annotations, locate_fault, merge_annotations
from dovetail.model.duration import Delay, Duration
from dovetail.model.kinds import LEASE, Kind
from dovetail.model.kube_object import Fault, KubeObject, UnreadableObject
from dovetail.model.nodepool import NodePool
from dovetail.model.percentage import Percentage
from dovetail.model.pod import Pod
from dovetail.model.resources import Quantity

_MAX_PARTS = 1 << 15  # in the table; beyond that it is emptied, and the pods keep their parts
_replace = msgspec.structs.force_setattr


class Interner:
    """Shares equal parts of pods. Parts are looked up by value, unhashable ones by their encoding."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._encoder = msgspec.msgpack.Encoder(enc_hook=encode_hook)

    def apply(self, value: KubeObject) -> None:
        """Replace parts of a newly decoded pod by equal known parts. Other kinds are too few to matter."""
        if not isinstance(value, Pod):
            return
        if len(self._known) > _MAX_PARTS:
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
"""The exceptions of decoding: errors of msgspec and UTF-8 are ValueErrors; deep nesting is a RecursionError."""
MAX_SPLIT_BYTES = 64 * 1024 * 1024
"""In bytes. Splitting a longer text would block the event loop for seconds."""
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
UNDECODED = object()
"""Placeholder for a value that cannot be decoded. It fits no type."""


def no_json(error: Exception) -> bool:
    """Whether the error means that the text is not JSON: truncated or damaged."""
    return type(error) is msgspec.DecodeError


def parts(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield name and text of each member of an object, or of each element of an array with empty names.

    Raises ValueError if the text is neither, or ends before its last bracket.
    """
    if len(text) > MAX_SPLIT_BYTES or text.lstrip()[:1] not in (b"{", b"["):
        raise ValueError("is not a JSON object or array, or is too large to be split")
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
    raise ValueError("is truncated")


def loose(text: bytes, depth: int = 3) -> Any:
    """Decode a text that cannot be decoded as a whole; parts that cannot be decoded are `UNDECODED`.

    Members of objects are decoded separately, down to the depth of names, labels and `spec.nodeName`.
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
"""The exceptions of converting a value that does not fit its type."""
Convert = Callable[[Any, Any], Any]
_LOST = object()


class Salvage:
    """Converts the readable fields; `lost` has the JSON paths of the others."""

    def __init__(self, convert: Convert) -> None:
        self._convert = convert
        self.lost: list[str] = []

    def read(self, model: type[KubeObject], data: object) -> KubeObject:
        """The object without the fields that cannot be converted."""
        found: Any = self._struct(model, data, "") if isinstance(data, Mapping) else _LOST
        if isinstance(found, KubeObject):
            return found
        self.lost.append("")
        return KubeObject()

    def _value(self, type_: Any, data: Any, path: str) -> Any:
        try:
            return self._convert(data, type_)
        except UNFIT:
            found = self._parts(type_, data, path)
        if found is _LOST:
            self.lost.append(path)
        return found

    def _parts(self, type_: Any, data: Any, path: str) -> Any:
        """The readable entries of a value that does not fit as a whole."""
        inner = _without_none(type_)
        origin, arguments = get_origin(inner), get_args(inner)
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and isinstance(data, Mapping):
            return self._struct(inner, data, path)
        if origin is tuple and isinstance(data, list):
            read = [self._value(arguments[0], each, f"{path}[{index}]") for index, each in enumerate(data)]
            return tuple(each for each in read if each is not _LOST)
        if origin is Mapping and isinstance(data, Mapping):
            entries = {name: self._value(arguments[1], each, f"{path}.{name}") for name, each in data.items()}
            return {name: each for name, each in entries.items() if isinstance(name, str) and each is not _LOST}
        return _LOST

    def _struct(self, type_: type[msgspec.Struct], data: Mapping[str, Any], path: str) -> Any:
        read = {
            field.name: self._value(field.type, data[field.encode_name], f"{path}.{field.encode_name}".lstrip("."))
            for field in msgspec.structs.fields(type_)
            if field.encode_name in data
        }
        try:
            return type_(**{name: each for name, each in read.items() if each is not _LOST})
        except UNFIT:  # a required field is missing, or the fields contradict each other
            return _LOST


def _without_none(type_: Any) -> Any:
    if get_origin(type_) not in (Union, UnionType):
        return type_
    others = [each for each in get_args(type_) if each is not NoneType]
    return others[0] if len(others) == 1 else type_


T = TypeVar("T", bound=KubeObject)


def decode_hook(type_: type, value: Any) -> Any:
    """Decode the custom types of the model."""
    if type_ is Quantity:
        return Quantity.of(value)
    if type_ is Duration:
        return Duration.parse(_text(value))
    if type_ is Delay:
        return Delay.parse(_text(value))
    if type_ is Percentage:
        return Percentage.parse(_text(value))
    if type_ is object:
        return value
    raise NotImplementedError(f"no decoder for {type_!r}")


def encode_hook(value: Any) -> Any:
    """Encode the custom types of the model."""
    if isinstance(value, Quantity | Duration | Delay | Percentage):
        return str(value)
    raise NotImplementedError(f"no encoder for {type(value)!r}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text such as 30m, got {value!r}")  # noqa: TRY004 - msgspec reports ValueError with the path
    return value


@cache
def decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """The cached decoder of a type."""
    return msgspec.json.Decoder(type_, dec_hook=decode_hook)


def decode(kind: Kind[T], data: bytes | memoryview | msgspec.Raw) -> T | UnreadableObject:
    """Decode one object from JSON. Raises `UNDECODABLE` if it is not JSON, or if its name cannot be read."""
    try:
        value = cast("T", decoder(kind.model).decode(data))
    except UNFIT as error:
        if no_json(error):
            raise
        unreadable = _unreadable(kind, loose(bytes(data)), error)
        if not unreadable.metadata.name:
            raise ValueError("has no name") from error
        return unreadable
    if isinstance(value, NodePool) and has_field_annotations(value.metadata.annotations):
        return from_plain(kind, loose(bytes(data)))
    return value


def from_plain(kind: Kind[T], data: Mapping[str, Any]) -> T | UnreadableObject:
    """Convert one object from dicts and lists, as YAML and the simulator have it.

    The annotations of a NodePool that spell fields are merged into it; if that fails, the NodePool is unreadable.
    """
    faults: tuple[Fault, ...] = ()
    if issubclass(kind.model, NodePool):
        data, faults = merge_annotations(data, convert)
    try:
        value = cast("T", convert(data, kind.model))
    except UNFIT as error:
        found = _unreadable(kind, data, error)
        located = (locate_fault(fault, data) for fault in found.faults)
        return msgspec.structs.replace(found, faults=(*faults, *located))
    if not faults:
        return value
    return UnreadableObject(metadata=value.metadata, faults=faults, partial=value, lost=("spec",))


def convert(data: Any, type_: Any) -> Any:
    """Convert plain data to a type of the model. Raises `UNFIT`."""
    return msgspec.convert(data, type_, dec_hook=decode_hook)


def _unreadable(kind: Kind[Any], data: object, error: Exception) -> UnreadableObject:
    salvage = Salvage(convert)
    partial = salvage.read(kind.model, data)
    place, problem = place_of(error)
    faults = (Fault(place or "$", problem),)
    return UnreadableObject(metadata=partial.metadata, faults=faults, partial=partial, lost=tuple(salvage.lost))


def to_plain(kind: Kind[T], value: T) -> dict[str, Any]:
    """The object as dicts and lists, with apiVersion and kind."""
    body = plain(value)
    if kind == LEASE:
        spell_micro_times(body)
    return {"apiVersion": kind.api_version, "kind": kind.name, **body}


def spell_micro_times(lease: dict[str, Any]) -> None:
    """Write the times of a Lease with six decimals, as MicroTime of the API server requires."""
    spec = lease.get("spec")
    if not isinstance(spec, dict):
        return
    for name in ("acquireTime", "renewTime"):
        text = spec.get(name)
        if isinstance(text, str) and text.endswith("Z") and "." not in text:
            spec[name] = f"{text.removesuffix('Z')}.000000Z"


def plain(value: object) -> Any:
    """Any model value as dicts and lists of plain JSON; times are RFC 3339 text."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=encode_hook))


def ordered(value: object) -> Any:
    """Like `plain`, with sorted keys: equal values give equal text."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=encode_hook, order="deterministic"))


def place_of(error: Exception) -> tuple[str, str]:
    """The path of a conversion error (empty: the whole value), and the problem."""
    problem, _, place = str(error).partition(" - at `")
    place = place.rstrip("`").removeprefix("$").removeprefix(".")
    if missing := _MISSING.fullmatch(problem):
        return f"{place}.{missing[1]}" if place else missing[1], "is required"
    if problem == "Invalid RFC3339 encoded datetime":
        return place, f"must be {_TYPES['datetime']}"
    return place, _MISMATCH.sub(_worded, problem)


_MISSING = re.compile(r"Object missing required field `([^`]+)`")
_MISMATCH = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`)?")
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "datetime": "a time such as 2026-01-05T12:00:00Z",
    "null": "empty",
}


def _worded(mismatch: re.Match[str]) -> str:
    """Word a mismatch of types for people: `must be a whole number or text, not a list`."""
    allowed = [_TYPES.get(each, each) for each in mismatch[1].split(" | ") if each != "null"]
    got = mismatch[2]
    return f"must be {' or '.join(allowed)}" + (f", not {_TYPES.get(got, got)}" if got else "")
