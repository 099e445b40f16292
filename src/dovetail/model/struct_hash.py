"""Hashes values bit for bit as the Go library `hashstructure` (format 2) hashes structs.

Karpenter stamps NodePools, node classes and NodeClaims with such hashes, so equal values are needed on both sides of a
hand-over. The options are Karpenter's: fields with their zero value are left out, and slices are sets.

- Text and numbers: 64-bit FNV-1 of their bytes, numbers in little endian, booleans in one byte.
- Maps: XOR of the hashes of all entries, hashed once more.
- Slices: XOR of the hashes of all items. Equal items cancel out, as they do in Go.
- Structs: start with the hash of the type's name; each field is combined by XOR and the result hashed again. The order
  of the fields counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class GoStruct:
    """A struct: the name of its type, and its fields in the order of their declaration. None is a zero value."""

    name: str
    fields: Mapping[str, Union["GoValue", None]]


class Int32(int):
    """An int32; an int is an int64."""

    __slots__ = ()


GoValue = str | int | GoStruct | Mapping[str, str] | Mapping[str, GoStruct] | Sequence[str] | Sequence[GoStruct]


def struct_hash(value: GoValue) -> int:
    """Return the hash of a value."""
    if isinstance(value, str):
        return _fnv1(value.encode())
    if isinstance(value, int):
        size = 1 if isinstance(value, bool) else 4 if isinstance(value, Int32) else 8
        return _fnv1((value & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
    if isinstance(value, GoStruct):
        return _hash_fields(value)
    if isinstance(value, Mapping):
        combined = 0
        for key, each in value.items():
            combined ^= _pair(struct_hash(key), struct_hash(each))
        return _again(combined)
    combined = 0
    for item in value:
        combined ^= struct_hash(item)
    return combined


def _hash_fields(struct: GoStruct) -> int:
    combined = struct_hash(struct.name)
    for name, value in struct.fields.items():
        if value is not None:
            combined = _again(combined ^ _pair(struct_hash(name), struct_hash(value)))
    return combined


def _pair(first: int, second: int) -> int:
    return _fnv1(first.to_bytes(8, "little") + second.to_bytes(8, "little"))


def _again(value: int) -> int:
    return _fnv1(value.to_bytes(8, "little"))


def _fnv1(data: bytes) -> int:
    found = _OFFSET
    for byte in data:
        found = ((found * _PRIME) & _MASK) ^ byte
    return found
