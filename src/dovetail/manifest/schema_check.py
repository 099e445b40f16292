"""Checks plain documents against the schemas, fills in their defaults, and finds unknown fields.

`examine` interprets the schema of the CRD and gives the same verdict as the API server, but reports every fault with
its path, value and remedy. A null property counts as absent. Rules over several fields are evaluated only if the types
of those fields are right.

`with_defaults` fills in the defaults of one schema; unknown fields are kept. `as_stored` fills in what a reader sees:
the defaults of the version of the document, then those of the stored version, which the API server fills in when it
reads an object. `pruned` drops unknown fields as the API server does.

`unknown_fields` warns about fields that the API server would drop silently, with a hint: a similar field of the same
mapping, or the path where a field of this name belongs.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from dovetail.manifest.cel_rules import Rule
from dovetail.manifest.corrections import IN_QUOTES, in_yaml, suggestion
from dovetail.manifest.patterns import IN_WORDS, matches, placeholder_in
from dovetail.manifest.schema import KINDS, Schema, Scope, schema_of
from dovetail.manifest.status_fields import FIELDS, RULES
from dovetail.model.kube_object import Fault

UNEXPECTED_FORM = "does not have the expected form"
_MISSING = object()
_REPLACEMENTS = {
    "WhenUnderutilized": "it is the v1beta1 name: write WhenEmptyOrUnderutilized",
    "Ubuntu": "its images use the AL2 bootstrap: write amiFamily: AL2, and select Ubuntu images in amiSelectorTerms",
}
"""Values that Karpenter v1 does not have, and the replacement."""
_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
}
_TYPES: Mapping[str, type | tuple[type, ...]] = {"object": dict, "array": list, "string": str, "boolean": bool}
RULES_BY_TEXT: Mapping[tuple[str, str], Rule] = {
    (rule.cel, rule.message): rule
    for rules in (*RULES.values(), *(constraints.rules for table in FIELDS.values() for constraints in table.values()))
    for rule in rules
}


@dataclass(slots=True)
class SchemaFindings:
    """The faults and unknown fields of one document."""

    faults: list[Fault] = field(default_factory=list)
    unknown: list[tuple[str, str, Schema]] = field(default_factory=list)  # parent path, name, schema of the parent
    type_faults: int = 0  # number of type faults; rules above them are not evaluated

    def add_type_fault(self, fault: Fault) -> None:
        """Record a type fault."""
        self.type_faults += 1
        self.faults.append(fault)


def examine(schema: Schema, value: Any, before: Any = _MISSING) -> SchemaFindings:
    """Check a document against a schema; `before` is its previous version, for rules about updates."""
    findings = SchemaFindings()
    _examine(schema, without_nulls(value), without_nulls(before), "", findings)
    return findings


def join(path: str, name: str) -> str:
    """The path of a property; names with dots or slashes are bracketed."""
    if any(sign in name for sign in "./[] ") or not name:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _examine(schema: Schema, value: Any, before: Any, path: str, found: SchemaFindings) -> None:
    type_faults = found.type_faults
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not (isinstance(value, int | str) or _is_whole(value)):
            return found.add_type_fault(_wrong_type(schema, value, path, "a whole number or text"))
    elif not _fits(schema["type"], value):
        return found.add_type_fault(_wrong_type(schema, value, path, _NAMES[schema["type"]]))
    match value:
        case dict():
            _mapping(schema, value, before, path, found)
        case list():
            _list(schema, value, path, found)
        case str():
            found.faults.extend(_text(schema, value, path))
        case bool():
            pass
        case _:
            found.faults.extend(_number(schema, value, path))
    if found.type_faults == type_faults:
        found.faults.extend(_rule_faults(schema, value, before, path))
    return None


def _fits(expected: str, value: Any) -> bool:
    if expected == "integer":
        return not isinstance(value, bool) and (isinstance(value, int) or _is_whole(value))
    return isinstance(value, _TYPES[expected])


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _wrong_type(schema: Schema, value: Any, path: str, expected: str) -> Fault:
    if isinstance(value, str) and (mark := placeholder_in(value)):
        return unfilled(path, value, mark)
    fault = Fault(path or "$", f"must be {expected}, not {_name_of(value)}", value, f"write {expected}")
    return _with_fix(fault, schema)


def _with_fix(fault: Fault, schema: Schema) -> Fault:
    """The fault with the form of valid values in its remedy, and a valid value if one can be derived."""
    words = IN_WORDS.get(schema.get("pattern", ""), "")
    fix = suggestion(schema, fault.value, _accepts)
    if isinstance(fault.value, float) and schema.get("type") == "string" and _accepts(schema, str(fault.value)):
        return fault._replace(remedy=f"{IN_QUOTES}{': ' if words else ''}{words}")
    if fix is None:
        return fault._replace(remedy=f"write {words}") if words else fault
    if isinstance(fault.value, bool | int) and fix == json.dumps(fault.value):
        hint = " (without quotes yes, no, on and off are true or false)" if isinstance(fault.value, bool) else ""
        return fault._replace(remedy=f"{IN_QUOTES}: {in_yaml(fix)}{hint}", fix=fix)
    return fault._replace(remedy=f"write {in_yaml(fix)}{': ' if words else ''}{words}", fix=fix)


def _accepts(schema: Schema, value: Any) -> bool:
    """Whether a scalar, or a list of scalars, fits a schema."""
    if isinstance(value, list):
        return schema.get("type") == "array" and all(_accepts(schema["items"], each) for each in value)
    if not schema.get("x-kubernetes-int-or-string") and not _fits(schema["type"], value):
        return False
    if isinstance(value, str) and not (_has_form(schema, value) and len(value) <= schema.get("maxLength", len(value))):
        return False
    faults = [*_rule_faults(schema, value, _MISSING, "")]
    faults += [] if isinstance(value, str | bool) else _number(schema, value, "")
    return not faults


def _has_form(schema: Schema, value: str) -> bool:
    pattern, choices = schema.get("pattern"), schema.get("enum")
    return (pattern is None or matches(pattern, value)) and (choices is None or value in choices)


def _name_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return "a fraction"
    return next((_NAMES[name] for name in ("boolean", *_NAMES) if _fits(name, value)), type(value).__name__)


def _mapping(schema: Schema, value: dict[Any, Any], before: Any, path: str, found: SchemaFindings) -> None:
    for name in schema.get("required", ()):
        if name not in value:
            found.add_type_fault(_missing(join(path, name), name, schema["properties"][name]))
    _count(len(value), schema, path, ("maxProperties", "minProperties", "entries"), found)
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
    for name, each in value.items():
        here = join(path, str(name))
        if not isinstance(name, str):
            found.add_type_fault(Fault(here, "field names must be text", name, f'put it in quotes: "{name}"'))
        elif name in properties:
            _examine(properties[name], each, _part(before, name), here, found)
        elif rest is not None:
            _examine(rest, each, _part(before, name), here, found)
        elif not schema.get("x-kubernetes-preserve-unknown-fields") and path != "metadata":
            found.unknown.append((path, name, schema))


def _part(before: Any, name: str) -> Any:
    return before.get(name, _MISSING) if isinstance(before, dict) else _MISSING


def _list(schema: Schema, value: list[Any], path: str, found: SchemaFindings) -> None:
    _count(len(value), schema, path, ("maxItems", "minItems", "items"), found)
    for index, each in enumerate(value):
        _examine(schema["items"], each, _MISSING, f"{path}[{index}]", found)
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys or schema.get("x-kubernetes-list-type") == "set":
        seen: set[str] = set()
        for index, each in enumerate(value):
            identity = repr(tuple(_part(each, key) for key in keys) if keys else each)
            if identity in seen:
                found.faults.append(Fault(f"{path}[{index}]", "is listed twice", each, "remove one of them"))
            seen.add(identity)


def _count(size: int, schema: Schema, path: str, words: tuple[str, str, str], found: SchemaFindings) -> None:
    most, least, things = words
    if size > schema.get(most, size):
        found.faults.append(Fault(path, f"has {size} {things}; at most {schema[most]} are allowed"))
    if size < schema.get(least, size):
        remedy = "leave the field out, or add an entry" if size == 0 else ""
        found.faults.append(Fault(path, f"has {size} {things}; at least {schema[least]} are required", None, remedy))


def _text(schema: Schema, value: str, path: str) -> Iterable[Fault]:
    pattern, choices = schema.get("pattern"), schema.get("enum")
    if len(value) < schema.get("minLength", 0):
        yield Fault(path, "may not be empty", value, f"write {IN_WORDS[pattern]}" if pattern else "")
        return
    if choices is None and len(value) > schema.get("maxLength", len(value)):
        yield Fault(path, f"is {len(value)} characters long; at most {schema['maxLength']} are allowed", value)
    fits = _has_form(schema, value)
    if not fits and (mark := placeholder_in(value)):
        yield unfilled(path, value, mark)
    elif not fits and choices is not None:
        fault = _with_fix(Fault(path, "is not one of the allowed values", value), schema)
        yield fault._replace(remedy=_choose(value, choices))
    elif not fits and pattern is not None:
        yield _with_fix(Fault(path, UNEXPECTED_FORM, value), schema)
    elif schema.get("format") == "date-time" and not _is_instant(value):
        yield Fault(path, "is not an instant", value, "write it like 2024-01-31T12:00:00Z")


def _number(schema: Schema, value: float, path: str) -> Iterable[Fault]:
    if value < schema.get("minimum", value):
        yield Fault(path, f"must be at least {schema['minimum']}", value)
    most = schema.get("maximum", (1 << 63) - 1)
    if value > most:
        yield Fault(path, f"must be at most {most}", value)
    elif value < -(1 << 63):
        yield Fault(path, f"must be at least {-(1 << 63)}", value)


def _rule_faults(schema: Schema, value: Any, before: Any, path: str) -> Iterable[Fault]:
    for entry in schema.get("x-kubernetes-validations", ()):
        rule = RULES_BY_TEXT[entry["rule"], entry["message"]]
        if rule.holds is not None:
            satisfied = rule.holds(value)
        else:
            satisfied = before is _MISSING or rule.keeps is None or rule.keeps(value, before)
        if not satisfied:
            yield Fault(join(path, rule.at) if rule.at else path, rule.message, None, rule.remedy)


def without_nulls(value: Any) -> Any:
    """The document without null fields, which the API server drops before validation."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def unfilled(path: str, value: str, mark: str) -> Fault:
    """The fault of a value with an unfilled template placeholder."""
    remedy = "render the template first (helm template, envsubst), then validate what comes out"
    return Fault(path, f"still contains the placeholder {mark}", value, remedy)


