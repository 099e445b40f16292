"""JSON merge patch (RFC 7386) on immutable objects.

The result shares every unpatched part with the original, so that many versions of one object need little memory and
comparing parts by identity finds what changed.
"""

from collections.abc import Mapping
from typing import Any

Plain = dict[str, Any]
"""A Kubernetes object as decoded JSON. It is immutable once stored."""


_OBJECTS = (dict, Mapping)  # isinstance is fast for a dict and slow for an abstract Mapping
_LEAVES = frozenset({str, bool, int, float, list})


def merge_patch(target: object, patch: object) -> Any:
    """The target with the patch applied: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, _OBJECTS):
        return patch
    merged: Plain = dict(target) if isinstance(target, _OBJECTS) else {}
    for name, value in patch.items():
        if type(value) in _LEAVES:  # the common case, without the slow isinstance check
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
