"""Builds structural OpenAPI schemas from the types of the model.

Names, shapes and required fields come from the types; descriptions, limits, defaults and rules from the tables in
`field_constraints` and `status_fields`. There is one schema for each kind and version: it becomes the CRD, and provides
the defaults. It accepts whatever Karpenter's CRD accepts.

The strict schema adds what Karpenter's CRD lets pass although no node can come of it, such as a label value with a
space. `validate` and the condition ValidationSucceeded use that one.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
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
from dovetail.manifest.field_constraints import Field, Limits
from dovetail.manifest.patterns import INSTANT
from dovetail.manifest.status_fields import FIELDS, KWOK_VERSION, RULES
from dovetail.model.duration import Delay, Duration
from dovetail.model.kinds import EC2_NODE_CLASS, KWOK_NODE_CLASS, NODE_CLAIM, NODE_POOL, Kind
from dovetail.model.kube_object import ObjectMeta
from dovetail.model.percentage import Percentage
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


def schema_of(scope: Scope) -> Schema:
    """The schema of one kind at one version, as in the CRD."""
    return _schema(scope, strict=False)


def strict_schema_of(scope: Scope) -> Schema:
    """The schema of one kind at one version, with what only `validate` and the controllers check."""
    return _schema(scope, strict=True)


@cache
def _schema(scope: Scope, *, strict: bool) -> Schema:
    body = _Builder(scope, strict=strict).of_type(KINDS[scope].model)
    body["properties"] = {
        "apiVersion": {"type": "string", "description": "Group and version of the object."},
        "kind": {"type": "string", "description": "Kind of the object."},
        **body["properties"],
    }
    return body


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds the schema of one kind and version from types and their constraints."""

    scope: Scope
    strict: bool

    def of_type(self, cls: type) -> Schema:
        info = msgspec.inspect.type_info(cls)
        assert isinstance(info, StructType)
        return self._struct(info)

    def _metadata(self) -> Schema:
        """The schema of metadata: the API server checks it and allows a schema to restrict only the name."""
        if self.scope.kind == "NodeClaim" or not self.strict:
            return {"type": "object"}
        return {"type": "object", "properties": {"name": {"type": "string", "maxLength": LONGEST_NAME}}}

    def _struct(self, info: StructType) -> Schema:
        table = FIELDS[info.cls]
        properties: Schema = {}
        required: list[str] = []
        for each in info.fields:
            constraints = table[each.name]
            if constraints.hidden:
                continue
            properties[each.encode_name] = self._property(each.type, constraints)
            needed = each.required or self._applies(constraints.required_in)
            if needed and self.scope.kind not in constraints.optional_for:
                required.append(each.encode_name)
        schema: Schema = {"type": "object", "description": _description(info.cls), "properties": properties}
        if required:
            schema["required"] = required
        return self._with_rules(schema, RULES.get(info.cls, ()))

    def _applies(self, versions: tuple[str, ...]) -> bool:
        return self.scope.version in versions

    def _property(self, type_: Type, constraints: Field) -> Schema:
        if isinstance(type_, StructType) and type_.cls is ObjectMeta:
            return self._metadata()
        value = self._value(type_, constraints) if constraints.shape is None else self.of_type(constraints.shape)
        schema = {**value, "description": constraints.about, **self._limits(constraints)}
        if self.scope.version in constraints.defaults:
            schema["default"] = constraints.defaults[self.scope.version]
        return self._with_rules(schema, constraints.rules)

    def _limits(self, constraints: Field) -> Limits:
        """Those of the field, then those of this version or kind, then the strict ones."""
        limits = dict(constraints.limits)
        for name in (self.scope.version, self.scope.kind):
            limits.update(constraints.limits_in.get(name, {}))
        return {**limits, **constraints.strict} if self.strict else limits

    def _each(self, constraints: Field) -> Limits:
        return {**constraints.each, **constraints.strict_each} if self.strict else constraints.each

    def _with_rules(self, schema: Schema, rules: tuple[Rule, ...]) -> Schema:
        validations = [
            rule.schema()
            for rule in rules
            if self._applies(rule.versions) and self.scope.kind in rule.kinds and (self.strict or not rule.strict)
        ]
        if validations:
            schema["x-kubernetes-validations"] = [*schema.get("x-kubernetes-validations", ()), *validations]
        return schema

    def _value(self, type_: Type, constraints: Field) -> Schema:
        match type_:
            case UnionType(types=types):
                return self._union([each for each in types if not isinstance(each, NoneType)], constraints)
            case StructType():
                return self._struct(type_)
            case DictType(value_type=CustomType(cls=cls)) if cls is object:
                return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            case DictType(value_type=value):
                inner = {**self._value(value, constraints), **self._each(constraints)}
                return {"type": "object", "additionalProperties": inner}
            case VarTupleType(item_type=item):
                return {"type": "array", "items": {**self._value(item, constraints), **self._each(constraints)}}
            case _:
                return _scalar(type_)

    def _union(self, types: list[Type], constraints: Field) -> Schema:
        if {type(each) for each in types} == {StrType, IntType}:
            return {"type": "string"}  # Karpenter cannot read a number; the model reads what older CRDs let pass
        assert len(types) == 1, f"no schema for a union of {types}"
        return self._value(types[0], constraints)


def _scalar(type_: Type) -> Schema:
    match type_:
        case StrType():
            return {"type": "string"}
        case BoolType():
            return {"type": "boolean"}
        case IntType():
            return {"type": "integer", "format": "int64"}
        case DateTimeType():
            return {"type": "string", "format": "date-time", "pattern": INSTANT}
        case CustomType(cls=cls) if cls is Quantity:
            return _int_or_string()
        case CustomType(cls=cls) if cls in (Duration, Delay, Percentage):
            return {"type": "string"}
        case _:
            raise TypeError(f"no schema for {type_!r}")


def _int_or_string() -> Schema:
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def _description(cls: type) -> str:
    return " ".join((inspect.getdoc(cls) or "").split())