def _choose(value: str, choices: list[str]) -> str:
    if value in _REPLACEMENTS:
        return _REPLACEMENTS[value]
    folded = {choice.lower(): choice for choice in choices}
    similar = get_close_matches(value.lower(), folded, n=1)
    hint = f"did you mean {folded[similar[0]]}? " if similar else ""
    return f"{hint}{'Choose' if hint else 'choose'} from {', '.join(choices)}"


def _missing(path: str, name: str, schema: Schema) -> Fault:
    about = schema.get("description", "")
    if schema.get("type") == "array" and not schema.get("minItems"):
        return Fault(path, "is required, even if it is empty", None, f"write {name}: [], or add it: {about}", [])
    return Fault(path, "is required", None, f"add it: {about}")


def _is_instant(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def with_defaults(schema: Schema, value: Any) -> Any:
    """A copy of the document with defaults, without null fields, and with integral floats as integers."""
    if isinstance(value, dict):
        return _filled_mapping(schema, value)
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), each) for each in value]
    if schema.get("type") == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def as_stored(scope: Scope, document: Any) -> Any:
    """A copy of a document of this version with all defaults that a client sees after it was stored."""
    filled = with_defaults(schema_of(scope), document)
    stored = Scope(scope.kind, KINDS[scope].version)
    return filled if stored == scope else with_defaults(schema_of(stored), filled)


