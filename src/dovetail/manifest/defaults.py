"""What a schema fills in: the same defaults the API server writes for the version a document is in.

Nothing is validated here. Fields the schema does not know are kept; the model skips them.
"""

from copy import deepcopy
from typing import Any

from dovetail.manifest.schema import Schema


def with_defaults(schema: Schema, value: Any) -> Any:
    """A copy of the document with its defaults filled in, null fields dropped and whole numbers made integers."""
    if isinstance(value, dict):
        return _mapping(schema, value)
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), each) for each in value]
    if schema.get("type") == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _mapping(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    filled = {name: each for name, each in value.items() if each is not None}
    for name, each in properties.items():
        if name not in filled and "default" in each:
            filled[name] = deepcopy(each["default"])
    return {name: with_defaults(properties.get(name, rest), each) for name, each in filled.items()}


def pruned(schema: Schema, value: Any) -> Any:
    """The document without fields the schema does not know, as the API server stores it. Shares what it keeps."""
    if isinstance(value, list):
        items = schema.get("items", {})
        return [pruned(items, each) for each in value] if items.get("type") in ("object", "array") else value
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    properties, rest = schema.get("properties"), schema.get("additionalProperties")
    if properties is None:
        return {name: pruned(rest, each) for name, each in value.items()} if isinstance(rest, dict) else value
    return {name: pruned(properties[name], each) for name, each in value.items() if name in properties}
