"""Fields a schema does not know: the API server drops them without a word, so they are named here with a guess.

The guess is a field of the same mapping that is spelled almost alike, or the place where a field of this name belongs.
"""

from collections.abc import Iterator
from difflib import get_close_matches

from dovetail.manifest.schema import Schema
from dovetail.manifest.schema_check import SchemaFindings, join
from dovetail.model.kube_object import Fault

DROPPED = "is not a field here and would be dropped"


def unknown_fields(found: SchemaFindings, schema: Schema) -> Iterator[Fault]:
    """A warning for each."""
    for path, name, parent in found.unknown:
        yield Fault(join(path, name), DROPPED, None, _hint(name, path, parent, schema))


def _hint(name: str, path: str, parent: Schema, schema: Schema) -> str:
    siblings = parent.get("properties", {})
    folded = {sibling.lower(): sibling for sibling in siblings}
    elsewhere = [place for place in places_of(name, schema) if place != path]
    if elsewhere:
        return f"it belongs in {elsewhere[0]}"
    near = get_close_matches(name.lower(), folded, n=1, cutoff=0.7)
    near += [sibling for sibling in folded if name.lower().startswith(sibling)]
    if near:
        return f"did you mean {folded[near[0]]}?"
    return f"known here: {', '.join(siblings)}" if siblings else "remove it"


def places_of(name: str, schema: Schema, path: str = "") -> list[str]:
    """The mappings outside status that have a field of this name, the shallowest first."""
    found = []
    for each, inner in schema.get("properties", {}).items():
        if each == name and path:
            found.append(path)
        if each not in ("status", "metadata") or path:
            found.extend(places_of(name, inner, join(path, each)))
    for inner, suffix in ((schema.get("items"), "[]"), (schema.get("additionalProperties"), ".*")):
        if inner is not None:
            found.extend(places_of(name, inner, path + suffix))
    return sorted(found, key=lambda place: (place.count("."), place))