def _filled_mapping(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    filled = {name: each for name, each in value.items() if each is not None}
    for name, each in properties.items():
        if name not in filled and "default" in each:
            filled[name] = deepcopy(each["default"])
    return {name: with_defaults(properties.get(name, rest), each) for name, each in filled.items()}


def pruned(schema: Schema, value: Any) -> Any:
    """The document without unknown fields, as the API server stores it. Kept values are shared, not copied."""
    if isinstance(value, list):
        items = schema.get("items", {})
        return [pruned(items, each) for each in value] if items.get("type") in ("object", "array") else value
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    properties, rest = schema.get("properties"), schema.get("additionalProperties")
    if properties is None:
        return {name: pruned(rest, each) for name, each in value.items()} if isinstance(rest, dict) else value
    return {name: pruned(properties[name], each) for name, each in value.items() if name in properties}


DROPPED = "is not a field here and would be dropped"


def unknown_fields(found: SchemaFindings, schema: Schema) -> Iterator[Fault]:
    """Yield a warning for each unknown field."""
    for path, name, parent in found.unknown:
        yield Fault(join(path, name), DROPPED, None, _hint(name, path, parent, schema))


def _hint(name: str, path: str, parent: Schema, schema: Schema) -> str:
    siblings = parent.get("properties", {})
    folded = {sibling.lower(): sibling for sibling in siblings}
    elsewhere = [place for place in places_of(name, schema) if place != path]
    if elsewhere:
        return f"it belongs in {elsewhere[0]}"
    similar = get_close_matches(name.lower(), folded, n=1, cutoff=0.7)
    similar += [sibling for sibling in folded if name.lower().startswith(sibling)]
    if similar:
        return f"did you mean {folded[similar[0]]}?"
    return f"known here: {', '.join(siblings)}" if siblings else "remove it"


def places_of(name: str, schema: Schema, path: str = "") -> list[str]:
    """The paths of mappings outside status that have a field of this name, shallowest first."""
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
