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
