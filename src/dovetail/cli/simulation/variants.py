"""What-if: the same scenario with something set differently, once, side by side, or over a whole grid of values.

`nodepool/default.spec.disruption.consolidateAfter=5m` names an object of the scenario by kind and name, a field by its
path (`budgets[0].nodes` reaches into lists) and a value in YAML. `scenario.seed=3` sets a field of the scenario itself.
What names nothing, or makes an object that would be refused, is an error before anything runs.
"""

import copy
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from dovetail.manifest.validation import faults_of, scope_of
from dovetail.model.wire import Fault
from dovetail.sim.scenario.document import Scenario, ScenarioInvalid, read_scenario

BASELINE = "baseline"
_TARGET = re.compile(r"^(?P<kind>[a-z]+)(/(?P<name>[a-z0-9.-]+?))?\.(?P<path>[a-zA-Z].*)$")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Variant:
    """One scenario to be lived through, and what people call it."""

    name: str
    seed: int
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Setting:
    """One field set to one value."""

    kind: str
    name: str
    path: tuple[str | int, ...]
    value: Any
    text: str


def read_setting(text: str) -> Setting:
    """A setting as it is typed; ValueError with the remedy."""
    target, equals, value = text.partition("=")
    found = _TARGET.match(target.strip())
    if not equals or found is None:
        raise ValueError(f"{text!r} is not of the form nodepool/NAME.spec.path=value or scenario.FIELD=value")
    path = tuple(name or int(index) for name, index in _STEP.findall(found["path"]))
    kind = found["kind"]
    if kind != "scenario" and not found["name"]:
        raise ValueError(f"{text!r} does not say which {kind}; write {kind}/NAME.{found['path']}")
    return Setting(kind, found["name"] or "", path, yaml.safe_load(value), text)


def read_sweep(text: str) -> list[Setting]:
    """One field and several values: `nodepool/default.spec.x=5m,10m,1h`."""
    target, equals, values = text.partition("=")
    if not equals or not values:
        raise ValueError(f"{text!r} is not of the form nodepool/NAME.spec.path=value,value,...")
    return [read_setting(f"{target}={value}") for value in values.split(",")]


def alone(document: dict[str, Any], name: str, settings: Sequence[Setting], seeds: Sequence[int]) -> list[Variant]:
    """The scenario with all settings at once, for each seed."""
    label = ", ".join(each.text for each in settings) or BASELINE
    return [_variant(document, name, label, settings, seed) for seed in seeds]


def compared(document: dict[str, Any], name: str, settings: Sequence[Setting], seeds: Sequence[int]) -> list[Variant]:
    """The scenario as it is, and with each setting by itself."""
    chosen: list[tuple[str, list[Setting]]] = [(BASELINE, []), *((each.text, [each]) for each in settings)]
    return [_variant(document, name, label, which, seed) for label, which in chosen for seed in seeds]


def swept(
    document: dict[str, Any], name: str, sweeps: Sequence[Sequence[Setting]], seeds: Sequence[int]
) -> list[Variant]:
    """Every combination of values, for each seed."""
    grid = itertools.product(*sweeps)
    return [
        _variant(document, name, ", ".join(each.text for each in which), which, seed)
        for which in grid
        for seed in seeds
    ]


def _variant(document: dict[str, Any], name: str, label: str, settings: Iterable[Setting], seed: int) -> Variant:
    changed = copy.deepcopy(document)
    spec = changed.setdefault("spec", {})
    spec["seed"] = seed
    for each in settings:
        _apply(spec, each)
    scenario = read_scenario(changed, name)
    check_objects(scenario)
    return Variant(label, scenario.seed, scenario)


def _apply(spec: dict[str, Any], setting: Setting) -> None:
    if setting.kind == "scenario":
        _set(spec, setting.path, setting)
        return
    for plain in spec.get("objects") or ():
        kind, named = str(plain.get("kind", "")).lower(), (plain.get("metadata") or {}).get("name")
        if kind == setting.kind and named == setting.name:
            _set(plain, setting.path, setting)
            return
    known = [f"{str(each.get('kind')).lower()}/{(each.get('metadata') or {}).get('name')}" for each in spec["objects"]]
    raise ValueError(f"{setting.text!r}: the scenario has no {setting.kind}/{setting.name}; it has {', '.join(known)}")


def _set(holder: Any, path: Sequence[str | int], setting: Setting) -> None:
    for here, following in itertools.pairwise(path):
        _reachable(holder, here, setting)
        if isinstance(here, str):
            holder.setdefault(here, [] if isinstance(following, int) else {})
        holder = holder[here]
    _reachable(holder, path[-1], setting)
    holder[path[-1]] = setting.value


def _reachable(holder: Any, step: str | int, setting: Setting) -> None:
    if isinstance(step, str) and not isinstance(holder, dict):
        raise ValueError(f"{setting.text!r}: {step} is inside something that has no fields")  # noqa: TRY004 - as typed
    if isinstance(step, int) and not (isinstance(holder, list) and step < len(holder)):
        raise ValueError(f"{setting.text!r}: there is no item {step} in that list")


def check_objects(scenario: Scenario) -> None:
    """Refuse a scenario whose objects a cluster would refuse, with every fault of each."""
    faults: list[Fault] = []
    for index, plain in enumerate(scenario.objects):
        path = f"spec.objects[{index}]"
        if not plain.get("apiVersion") or not plain.get("kind") or not (plain.get("metadata") or {}).get("name"):
            faults.append(Fault(path, "needs apiVersion, kind and metadata.name"))
        elif scope_of(plain["apiVersion"], plain["kind"]) is not None:
            faults += [each._replace(path=f"{path}.{each.path}") for each in faults_of(plain).faults]
    if not any(each.get("kind") == "NodePool" for each in scenario.objects) and not scenario.snapshot:
        faults.append(Fault("spec.objects", "has no NodePool, so no node could ever come; add one"))
    if faults:
        raise ScenarioInvalid(faults)
