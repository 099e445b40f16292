"""Builds structural OpenAPI schemas from the types of the model.

Names, shapes and required fields come from the types; descriptions, limits, defaults and rules from the tables in
`field_constraints` and `status_fields`. There is one schema for each kind and version. It becomes the CRD, validates
manifests, and provides their defaults.
"""

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec.inspect import (
    BoolType,
    CustomType,
    DateTimeType,
    DictType,
    IntType,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
)

from dovetail.manifest.cel_rules import Rule
from dovetail.manifest.field_constraints import Field
from dovetail.manifest.status_fields import FIELDS, KWOK_VERSION, RULES
from dovetail.model.duration import Delay, Duration
from dovetail.model.kinds import EC2_NODE_CLASS, KWOK_NODE_CLASS, NODE_CLAIM, NODE_POOL, Kind
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.resources import Quantity

Schema = dict[str, Any]

LONGEST_NAME = 63
"""The maximum length of names of pools and node classes, which become label values."""


class Scope(NamedTuple):
    """The kind and version a schema is for."""

    kind: str
    version: str


KINDS: Mapping[Scope, Kind[Any]] = {
    Scope("NodePool", "v1"): NODE_POOL,
    Scope("NodePool", "v1beta1"): NODE_POOL,
    Scope("NodeClaim", "v1"): NODE_CLAIM,
    Scope("NodeClaim", "v1beta1"): NODE_CLAIM,
    Scope("KWOKNodeClass", KWOK_VERSION): KWOK_NODE_CLASS,
    Scope("EC2NodeClass", "v1"): EC2_NODE_CLASS,
    Scope("EC2NodeClass", "v1beta1"): EC2_NODE_CLASS,
}
"""Every kind and version that has a schema, and its model."""


@cache
def schema_of(scope: Scope) -> Schema:
    """The schema of one kind at one version."""
    info = msgspec.inspect.type_info(KINDS[scope].model)
    assert isinstance(info, StructType)
    body = _struct(info, scope)
    body["properties"] = {
        "apiVersion": {"type": "string", "description": "Group and version of the object."},
        "kind": {"type": "string", "description": "Kind of the object."},
        **body["properties"],
    }
    return body


def _metadata(scope: Scope) -> Schema:
    """The schema of metadata: the API server checks it and allows a schema to restrict only the name."""
    if scope.kind == "NodeClaim":
        return {"type": "object"}
    return {"type": "object", "properties": {"name": {"type": "string", "maxLength": LONGEST_NAME}}}


def _struct(info: StructType, scope: Scope) -> Schema:
    table = FIELDS[info.cls]
    properties: Schema = {}
    required: list[str] = []
    for each in info.fields:
        constraints = table[each.name]
        if constraints.hidden:
            continue
        properties[each.encode_name] = _property(each.type, constraints, scope)
        if each.required or scope.version in constraints.required_in:
            required.append(each.encode_name)
    schema: Schema = {"type": "object", "description": _description(info.cls), "properties": properties}
    if required:
        schema["required"] = required
    return _with_rules(schema, RULES.get(info.cls, ()), scope)


def _property(type_: Type, constraints: Field, scope: Scope) -> Schema:
    if isinstance(type_, StructType) and type_.cls is ObjectMeta:
        return _metadata(scope)
    schema = {**_value(type_, constraints, scope), "description": constraints.about, **constraints.limits}
    if scope.version in constraints.defaults:
        schema["default"] = constraints.defaults[scope.version]
    return _with_rules(schema, constraints.rules, scope)


def _with_rules(schema: Schema, rules: tuple[Rule, ...], scope: Scope) -> Schema:
    validations = [rule.schema() for rule in rules if scope.version in rule.versions and scope.kind in rule.kinds]
    if validations:
        schema["x-kubernetes-validations"] = [*schema.get("x-kubernetes-validations", ()), *validations]
    return schema


def _value(type_: Type, constraints: Field, scope: Scope) -> Schema:
    match type_:
        case UnionType(types=types):
            return _union([each for each in types if not isinstance(each, NoneType)], constraints, scope)
        case StructType():
            return _struct(type_, scope)
        case DictType(value_type=CustomType(cls=cls)) if cls is object:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case DictType(value_type=value):
            return {"type": "object", "additionalProperties": {**_value(value, constraints, scope), **constraints.each}}
        case VarTupleType(item_type=item):
            return {"type": "array", "items": {**_value(item, constraints, scope), **constraints.each}}
        case _:
            return _scalar(type_)


def _union(types: list[Type], constraints: Field, scope: Scope) -> Schema:
    if {type(each) for each in types} == {StrType, IntType}:
        return _int_or_string()
    assert len(types) == 1, f"no schema for a union of {types}"
    return _value(types[0], constraints, scope)


def _scalar(type_: Type) -> Schema:
    match type_:
        case StrType():
            return {"type": "string"}
        case BoolType():
            return {"type": "boolean"}
        case IntType():
            return {"type": "integer", "format": "int64"}
        case DateTimeType():
            return {"type": "string", "format": "date-time"}
        case CustomType(cls=cls) if cls is Quantity:
            return _int_or_string()
        case CustomType(cls=cls) if cls in (Duration, Delay):
            return {"type": "string"}
        case _:
            raise TypeError(f"no schema for {type_!r}")


def _int_or_string() -> Schema:
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def _description(cls: type) -> str:
    return " ".join((inspect.getdoc(cls) or "").split())
