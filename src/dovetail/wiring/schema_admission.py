"""What the schema of a custom resource does on a real API server: drop unknown fields, fill in defaults, refuse.

Only the schema of the CRD is asked. What `validate` knows beyond it (a schedule that never fires, a taint named twice)
reaches a real cluster too, and the controllers have to cope with it there.

Of a status only the members that changed are looked at, and of its conditions only those that changed: controllers
write a status far more often than anything else.
"""

from typing import Any

from dovetail.manifest.conformity import examine
from dovetail.manifest.defaults import pruned, with_defaults
from dovetail.manifest.schema import Schema, schema_of
from dovetail.manifest.validation import scope_of
from dovetail.model.wire import Fault
from dovetail.ports.errors import Invalid

Plain = dict[str, Any]


def admit(_resource: object, before: Plain | None, after: Plain) -> Plain:
    """The object as the API server stores it; raises with every fault."""
    scope = scope_of(after["apiVersion"], after["kind"])
    if scope is None:
        return after
    schema = schema_of(scope)
    if before is None or before.get("spec") != after.get("spec"):
        filled: Plain = with_defaults(schema, {**pruned(schema, after), "metadata": after["metadata"]})
        found = examine(schema, filled) if before is None else examine(schema, filled, with_defaults(schema, before))
        return _accepted(filled, found.faults)
    if before.get("status") == after.get("status"):
        return after
    status, faults = _changed_status(schema["properties"]["status"], before.get("status") or {}, after["status"])
    return _accepted({**after, "status": status}, faults)


def _accepted(plain: Plain, faults: list[Fault]) -> Plain:
    if faults:
        name = plain["metadata"].get("name", "")
        raise Invalid(f"{plain['kind']} {name} is invalid: {'; '.join(map(str, faults))}", tuple(faults))
    return plain


def _changed_status(schema: Schema, before: Plain, after: Any) -> tuple[Plain, list[Fault]]:
    if not isinstance(after, dict):
        return after, _examined(schema, after, "status")
    faults: list[Fault] = []
    known = schema["properties"]
    for name, value in after.items():
        if name not in known or value == before.get(name):
            continue
        if name == "conditions" and isinstance(value, list):
            faults.extend(_condition_faults(known[name], before.get(name) or [], value))
        else:
            faults.extend(_examined(known[name], value, f"status.{name}"))
    return (after if faults else with_defaults(schema, pruned(schema, after))), faults


def _condition_faults(schema: Schema, before: list[Plain], after: list[Any]) -> list[Fault]:
    faults: list[Fault] = []
    types: set[object] = set()
    for index, condition in enumerate(after):
        path = f"status.conditions[{index}]"
        if condition not in before:
            faults.extend(_examined(schema["items"], condition, path))
        kind = condition.get("type") if isinstance(condition, dict) else None
        if kind in types:
            faults.append(Fault(path, "is listed twice", kind, "remove one of them"))
        types.add(kind)
    if len(after) > schema["maxItems"]:
        faults.append(Fault("status.conditions", f"has {len(after)} items; at most {schema['maxItems']} are allowed"))
    return faults


def _examined(schema: Schema, value: Any, path: str) -> list[Fault]:
    found = examine(schema, with_defaults(schema, value)).faults
    return [each._replace(path=path if each.path in ("", "$") else _joined(path, each.path)) for each in found]


def _joined(path: str, inner: str) -> str:
    return f"{path}{inner}" if inner.startswith("[") else f"{path}.{inner}"
