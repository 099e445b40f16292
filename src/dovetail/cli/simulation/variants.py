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

from dovetail.cli.simulation.examining import examined
from dovetail.model.wire import Fault
from dovetail.sim.scenario.document import Scenario, named
from dovetail.sim.scenario.reading import ScenarioInvalid

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
    """A setting as it is typed; `ScenarioInvalid` with the remedy."""
    target, equals, value = text.partition("=")
    found = _TARGET.match(target.strip())
    if not equals or found is None:
        raise _unclear(text, "is not of the form nodepool/NAME.spec.path=value or scenario.FIELD=value")
    path = tuple(name or int(index) for name, index in _STEP.findall(found["path"]))
    kind = found["kind"]
    if kind != "scenario" and not found["name"]:
        raise _unclear(text, f"does not say which {kind}; write {kind}/NAME.{found['path']}")
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise _unclear(text, f"{value!r} is no YAML; put it in quotes") from error
    return Setting(kind, found["name"] or "", path, read, text)


def read_sweep(text: str) -> list[Setting]:
    """One field and several values: `nodepool/default.spec.x=5m,10m,1h`."""
    target, equals, values = text.partition("=")
    if not equals or not values:
        raise _unclear(text, "is not of the form nodepool/NAME.spec.path=value,value,...")
    return [read_setting(f"{target}={value}") for value in values.split(",")]


def _unclear(text: str, why: str) -> ScenarioInvalid:
    return ScenarioInvalid([Fault(f"--set {text}", why)])


def alone(settings: Sequence[Setting]) -> list[Sequence[Setting]]:
    """All settings at once."""
    return [settings]


def compared(settings: Sequence[Setting]) -> list[Sequence[Setting]]:
    """The scenario as it is, and each setting by itself."""
    return [(), *((each,) for each in settings)]


def swept(sweeps: Sequence[Sequence[Setting]]) -> list[Sequence[Setting]]:
    """Every combination of values."""
    return [*itertools.product(*sweeps)]


def variants_of(
    document: dict[str, Any], name: str, chosen: Sequence[Sequence[Setting]], seeds: Sequence[int]
) -> list[Variant]:
    """A scenario for each choice of settings and each seed; `ScenarioInvalid` has the faults of all of them."""
    variants: list[Variant] = []
    faults: dict[Fault, None] = {}
    for settings in chosen:
        label = ", ".join(each.text for each in settings) or BASELINE
        try:
            variants += [_variant(document, name, label, settings, seed) for seed in seeds]
        except ScenarioInvalid as error:
            faults |= dict.fromkeys(error.faults)
    if faults:
        raise ScenarioInvalid(faults)
    return variants


def _variant(document: dict[str, Any], name: str, label: str, settings: Iterable[Setting], seed: int) -> Variant:
    changed = copy.deepcopy(document)
    spec = changed.setdefault("spec", {})
    spec["seed"] = seed
    for each in settings:
        _apply(spec, each)
    scenario = examined(changed, name)
    return Variant(label, scenario.seed, scenario)


def _apply(spec: dict[str, Any], setting: Setting) -> None:
    if setting.kind == "scenario":
        _set(spec, setting.path, setting)
        return
    objects = [each for each in spec.get("objects") or () if isinstance(each, dict)]
    for plain in objects:
        if named(plain) and (plain["kind"].lower(), plain["metadata"]["name"]) == (setting.kind, setting.name):
            _set(plain, setting.path, setting)
            return
    known = [f"{str(each['kind']).lower()}/{each['metadata']['name']}" for each in objects if named(each)]
    raise _unclear(setting.text, f"the scenario has no {setting.kind}/{setting.name}; it has {', '.join(known)}")


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
        raise _unclear(setting.text, f"{step} is inside something that has no fields")
    if isinstance(step, int) and not (isinstance(holder, list) and step < len(holder)):
        raise _unclear(setting.text, f"there is no item {step} in that list")
