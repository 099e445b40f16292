"""What-if: the same scenario with something set differently, once, side by side, or over a whole grid of values.

`nodepool/default.spec.disruption.consolidateAfter=5m` names an object of the scenario by kind and name, a field by its
path (`budgets[0].nodes` reaches into lists, `labels["example.com/team"]` has a name with dots) and a value in YAML.
`scenario.seed=3` sets a field of the scenario itself.
What names nothing, or makes an object that would be refused, is an error before anything runs.
"""

import copy
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.cli.simulation.scenario_validation import examined
from dovetail.manifest.safe_yaml import YamlInvalid, read_yaml
from dovetail.model.kube_object import Fault
from dovetail.sim.scenario.document import Scenario, named
from dovetail.sim.scenario.parsing import ScenarioInvalid

BASELINE = "baseline"
READ_BEFORE = ("snapshot", "files")
"""Fields of a scenario whose objects can be set."""
_TARGET = re.compile(r"^(?P<kind>[a-zA-Z]+)(/(?P<name>[a-z0-9.-]+?))?\.(?P<path>[a-zA-Z].*)$")
_STEP = re.compile(r"""\.?(?:(?P<name>[^.\[\]"']+)|\[(?P<index>\d+)\]|\[(?P<mark>["'])(?P<quoted>.+?)(?P=mark)\])""")
_ASSIGNED = re.compile(r"""=(?![^\[]*["']\])""")
"""The first equals sign that is not inside the name of a field in quotes."""


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
    option: str = "--set"


def read_setting(text: str, option: str = "--set") -> Setting:
    """A setting as it is typed; `ScenarioInvalid` with the remedy."""
    target, equals, value = _divided(text)
    found = _TARGET.match(target)
    if not equals or found is None:
        raise _unclear(option, text, "is not of the form nodepool/NAME.spec.path=value or scenario.FIELD=value")
    kind = found["kind"].lower()
    if kind != "scenario" and not found["name"]:
        raise _unclear(option, text, f"does not say which {kind}; write {kind}/NAME.{found['path']}")
    try:
        read = read_yaml(value).content
    except YamlInvalid as error:
        raise _unclear(option, text, f"{value!r} is no YAML: {error.problem}; put it in quotes") from error
    return Setting(kind, found["name"] or "", _steps(option, text, found["path"]), read, text, option)


def _steps(option: str, text: str, path: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            why = f'{path[at:]!r} is no step of a path; write .field, [0] or ["a name with dots"]'
            raise _unclear(option, text, why)
        steps.append(int(found["index"]) if found["index"] else found["name"] or found["quoted"])
        at = found.end()
    return tuple(steps)


def read_sweep(text: str) -> list[Setting]:
    """One field and several values: `nodepool/default.spec.x=5m,10m,1h`. A value may be a list: `[spot],[a,b]`."""
    target, equals, values = _divided(text)
    each = _values(values)
    if not equals or not values:
        raise _unclear("--sweep", text, "is not of the form nodepool/NAME.spec.path=value,value,...")
    if not all(each):
        raise _unclear("--sweep", text, "has a comma with no value beside it; null unsets a field")
    if len(set(each)) < len(each):
        raise _unclear("--sweep", text, "has a value twice; leave one of the two out")
    return [read_setting(f"{target}={value}", "--sweep") for value in each]


def _divided(text: str) -> tuple[str, str, str]:
    found = _ASSIGNED.search(text)
    return (text, "", "") if found is None else (text[: found.start()].strip(), "=", text[found.end() :].strip())


def _values(text: str) -> list[str]:
    """What stands between commas; those inside brackets, braces and quotes belong to a value."""
    values, depth, mark = [""], 0, ""
    for letter in text:
        if mark:
            mark = "" if letter == mark else mark
        elif letter in "\"'":
            mark = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        if letter == "," and not depth and not mark:
            values.append("")
        else:
            values[-1] += letter
    return [value.strip() for value in values]


def _unclear(option: str, text: str, why: str) -> ScenarioInvalid:
    return ScenarioInvalid([Fault(f"{option} {text}", why)])


def alone(settings: Sequence[Setting]) -> list[Sequence[Setting]]:
    """All settings at once."""
    return [settings]


def compared(settings: Sequence[Setting]) -> list[Sequence[Setting]]:
    """The scenario as it is, and each setting by itself."""
    return [(), *((each,) for each in settings)]


def swept(sweeps: Sequence[Sequence[Setting]]) -> list[Sequence[Setting]]:
    """Every combination of values."""
    return [*itertools.product(*sweeps)]


def settled(document: dict[str, Any], settings: Iterable[Setting]) -> dict[str, Any]:
    """The document with settings that hold in every run; `ScenarioInvalid` has all that cannot be set."""
    changed = copy.deepcopy(document)
    faults: list[Fault] = []
    spec = changed["spec"] = changed.get("spec") or {}
    for each in settings:
        try:
            _apply(spec, each)
        except ScenarioInvalid as error:
            faults += error.faults
    if faults:
        raise ScenarioInvalid(faults)
    return changed


def variants_of(
    document: dict[str, Any], name: str, chosen: Sequence[Sequence[Setting]], seeds: Sequence[int]
) -> list[Variant]:
    """A scenario for each choice of settings and each seed; `ScenarioInvalid` has the faults of all of them."""
    variants: list[Variant] = []
    faults: dict[str, Fault] = {}
    for settings in chosen:
        label = ", ".join(each.text for each in settings) or BASELINE
        try:
            variants += [_variant(document, name, label, settings, seed) for seed in seeds]
        except ScenarioInvalid as error:
            faults |= {str(fault): fault for fault in error.faults}
    if faults:
        raise ScenarioInvalid(faults.values())
    return variants


def _variant(document: dict[str, Any], name: str, label: str, settings: Iterable[Setting], seed: int) -> Variant:
    seeded = {**document, "spec": {**(document.get("spec") or {}), "seed": seed}}
    scenario = examined(settled(seeded, settings), name)
    return Variant(label, scenario.seed, scenario)


def _apply(spec: dict[str, Any], setting: Setting) -> None:
    if setting.kind == "scenario":
        if setting.path[0] in READ_BEFORE:
            why = f"{setting.path[0]} is read before anything is set; write another scenario with it"
            raise _unclear(setting.option, setting.text, why)
        _set(spec, setting.path, setting)
        return
    written = spec.get("objects")
    objects = [each for each in written if isinstance(each, dict)] if isinstance(written, list) else []
    for plain in objects:
        if named(plain) and (plain["kind"].lower(), plain["metadata"]["name"]) == (setting.kind, setting.name):
            _set(plain, setting.path, setting)
            return
    known = [f"{str(each['kind']).lower()}/{each['metadata']['name']}" for each in objects if named(each)]
    raise _unclear(
        setting.option, setting.text, f"the scenario has no {setting.kind}/{setting.name}; it has {', '.join(known)}"
    )


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
        raise _unclear(setting.option, setting.text, f"{step} is inside something that has no fields")
    if isinstance(step, int) and not (isinstance(holder, list) and step < len(holder)):
        raise _unclear(setting.option, setting.text, f"there is no item {step} in that list")
