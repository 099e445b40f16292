"""Loads a scenario with the files it refers to, and turns the options of `dovetail simulate` into variants.

Manifests of `spec.files` and the NodePools of `spec.snapshot` become objects of the scenario, so that `--set` can
change them. Every fault in the files and the options is collected before `ScenarioInvalid` is raised.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dovetail.cli.safe_output import echo
from dovetail.cli.simulation.scenario_validation import validate_scenario
from dovetail.cli.simulation.variants import (
    DISRUPTION_OFF,
    Setting,
    Variant,
    apply_settings,
    read_setting,
    read_sweep,
    variants_of,
)
from dovetail.manifest.codec import to_plain
from dovetail.manifest.documents import read_documents
from dovetail.manifest.input_file import InputUnreadable, read_text
from dovetail.manifest.snapshot_file import SnapshotInvalid, read_snapshot_file
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Fault
from dovetail.sim.scenario.document import named as is_named
from dovetail.sim.scenario.document import rename_deprecated
from dovetail.sim.scenario.from_snapshot import CLASS
from dovetail.sim.scenario.parsing import ScenarioInvalid
from dovetail.sim.scenario.trace import Arrival, read_trace

MOST_SEEDS = 10_000


def load(source: Path) -> tuple[dict[str, Any], str, Path]:
    """Load a scenario; returns its document, its name and the folder that its file names are relative to."""
    text = _text(source, "", source)
    documents = list(read_documents(text, str(source)))
    faults = [fault for each in documents for fault in each.faults]
    if not faults and len(documents) != 1:
        faults = [Fault("", f"expected one scenario, found {len(documents)} documents")]
    if faults:
        raise ScenarioInvalid(faults)
    folder = Path() if str(source) == "-" else source.parent
    content = documents[0].content
    if not isinstance(content, dict):
        raise ScenarioInvalid([Fault("", "a scenario is a mapping with apiVersion, kind and spec")])
    for warning in rename_deprecated(content):
        echo(f"Warning: {source}: {warning}", err=True)
    if isinstance(content.get("spec"), dict):
        faults = [*_include_files(content["spec"], folder), *_include_snapshot(content["spec"], folder)]
    if faults:
        trace = content["spec"].get("trace")
        more = faults_in(partial(validate_scenario, content, source.stem)), faults_in(partial(_trace, trace, folder))
        raise ScenarioInvalid([*more[0], *faults, *more[1]])
    return content, source.stem, folder


def faults_in(read: Callable[[], object]) -> tuple[Fault, ...]:
    """Return the faults that a function raises as `ScenarioInvalid`."""
    try:
        read()
    except ScenarioInvalid as error:
        return error.faults
    return ()


def _include_files(spec: dict[str, Any], folder: Path) -> list[Fault]:
    """Add the manifests of `spec.files` to `spec.objects`; returns the faults."""
    if "files" not in spec:
        return []
    objects, files = spec.get("objects") or [], spec.pop("files") or []
    faults: list[Fault] = []
    if not isinstance(files, list) or not isinstance(objects, list):
        return [Fault("spec.files", "must be a list of file names", files)]
    for index, name in enumerate(files):
        try:
            text = _text(folder / str(name), f"spec.files[{index}]", name)
        except ScenarioInvalid as error:
            faults += error.faults
            continue
        for each in read_documents(text, str(name)):
            faults += [fault._replace(path=f"{name}: {fault.path}") for fault in each.faults]
            objects = objects if each.faults else [*objects, each.content]
    spec["objects"] = objects
    return faults


def _text(file: Path, path: str, name: object) -> str:
    """Read a file; `ScenarioInvalid` names the field that refers to it."""
    try:
        return read_text(file)
    except InputUnreadable as error:
        remedy = error.remedy
        if path and remedy == "check the path":
            remedy = "file names are relative to the folder of the scenario"
        problem = f"{str(name)!r} {error.problem}" if path else error.problem  # the error names the scenario itself
        raise ScenarioInvalid([Fault(path, problem, remedy=remedy)]) from error


def _include_snapshot(spec: dict[str, Any], folder: Path) -> list[Fault]:
    """Start the scenario at the time of `spec.snapshot` and add its NodePools to the objects; returns the faults."""
    if not spec.get("snapshot"):
        return []
    source = folder / str(spec["snapshot"])
    try:
        snapshot = read_snapshot_file(source)
    except SnapshotInvalid as error:
        return [Fault(f"spec.snapshot: {each.path}", each.problem, remedy=each.remedy) for each in error.faults]
    spec["snapshot"] = str(source.resolve())
    spec.setdefault("start", snapshot.at)
    objects = spec.get("objects") or []
    if not isinstance(objects, list):
        return []
    named = {each["metadata"]["name"] for each in objects if is_named(each) and each["kind"] == "NodePool"}
    pools = [to_plain(NODE_POOL, pool) for name, pool in sorted(snapshot.nodepools.items()) if name not in named]
    for pool in pools:
        pool["metadata"] = {key: pool["metadata"][key] for key in ("name", "labels") if key in pool["metadata"]}
        pool["spec"]["template"]["spec"]["nodeClassRef"] = dict(CLASS)
        pool.pop("status", None)
    spec["objects"] = [*objects, *pools]
    return []


def plan_runs(  # noqa: PLR0913 - one parameter per option
    document: dict[str, Any],
    name: str,
    folder: Path,
    *,
    sets: Sequence[str],
    sweeps: Sequence[str],
    seeds: str,
    lasts: str | None,
    compare: bool,
    without_disruption: bool = False,
) -> tuple[list[Variant], tuple[Arrival, ...]]:
    """Build the variants to run and the trace they share; ValueError or `ScenarioInvalid` for invalid options."""
    if sweeps and compare:
        raise ValueError("--compare and --sweep cannot be combined; use one of them")
    if compare and not sets:
        raise ValueError("--compare requires at least one --set")
    if compare and len(set(sets)) < len(sets):
        raise ValueError("--compare has the same --set twice; remove one")
    if not isinstance(document.get("spec"), dict | None):
        validate_scenario(document, name)
    if lasts is not None:
        document["spec"] = {**(document.get("spec") or {}), "for": lasts}
    numbers = _seeds(seeds, document)
    faults = [fault for text in sets for fault in faults_in(partial(read_setting, text))]
    faults += [fault for text in sweeps for fault in faults_in(partial(read_sweep, text))]
    if not faults:
        choices = _settings_by_variant(sets, sweeps, compare=compare)
        if without_disruption:
            choices = [*choices, *((*each, DISRUPTION_OFF) for each in choices)]
        document = _base(document, sets, faults) if sweeps else document
        faults += faults_in(lambda: variants_of(document, name, choices, numbers[:1]))
    if faults:
        raise ScenarioInvalid([*faults, *faults_in(lambda: _trace((document.get("spec") or {}).get("trace"), folder))])
    variants = variants_of(document, name, choices, numbers)
    traces = {variant.scenario.trace for variant in variants}
    if len(traces) > 1:
        raise ValueError("all variants must use the same trace; use two scenarios to compare traces")
    return variants, _trace(traces.pop(), folder)


def _base(document: dict[str, Any], sets: Sequence[str], faults: list[Fault]) -> dict[str, Any]:
    """Apply the settings that hold in every run of a sweep; adds their faults to `faults`."""
    try:
        return apply_settings(document, map(read_setting, sets))
    except ScenarioInvalid as error:
        faults.extend(error.faults)
        return document


def _settings_by_variant(sets: Sequence[str], sweeps: Sequence[str], *, compare: bool) -> list[Sequence[Setting]]:
    """Return the settings of each variant: every combination of a sweep, or each setting alone, or all together."""
    if sweeps:
        return [*itertools.product(*(read_sweep(each) for each in sweeps))]
    settings = [read_setting(each) for each in sets]
    return [(), *((each,) for each in settings)] if compare else [settings]


def _trace(name: object, folder: Path) -> tuple[Arrival, ...]:
    if not name or not isinstance(name, str):
        return ()
    return read_trace(_text(folder / name, "spec.trace", name), name)


def _seeds(text: str, document: dict[str, Any]) -> list[int]:
    first = (document.get("spec") or {}).get("seed", 0)
    if not text:
        return [first if isinstance(first, int) else 0]
    try:
        numbers = [int(each) for each in text.removesuffix(",").split(",")]
    except ValueError as error:
        raise ValueError(f"--seeds must be a number of seeds or a list such as 1,2,3; got {text!r}") from error
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"--seeds has the same seed twice; got {text!r}")
    if "," in text:
        return numbers
    if not 0 < numbers[0] <= MOST_SEEDS:
        raise ValueError(f"--seeds must be between 1 and {MOST_SEEDS}, got {text}")
    return list(range(numbers[0]))
