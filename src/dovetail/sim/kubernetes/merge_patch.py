"""JSON merge patch (RFC 7386) on objects that nobody may change in place.

What the patch does not touch is shared with the original, so that many versions of one object cost little.
"""

from collections.abc import Mapping
from typing import Any

Plain = dict[str, Any]
"""An object as it stands on the wire. Treated as immutable once stored."""


_OBJECTS = (dict, Mapping)  # a dict is known at once
_LEAVES = frozenset({str, bool, int, float, list})


def merge_patch(target: object, patch: object) -> Any:
    """The target with the patch applied: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, _OBJECTS):
        return patch
    merged: Plain = dict(target) if isinstance(target, _OBJECTS) else {}
    for name, value in patch.items():
        if type(value) in _LEAVES:  # most of them, and to ask whether they are mappings takes long
            merged[name] = value
        elif value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def with_meta(plain: Plain, **fields: object) -> Plain:
    """The object with these metadata fields set; None removes a field."""
    meta = dict(plain.get("metadata") or {})
    for name, value in fields.items():
        if value is None:
            meta.pop(name, None)
        else:
            meta[name] = value
    return {**plain, "metadata": meta}
