"""Generates the API reference in Markdown from the schemas: for each kind a table of fields and a table of rules."""

from collections.abc import Iterator
from typing import Any

from dovetail.manifest.crd import RESOURCES
from dovetail.manifest.patterns import IN_WORDS
from dovetail.manifest.schema import KINDS, Schema, Scope, schema_of
from dovetail.model.annotated_fields import ANNOTATED_FIELDS

_INTRODUCTION = """\
# API reference

Generated from the types by `python -m dovetail.manifest.generate`; do not edit.

NodePools and NodeClaims are served as `karpenter.sh/v1` (stored) and `karpenter.sh/v1beta1`. Both have the same fields,
so nothing is lost whichever way an object is read; defaults and rules differ where the tables say so.
Fields under `status` are written by the controller.
"""

_ANNOTATIONS = """\
Karpenter's CRDs do not have these fields. The annotation has the same effect where the field is absent, on any CRDs.
If both are set and differ, the NodePool launches and disrupts nothing; `ValidationSucceeded` is False and names them.
"""


def reference() -> str:
    """The content of `docs/reference/api.md`."""
    parts = [_INTRODUCTION]
    for resource in RESOURCES:
        scopes = [scope for scope in KINDS if scope.kind == resource.kind.name]
        parts.append(f"\n## {resource.kind.name}\n\n{schema_of(scopes[0])['description']} ")
        parts.append(", ".join(f"`{resource.kind.group}/{scope.version}`" for scope in scopes) + "\n\n")
        parts.append("| field | type | about | limits | default |\n|---|---|---|---|---|\n")
        rows = {path: _row(path, schema, scopes) for path, schema, _ in _fields(schema_of(scopes[0]))}
        parts.extend(rows.values())
        parts.append(
            f"\n### Rules of {resource.kind.name}\n\n| at | version | rule |\n|---|---|---|\n" if _rules(scopes) else ""
        )
        parts.extend(f"| `{path}` | {versions} | {_cell(message)} |\n" for path, versions, message in _rules(scopes))
        parts.extend(_annotation_table() if resource.kind.name == "NodePool" else ())
    return "".join(parts)


def _annotation_table() -> Iterator[str]:
    """The annotations that spell fields."""
    yield f"\n### Annotations of NodePool\n\n{_ANNOTATIONS}\n| field | annotation | example |\n|---|---|---|\n"
    for field in ANNOTATED_FIELDS:
        yield f"| `{field.path}` | `{field.annotation}` | `{_cell(field.example)}` |\n"


def _fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Every field under spec and status, its schema, and whether it is required."""
    for name, inner in schema.get("properties", {}).items():
        if not path and name in ("apiVersion", "kind", "metadata"):
            continue
        field_path = f"{path}.{name}" if path else name
        yield field_path, inner, name in schema.get("required", ())
        if name != "genericPerActionControls":  # an alias of actionControls with the same fields
            yield from _fields(inner, field_path)
    for inner, suffix in ((schema.get("items"), "[]"), (schema.get("additionalProperties"), ".*")):
        if inner is not None:
            yield from _fields(inner, path + suffix)


def _row(path: str, schema: Schema, scopes: list[Scope]) -> str:
    required_in = [
        scope.version
        for scope in scopes
        for field_path, _, required in _fields(schema_of(scope))
        if field_path == path and required
    ]
    about = schema.get("description", "")
    if required_in:
        about += " **Required.**" if len(required_in) == len(scopes) else f" **Required in {', '.join(required_in)}.**"
    cells = (f"`{path}`", _type(schema), about, _limits(schema), _default(path, scopes))
    return f"| {' | '.join(map(_cell, cells))} |\n"


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    return str(schema["type"])


def _limits(schema: Schema) -> str:
    limits = []
    inner = schema.get("items") or schema.get("additionalProperties") or {}
    for each in (schema, inner):
        if "enum" in each:
            limits.append(", ".join(f"`{choice}`" for choice in each["enum"]))
        elif "pattern" in each:
            limits.append(IN_WORDS[each["pattern"]])
    for name, words in (
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minItems", "at least"),
        ("maxItems", "at most"),
    ):
        if name in schema:
            limits.append(f"{words} {schema[name]}{' items' if 'Items' in name else ''}")
    return "; ".join(limits)


def _default(path: str, scopes: list[Scope]) -> str:
    by_version = {
        scope.version: inner["default"]
        for scope in scopes
        for field_path, inner, _ in _fields(schema_of(scope))
        if field_path == path and "default" in inner
    }
    values = list(by_version.values())
    if len(by_version) == len(scopes) and all(value == values[0] for value in values):
        return f"`{_format_value(values[0])}`"
    return "; ".join(f"{version}: `{_format_value(value)}`" for version, value in by_version.items())


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_format_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_value, value)) + "]"
    return str(value) if value != "" else '""'


def _rules(scopes: list[Scope]) -> list[tuple[str, str, str]]:
    versions: dict[tuple[str, str], list[str]] = {}
    for scope in scopes:
        for path, schema, _ in _fields(schema_of(scope)):
            for place, each in (
                (path, schema),
                (f"{path}[]", schema.get("items", {})),
                (f"{path}.*", schema.get("additionalProperties", {})),
            ):
                for rule in each.get("x-kubernetes-validations", ()):
                    versions.setdefault((place, rule["message"]), []).append(scope.version)
    return [(path, ", ".join(found), message) for (path, message), found in versions.items()]


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
