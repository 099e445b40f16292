"""What can still be read of an object that does not fit its model.

Fields are converted one by one. A field that cannot be converted keeps its default and its path is noted as lost, so a
caller can tell "not set" from "not readable". Entries of lists and mappings are converted separately as well: one bad
entry does not lose the others. The result only serves to limit what the object's fault affects; nothing acts on it.
"""

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from dovetail.model.kube_object import KubeObject

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
