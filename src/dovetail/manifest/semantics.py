"""Faults that a schema cannot express: schedules that never fire, amounts out of range, duplicate taints, bad names.

It checks plain documents that may have other faults, too: a value with an unexpected type is skipped, because
`schema_check` reports it. The same checks decide the ValidationSucceeded condition of a NodePool.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dovetail.manifest.patterns import (
    DNS_SUBDOMAIN,
    IN_WORDS,
    LABEL_KEY,
    LABEL_VALUE,
    SCHEDULE,
    matches,
    placeholder_in,
)
from dovetail.manifest.schema_check import join, unfilled
from dovetail.model.cron import CronSchedule
from dovetail.model.kube_object import Fault
from dovetail.model.labels import CAPACITY_TYPE, CAPACITY_TYPES, provider_label_remedy, unknown_provider_label
from dovetail.model.resources import Quantity

Plain = Mapping[str, Any]
_MAX_NAME_LENGTH = 63
_MAX_PREFIX_LENGTH = 253


def metadata_faults(document: Plain, *, named: bool = True) -> Iterator[Fault]:
    """Faults of the standard metadata, which no CRD schema covers."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        yield Fault("metadata", "is required", metadata, "add metadata with a name")
        return
    name = metadata.get("name")
    if name is None and not metadata.get("generateName"):
        if named:
            yield Fault("metadata.name", "is required", None, "give the object a name")
    elif name is not None and not (isinstance(name, str) and len(name) <= 253 and matches(DNS_SUBDOMAIN, name)):
        mark = placeholder_in(str(name))
        remedy = f"write {IN_WORDS[DNS_SUBDOMAIN]}"
        fault = Fault("metadata.name", "is not a valid name", name, remedy)
        yield unfilled("metadata.name", str(name), mark) if mark else fault
    yield from label_faults(metadata.get("labels"), "metadata.labels")
    annotations = metadata.get("annotations")
    yield from _key_faults(annotations, "metadata.annotations")
    yield from _not_text(annotations, "metadata.annotations")


def _not_text(entries: Any, path: str) -> Iterator[Fault]:
    for key, value in _items(entries):
        if not isinstance(value, str):
            yield Fault(join(path, str(key)), "must be text", value, f'put it in quotes: "{value}"')


def label_faults(labels: Any, path: str) -> Iterator[Fault]:
    """Faults in keys and values of labels."""
    yield from _key_faults(labels, path)
    yield from _not_text(labels, path)
    for key, value in _items(labels):
        if isinstance(value, str) and (len(value) > _MAX_NAME_LENGTH or not matches(LABEL_VALUE, value)):
            yield Fault(join(path, str(key)), "is not a valid label value", value, f"write {IN_WORDS[LABEL_VALUE]}")


def _key_faults(labels: Any, path: str) -> Iterator[Fault]:
    for key, _ in _items(labels):
        if not isinstance(key, str) or not is_qualified_name(key):
            yield Fault(join(path, str(key)), "is not a valid key", key, f"write {IN_WORDS[LABEL_KEY]}")


def is_qualified_name(key: str) -> bool:
    """Whether it is a valid key of a label, annotation or taint."""
    prefix, slash, name = key.rpartition("/")
    return (
        matches(LABEL_KEY, key) and len(name) <= _MAX_NAME_LENGTH and (not slash or len(prefix) <= _MAX_PREFIX_LENGTH)
    )


def pool_faults(document: Plain) -> Iterator[Fault]:
    """Faults of a NodePool beyond its schema."""
    spec = _mapping_at(document, "spec")
    template, disruption = _mapping_at(spec, "template"), _mapping_at(spec, "disruption")
    labels = _mapping_at(template, "metadata").get("labels")
    yield from _key_faults(labels, "spec.template.metadata.labels")
    for key, _ in _items(labels):
        yield from _provider_label_faults(key, join("spec.template.metadata.labels", str(key)))
    yield from _key_faults(_mapping_at(template, "metadata").get("annotations"), "spec.template.metadata.annotations")
    yield from instance_faults(_mapping_at(template, "spec"), "spec.template.spec")
    yield from _amount_faults(spec.get("limits"), "spec.limits")
    for path, budget in budgets_of(disruption):
        yield from _schedule_faults(budget.get("schedule"), f"{path}.schedule")


