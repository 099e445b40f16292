"""Constructs the embedded world with the real controllers, and the admission of custom resources in it.

`admit` does what the CRD schema does on a real API server: it prunes unknown fields, fills in defaults and rejects
invalid objects. It applies only the schema. Faults that `dovetail validate` finds beyond it, such as a schedule that
never fires, are admitted, because they reach the controllers on a real cluster too.

Controllers write status far more often than anything else, so `admit` checks only the members and conditions of a
status that changed. The result for a member depends on its value alone and is cached by its encoded form; for a
condition, without its transition time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from dovetail.manifest.schema import KINDS, Schema, Scope, schema_of
from dovetail.manifest.schema_check import as_stored, examine, pruned, with_defaults
from dovetail.manifest.validation import scope_of
from dovetail.model.kube_object import Fault
from dovetail.observe.ledger_query import SIMULATED_CLUSTER
from dovetail.observe.metrics import PrometheusMetrics, UnseenMetrics
from dovetail.ports.errors import Invalid
from dovetail.settings import Settings
from dovetail.sim.world import World, WorldOptions
from dovetail.wiring.assembly import Assembly, Telemetry, assemble, open_ledger


@dataclass(frozen=True)
class Embedded:
    """A simulated cluster with the real controllers on it."""

    world: World
    parts: Assembly


@asynccontextmanager
async def embedded(options: WorldOptions, settings: Settings, *, seen: bool = True) -> AsyncIterator[Embedded]:
    """Run the controllers on a new world. Must be entered on a virtual loop. Has a ledger only if settings name one.

    Without `seen`, there are no events and no metrics, to save time.
    """
    world = World(options, validate=admit)
    with_ledger = replace(settings, ledger=settings.ledger or "off")
    async with AsyncExitStack() as stack:
        ledger = stack.enter_context(open_ledger(with_ledger, world.clock, SIMULATED_CLUSTER))
        telemetry = Telemetry(metrics=PrometheusMetrics() if seen else UnseenMetrics(), ledger=ledger)
        parts = assemble(world, world.clock, settings, telemetry)
        if not seen:
            parts.recorder.mute()
        await stack.enter_async_context(world)
        running = asyncio.get_running_loop().create_task(parts.run(), name="dovetail")
        try:
            yield Embedded(world, parts)
        finally:
            running.cancel()
            await asyncio.wait([running])
            await parts.providers.aclose()
        if not running.cancelled() and running.exception() is not None:
            raise RuntimeError("the controllers stopped") from running.exception()


Plain = dict[str, Any]


def admit(_resource: object, before: Plain | None, after: Plain) -> Plain:
    """Return the object as the API server stores it; `Invalid` has every fault."""
    scope = scope_of(after["apiVersion"], after["kind"])
    if scope is None:
        return after
    schema = schema_of(scope)
    if before is None or before.get("spec") != after.get("spec"):
        filled: Plain = with_defaults(schema, {**pruned(schema, after), "metadata": after["metadata"]})
        found = examine(schema, filled) if before is None else examine(schema, filled, with_defaults(schema, before))
        stored: Plain = as_stored(scope, _accepted(filled, found.faults))
        return stored
    if before.get("status") == after.get("status"):
        return after
    status, faults = _changed_status(scope, before.get("status") or {}, after.get("status"))
    return _accepted({**after, "status": status}, faults)


def _accepted(plain: Plain, faults: list[Fault]) -> Plain:
    if faults:
        name = plain["metadata"].get("name", "")
        raise Invalid(f"{plain['kind']} {name} is invalid: {'; '.join(map(str, faults))}", tuple(faults))
    return plain


def _changed_status(scope: Scope, before: Plain, after: Any) -> tuple[Any, list[Fault]]:
    schema = schema_of(scope)["properties"]["status"]
    if not isinstance(after, dict):
        return after, list(_examined(schema, after, "status"))
    faults: list[Fault] = []
    as_written = _DEFAULTED[scope] <= after.keys()
    for name, value in after.items():
        if value == before.get(name):
            continue
        if name == "conditions" and isinstance(value, list):
            found, unchanged = _conditions(scope, before.get(name) or [], value)
        else:
            found, unchanged = _verdict(scope, name, msgspec.json.encode(value))
        faults.extend(found)
        as_written = as_written and unchanged
    return after if as_written or faults else with_defaults(schema, pruned(schema, after)), faults


def _conditions(scope: Scope, before: list[Any], after: list[Any]) -> tuple[tuple[Fault, ...], bool]:
    """Check the conditions that changed; returns the faults, and whether admission leaves them unchanged."""
    faults: list[Fault] = []
    as_written = True
    types: list[object] = []
    distinct = "x-kubernetes-list-map-keys" in schema_of(scope)["properties"]["status"]["properties"]["conditions"]
    for index, condition in enumerate(after):
        path, kind = f"status.conditions[{index}]", condition.get("type") if isinstance(condition, dict) else None
        if condition not in before:
            found, unchanged = _verdict(scope, _CONDITION, msgspec.json.encode(_timeless(condition)))
            faults.extend(each._replace(path=each.path.replace(f"status.{_CONDITION}", path, 1)) for each in found)
            as_written = as_written and unchanged
        if distinct and kind in types:
            faults.append(Fault(path, "is listed twice", kind, "remove one of them"))
        types.append(kind)
    return tuple(faults), as_written


def _timeless(condition: Any) -> Any:
    """Replace a valid transition time with a fixed one, so that the cache of `_verdict` ignores it."""
    try:
        if datetime.fromisoformat(condition["lastTransitionTime"]).tzinfo is None:
            return condition
    except (KeyError, TypeError, ValueError):
        return condition
    return {**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}


@lru_cache(maxsize=1 << 12)
def _verdict(scope: Scope, name: str, encoded: bytes) -> tuple[tuple[Fault, ...], bool]:
    """Check one member of a status; returns the faults, and whether admission leaves it unchanged."""
    members = schema_of(scope)["properties"]["status"]["properties"]
    schema = members["conditions"]["items"] if name == _CONDITION else members.get(name)
    if schema is None:
        return (), False
    value = msgspec.json.decode(encoded)
    return _examined(schema, value, f"status.{name}"), with_defaults(schema, pruned(schema, value)) == value


def _examined(schema: Schema, value: Any, path: str) -> tuple[Fault, ...]:
    found = examine(schema, with_defaults(schema, value)).faults
    return tuple(each._replace(path=path if each.path in ("", "$") else _joined(path, each.path)) for each in found)


def _joined(path: str, inner: str) -> str:
    return f"{path}{inner}" if inner.startswith("[") else f"{path}.{inner}"


_CONDITION = "conditions[]"
_DEFAULTED = {
    scope: {
        name for name, member in schema_of(scope)["properties"]["status"]["properties"].items() if "default" in member
    }
    for scope in KINDS
}
"""Members of a status with a default in the schema."""
