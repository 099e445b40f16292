"""Builds JSON Schemas (draft 7) for editors and for tools such as kubeconform, from the strict schemas of the kinds.

The structure is that of the CRD. What only the API server understands is left out: `x-kubernetes-*` keywords, and with
them the CEL rules. Objects reject unknown fields, so that an editor marks a misspelled field. `dovetail validate`
checks more than a schema can.

There is one schema for each kind and version, named as kubeconform looks for it (`GROUP/KIND_VERSION.json`), and one
for all of them, which selects by `apiVersion` and `kind` and accepts every other object.
"""

import json
from collections.abc import Mapping
from typing import Any

from dovetail.manifest.schema import KINDS, Schema, Scope, strict_schema_of

DRAFT = "http://json-schema.org/draft-07/schema#"


def editor_schemas() -> Mapping[str, str]:
    """The text of every schema by file name."""
    single = {
        f"{KINDS[scope].group}/{scope.kind.lower()}_{scope.version}.json": {"$schema": DRAFT, **kind_schema(scope)}
        for scope in KINDS
    }
    return {name: _text(schema) for name, schema in {**single, "dovetail.json": combined_schema()}.items()}


def kind_schema(scope: Scope) -> Schema:
    """The schema of one kind and version."""
    converted = _converted(strict_schema_of(scope))
    properties = {
        **converted["properties"],
        "apiVersion": {"const": _api_version(scope)},
        "kind": {"const": scope.kind},
    }
    properties["metadata"] = {**properties["metadata"], "additionalProperties": True}  # the API server's own fields
    required = ["apiVersion", "kind", "metadata", *converted.get("required", ())]
    return {**converted, "properties": properties, "required": list(dict.fromkeys(required))}


def combined_schema() -> Schema:
    """One schema for all kinds and versions; an object of another kind is valid."""
    definitions = {f"{scope.kind}_{scope.version}": kind_schema(scope) for scope in KINDS}
    choices = [
        {
            "if": {
                "properties": {"apiVersion": {"const": _api_version(scope)}, "kind": {"const": scope.kind}},
                "required": ["apiVersion", "kind"],
            },
            "then": {"$ref": f"#/definitions/{scope.kind}_{scope.version}"},
        }
        for scope in KINDS
    ]
    return {
        "$schema": DRAFT,
        "title": "Objects of Dovetail and Karpenter",
        "allOf": choices,
        "definitions": definitions,
    }


def _api_version(scope: Scope) -> str:
    return f"{KINDS[scope].group}/{scope.version}"


def _converted(schema: Schema) -> Schema:
    """An OpenAPI schema of a CRD as a JSON Schema."""
    result: Schema = {}
    for keyword, value in schema.items():
        if keyword.startswith("x-kubernetes-"):
            continue
        result[keyword] = _converted_value(keyword, value)
    if schema.get("type") == "object" and "properties" in schema and "additionalProperties" not in schema:
        open_ended = schema.get("x-kubernetes-preserve-unknown-fields", False)
        result |= {} if open_ended else {"additionalProperties": False}
    return result


def _converted_value(keyword: str, value: Any) -> Any:
    if keyword == "properties":
        return {name: _converted(each) for name, each in value.items()}
    if keyword in {"items", "additionalProperties", "not"} and isinstance(value, dict):
        return _converted(value)
    if keyword in {"anyOf", "allOf", "oneOf"}:
        return [_converted(each) for each in value]
    return value


def _text(schema: Schema) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