def claim_faults(document: Plain) -> Iterator[Fault]:
    """Faults of a NodeClaim beyond its schema."""
    spec = _mapping_at(document, "spec")
    yield from instance_faults(spec, "spec")
    yield from _amount_faults(_mapping_at(spec, "resources").get("requests"), "spec.resources.requests")


def instance_faults(spec: Plain, path: str) -> Iterator[Fault]:
    """Faults of the spec of a NodeClaim or of a NodePool's template."""
    seen: set[tuple[Any, Any]] = set()
    for list_name in ("taints", "startupTaints"):
        for index, taint in _entries(spec.get(list_name)):
            here, key = f"{path}.{list_name}[{index}]", taint.get("key")
            if isinstance(key, str) and matches(LABEL_KEY, key) and not is_qualified_name(key):
                yield Fault(f"{here}.key", "is too long", key, "at most 253 characters before the '/', 63 after it")
            identity = (repr(key), repr(taint.get("effect")))
            if identity in seen:
                problem = "has the key and effect of an earlier taint"
                yield Fault(here, problem, f"{key}:{taint.get('effect')}", "remove one of them")
            seen.add(identity)
    for index, requirement in _entries(spec.get("requirements")):
        yield from _requirement_faults(requirement, f"{path}.requirements[{index}]")


def _requirement_faults(requirement: Plain, path: str) -> Iterator[Fault]:
    key, values = requirement.get("key"), requirement.get("values")
    if isinstance(key, str) and matches(LABEL_KEY, key) and not is_qualified_name(key):
        yield Fault(f"{path}.key", "is too long", key, "at most 253 characters before the '/', 63 after it")
    yield from _provider_label_faults(key, f"{path}.key")
    if key == CAPACITY_TYPE and requirement.get("operator") == "In" and isinstance(values, list) and values:
        known = [each for each in values if each in CAPACITY_TYPES]
        choose = f"choose from {', '.join(sorted(CAPACITY_TYPES))}"
        least = requirement.get("minValues")
        if not known:
            yield Fault(f"{path}.values", "names no capacity type", values, choose)
        elif isinstance(least, int) and len(known) < least <= len(values):
            problem = f"names fewer capacity types than minValues ({least})"
            yield Fault(f"{path}.values", problem, values, choose)


def _provider_label_faults(key: Any, path: str) -> Iterator[Fault]:
    """Karpenter's CRDs have these rules too, but a NodePool may have been stored under CRDs that do not."""
    if isinstance(key, str) and (problem := unknown_provider_label(key)):
        yield Fault(path, problem, key, provider_label_remedy(key))


def _schedule_faults(text: Any, path: str) -> Iterator[Fault]:
    if not isinstance(text, str) or not matches(SCHEDULE, text):
        return
    if fault := _parse_error(CronSchedule.parse, text):
        yield Fault(path, fault, text, "an invalid schedule would block all disruption of the pool")
    elif CronSchedule.parse(text).never_fires:
        yield Fault(path, "never fires: no date matches it", text, "choose days that the months have")


def _amount_faults(amounts: Any, path: str) -> Iterator[Fault]:
    for name, amount in _items(amounts):
        here = join(path, str(name))
        if not isinstance(name, str) or not is_qualified_name(name):
            yield Fault(
                here, "is not the name of a resource", name, "write a name such as cpu, memory or nvidia.com/gpu"
            )
        if isinstance(amount, str) and (fault := _parse_error(Quantity.parse, amount)):
            yield Fault(here, fault, amount)


def _parse_error(parse: Callable[[str], object], text: str) -> str:
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return ""


def budgets_of(disruption: Plain) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every budget with its path, including those under actions."""
    for index, budget in _entries(disruption.get("budgets")):
        yield f"spec.disruption.budgets[{index}]", budget
    for path, controls in controls_of(disruption):
        for index, budget in _entries(controls.get("budgets")):
            yield f"{path}.budgets[{index}]", budget


def controls_of(disruption: Plain) -> Iterator[tuple[str, Plain]]:
    """The controls of every action with their path."""
    for name in ("actionControls", "genericPerActionControls"):
        for action, controls in _items(disruption.get(name)):
            if isinstance(controls, dict):
                yield join(f"spec.disruption.{name}", str(action)), controls


def _mapping_at(value: Any, name: str) -> Plain:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else ()


def _entries(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, each in enumerate(value if isinstance(value, list) else ()):
        if isinstance(each, dict):
            yield index, each
