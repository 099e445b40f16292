"""What remains of a document without its faulty parts, so that the rest can be checked too.

A fault in a list costs the item that it is in; any other fault costs the field at its path. A field that contains
others, such as `spec`, is kept if the document can be read with it: then only a rule about it is broken.

`SoundParts.as_written` translates findings about the rest back to the positions in the document, and drops those that
depend on a removed part.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from dovetail.model.kube_object import Fault, KubeObject, UnreadableObject

Plain = Mapping[str, Any]
Decode = Callable[[Plain], KubeObject | UnreadableObject]
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[]+)")
_REMOVED = object()
_TRUE_WITHOUT = frozenset({"spec.template.spec.requirements", "spec.template.metadata.labels"})
"""Fields whose findings stay true without some entries: each entry only narrows what the others allow."""


@dataclass(frozen=True, slots=True)
class SoundParts:
    """A document without its faulty parts, and the object that it becomes."""

    document: Plain
    value: KubeObject | UnreadableObject
    removed: tuple[str, ...]
    """The paths of the removed parts."""
    positions: Mapping[str, list[int]]
    """By path of a list that lost items: the position that each of the others has in the manifest."""

    def as_written(self, findings: Iterable[Fault]) -> Iterator[Fault]:
        """The findings that do not depend on a removed part, with the paths of the manifest."""
        for finding in findings:
            path = self._written_path(finding.path)
            if not any(_inside(path, gone) or self._depends(path, gone) for gone in self.removed):
                yield finding._replace(path=path)

    def _depends(self, path: str, gone: str) -> bool:
        return _inside(gone, path) and path not in _TRUE_WITHOUT

    def _written_path(self, path: str) -> str:
        for place, kept in self.positions.items():
            found = re.match(rf"{re.escape(place)}\[(\d+)\]", path)
            if found:
                return f"{place}[{kept[int(found[1])]}]{path[found.end() :]}"
        return path


def sound_parts(document: Plain, faults: Iterable[Fault], decode: Decode) -> SoundParts:
    """Remove what has faults: as little as makes the document readable."""
    paths = sorted({fault.path for fault in faults})
    small = [path for path in paths if not _has_fields(document, path)]
    found = _without(document, small, decode)
    if isinstance(found.value, UnreadableObject) and len(small) < len(paths):
        return _without(document, paths, decode)
    return found


def _inside(path: str, place: str) -> bool:
    rest = path.removeprefix(place)
    return path.startswith(place) and rest[:1] in ("", ".", "[")


def _steps(path: str) -> list[str]:
    return [found[1] if found[2] is None else found[2] for found in _STEP.finditer(path)]


def _has_fields(document: Plain, path: str) -> bool:
    """Whether a mapping or list is at the path, and no list around it."""
    value: Any = document
    for step in _steps(path):
        if not isinstance(value, dict):
            return False
        value = value.get(step)
    return isinstance(value, dict | list)


def _without(document: Plain, paths: Iterable[str], decode: Decode) -> SoundParts:
    copy = deepcopy(document)
    removed = tuple(_remove(copy, path) for path in paths)
    positions: dict[str, list[int]] = {}
    for place in {path.rpartition("[")[0] for path in removed if path.endswith("]")}:
        _compact(copy, place, positions)
    return SoundParts(copy, decode(copy), removed, positions)


def _remove(document: Any, path: str) -> str:
    """Remove the part at the path, or the list item that it is in. Returns the path of what was removed."""
    value = document
    for found in (steps := list(_STEP.finditer(path))):
        step = found[1] if found[2] is None else found[2]
        if isinstance(value, list):
            if step.isdigit() and int(step) < len(value):
                value[int(step)] = _REMOVED
            return path[: found.end()]
        if not isinstance(value, dict):
            return path
        if found is steps[-1]:
            value.pop(step, None)
        else:
            value = value.get(step)
    return path


def _compact(document: Any, place: str, positions: dict[str, list[int]]) -> None:
    """Take the removed items out of the list at `place`."""
    items: Any = document
    for step in _steps(place):
        items = items.get(step) if isinstance(items, dict) else None
    if isinstance(items, list):
        positions[place] = [index for index, item in enumerate(items) if item is not _REMOVED]
        items[:] = [item for item in items if item is not _REMOVED]
