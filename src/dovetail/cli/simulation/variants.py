"""Variants of a scenario: parses `--set` and `--sweep`, and applies their settings to the document.

`nodepool/default.spec.disruption.consolidateAfter=5m` names an object of the scenario by kind and name, a field by its
path (`budgets[0].nodes` indexes a list, `labels["example.com/team"]` quotes a name with dots) and a value in YAML.
`spec.disruption.consolidateAfter=5m`, without an object, sets the field of every NodePool. `scenario.seed=3` sets a
field of the scenario itself. Unknown objects, unreachable fields and values that the API server would refuse raise
`ScenarioInvalid` before any run. `dovetail what-if` has the same settings for the NodePools of a cluster.
"""

import copy
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.cli.simulation.scenario_validation import validate_scenario
from dovetail.manifest.safe_yaml import YamlInvalid, read_yaml
from dovetail.model.kube_object import Fault
from dovetail.sim.scenario.document import Scenario, named
from dovetail.sim.scenario.parsing import ScenarioInvalid

BASELINE = "baseline"
READ_BEFORE = ("snapshot", "files")
"""Fields of a scenario that are loaded before settings are applied, and so cannot be set."""
_TARGET = re.compile(r"^(?P<kind>[a-zA-Z]+)(/(?P<name>[a-z0-9.-]+?))?\.(?P<path>[a-zA-Z].*)$")
_OF_EVERY_NODEPOOL = ("spec.", "metadata.")
_STEP = re.compile(r"""\.?(?:(?P<name>[^.\[\]"']+)|\[(?P<index>\d+)\]|\[(?P<mark>["'])(?P<quoted>.+?)(?P=mark)\])""")
_ASSIGNED = re.compile(r"""=(?![^\[]*["']\])""")
"""The first equals sign outside a quoted field name."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A scenario to run, with its name and seed."""

    name: str
    seed: int
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Setting:
    """One field set to one value."""

    kind: str
    name: str  # empty: the scenario itself, or every NodePool
    path: tuple[str | int, ...]
    value: Any
    text: str
    option: str = "--set"


WITHOUT_DISRUPTION = "without disruption"
DISRUPTION_OFF = Setting("scenario", "", ("settings", "disruption"), "off", WITHOUT_DISRUPTION, "--without-disruption")
"""No command starts. Nodes still expire, are repaired and are interrupted."""


def read_setting(text: str, option: str = "--set") -> Setting:
    """Parse a setting."""
    target, equals, value = _split(text)
    every = target.startswith(_OF_EVERY_NODEPOOL)
    found = _TARGET.match(f"nodepool.{target}" if every else target)
    if not equals or found is None:
        raise _invalid(option, text, "is not of the form spec.path=value or nodepool/NAME.spec.path=value")
    kind = found["kind"].lower()
    if kind != "scenario" and not found["name"] and not every:
        raise _invalid(option, text, f"does not say which {kind}; write {kind}/NAME.{found['path']}")
    try:
        read = read_yaml(value).content
    except YamlInvalid as error:
        raise _invalid(option, text, f"{value!r} is not valid YAML: {error.problem}; put it in quotes") from error
    return Setting(kind, found["name"] or "", _steps(option, text, found["path"]), read, text, option)


def _steps(option: str, text: str, path: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            why = f'{path[at:]!r} is not a step of a path; write .field, [0] or ["a name with dots"]'
            raise _invalid(option, text, why)
        steps.append(int(found["index"]) if found["index"] else found["name"] or found["quoted"])
        at = found.end()
    return tuple(steps)


def read_sweep(text: str) -> list[Setting]:
    """Parse a field with several values: `nodepool/default.spec.x=5m,10m,1h`, or lists: `[spot],[a,b]`."""
    target, equals, values = _split(text)
    each = _values(values)
    if not equals or not values:
        raise _invalid("--sweep", text, "is not of the form nodepool/NAME.spec.path=value,value,...")
    if not all(each):
        raise _invalid("--sweep", text, "has an empty value; null unsets a field")
    if len(set(each)) < len(each):
        raise _invalid("--sweep", text, "has the same value twice; remove one")
    return [read_setting(f"{target}={value}", "--sweep") for value in each]


def _split(text: str) -> tuple[str, str, str]:
    found = _ASSIGNED.search(text)
    return (text, "", "") if found is None else (text[: found.start()].strip(), "=", text[found.end() :].strip())


def _values(text: str) -> list[str]:
    """Split at commas outside brackets, braces and quotes."""
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


def _invalid(option: str, text: str, why: str) -> ScenarioInvalid:
    return ScenarioInvalid([Fault(f"{option} {text}", why)])


def apply_settings(document: dict[str, Any], settings: Iterable[Setting]) -> dict[str, Any]:
    """Return a copy of the document with the settings applied; `ScenarioInvalid` lists those that cannot be."""
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
    document: dict[str, Any], name: str, choices: Sequence[Sequence[Setting]], seeds: Sequence[int]
) -> list[Variant]:
    """Build a variant for each choice of settings and each seed; `ScenarioInvalid` has the faults of all."""
    variants: list[Variant] = []
    faults: dict[str, Fault] = {}
    for settings in choices:
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
    scenario = validate_scenario(apply_settings(seeded, settings), name)
    return Variant(label, scenario.seed, scenario)


def _apply(spec: dict[str, Any], setting: Setting) -> None:
    if setting.kind == "scenario":
        if setting.path[0] in READ_BEFORE:
            why = f"{setting.path[0]} is read before settings are applied; write a second scenario"
            raise _invalid(setting.option, setting.text, why)
        _set(spec, setting.path, setting)
        return
    written = spec.get("objects")
    objects = [each for each in written if isinstance(each, dict)] if isinstance(written, list) else []
    targets = [plain for plain in objects if named(plain) and _is_target(plain, setting)]
    for plain in targets:
        _set(plain, setting.path, setting)
    if not targets:
        wanted = f"{setting.kind}/{setting.name}" if setting.name else "NodePool"
        known = [f"{str(each['kind']).lower()}/{each['metadata']['name']}" for each in objects if named(each)]
        raise _invalid(setting.option, setting.text, f"the scenario has no {wanted}; it has {', '.join(known)}")


def _is_target(plain: dict[str, Any], setting: Setting) -> bool:
    return plain["kind"].lower() == setting.kind and setting.name in ("", plain["metadata"]["name"])


def _set(holder: Any, path: Sequence[str | int], setting: Setting) -> None:
    for here, following in itertools.pairwise(path):
        _check_step(holder, here, setting)
        if isinstance(here, str):
            holder.setdefault(here, [] if isinstance(following, int) else {})
        holder = holder[here]
    last, value = path[-1], setting.value
    _check_step(holder, last, setting)
    before = holder.get(last) if isinstance(holder, dict) else holder[last]
    # Quotes do not survive a shell: a number in the place of a text, such as the nodes of a budget, is meant as text.
    as_text = isinstance(before, str) and isinstance(value, int) and not isinstance(value, bool)
    holder[last] = str(value) if as_text else value


def _check_step(holder: Any, step: str | int, setting: Setting) -> None:
    if isinstance(step, str) and not isinstance(holder, dict):
        raise _invalid(setting.option, setting.text, f"{step} is not reachable: its parent is not a mapping")
    if isinstance(step, int) and not (isinstance(holder, list) and step < len(holder)):
        raise _invalid(setting.option, setting.text, f"the list has no item {step}")
