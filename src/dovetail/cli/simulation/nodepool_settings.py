"""Applies `--set` of `dovetail what-if` to the NodePools of a snapshot.

The spelling is that of `simulate --set`. Each setting is applied after the other, so that every one can be compared
with the NodePool before it. The changed NodePools are validated as `dovetail validate` does: faults that they did not
have before raise `ScenarioInvalid`, all together.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from dovetail.cli.simulation.variants import Setting, apply_settings, read_setting
from dovetail.manifest.codec import from_plain, to_plain
from dovetail.manifest.nodepool_annotations import spelled_fields, with_value
from dovetail.manifest.schema import Scope
from dovetail.manifest.schema_check import DROPPED, as_stored, without_nulls
from dovetail.manifest.validation import faults_of
from dovetail.model.annotated_fields import FIELD_BY_ANNOTATION
from dovetail.model.kinds import NODE_POOL
from dovetail.model.kube_object import Fault, UnreadableObject
from dovetail.model.nodepool import NodePool
from dovetail.model.snapshot import Snapshot
from dovetail.sim.scenario.parsing import ScenarioInvalid

Plain = dict[str, Any]
_SCOPE = Scope(NODE_POOL.name, "v1")
_NODE_CLASS = ("spec", "template", "spec", "nodeClassRef")
_ANNOTATIONS = ("metadata", "annotations")
_SETTABLE = (("spec",), ("metadata", "labels"), _ANNOTATIONS)


@dataclass(frozen=True, slots=True)
class AppliedSetting:
    """What one setting does to one NodePool."""

    text: str  # as given
    nodepool: str
    path: str
    before: Any  # None: not set
    after: Any
    changes: bool  # whether the NodePool is another one; False also for another spelling of the same value


@dataclass(frozen=True, slots=True)
class ChangedCluster:
    """A snapshot with changed NodePools, and what each setting did."""

    snapshot: Snapshot
    applied: tuple[AppliedSetting, ...]
    warnings: tuple[str, ...] = ()


def change_nodepools(snapshot: Snapshot, texts: Sequence[str]) -> ChangedCluster:
    """Apply settings in order; `ScenarioInvalid` has every fault of the settings and of the changed NodePools."""
    settings = list(_read(texts, snapshot))
    original = {name: _plain(pool) for name, pool in sorted(snapshot.nodepools.items())}
    current, applied = original, []
    faults: list[Fault] = []
    for setting in settings:
        try:
            changed = _apply(current, setting)
        except ScenarioInvalid as error:
            faults += error.faults
            continue
        applied += [_applied(setting, name, current[name], changed[name]) for name in _names(setting, current)]
        current = changed
    touched = [name for name in current if current[name] != original[name]]
    faults += [fault for name in touched for fault in _new_faults(original[name], current[name])]
    if faults:
        raise ScenarioInvalid(faults)
    pools = {name: _changed_pool(snapshot.nodepools[name], current[name]) for name in touched}
    return ChangedCluster(
        replace(snapshot, nodepools={**snapshot.nodepools, **pools}),
        tuple(applied),
        tuple(text for name in touched for text in _new_warnings(original[name], current[name])),
    )


def _read(texts: Iterable[str], snapshot: Snapshot) -> Iterator[Setting]:
    """Parse the settings; all that are wrong are reported together."""
    faults: list[Fault] = []
    for text in texts:
        try:
            setting = read_setting(text)
        except ScenarioInvalid as error:
            faults += error.faults
            continue
        why = _refused(setting, snapshot.nodepools)
        if why:
            faults.append(Fault(f"--set {text}", why))
        yield setting
    if faults:
        raise ScenarioInvalid(faults)


def _refused(setting: Setting, pools: Mapping[str, NodePool]) -> str:
    """Why a setting cannot be applied to a snapshot; empty if it can."""
    if setting.kind != "nodepool":
        return f"changes a {setting.kind}, but only NodePools can be changed; write nodepool/NAME.spec.path=value"
    if setting.name and setting.name not in pools:
        close = difflib.get_close_matches(setting.name, pools, 1)
        return f"there is no NodePool {setting.name!r}; " + (
            f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(pools))}"
        )
    if setting.path[: len(_NODE_CLASS)] == _NODE_CLASS:
        return "selects another node class, whose instance types are not in the snapshot"
    if not any(setting.path[: len(prefix)] == prefix for prefix in _SETTABLE):
        return "is not a field of spec, nor a label or annotation"
    return ""


def _plain(pool: NodePool) -> Plain:
    """The NodePool without its status, and without annotations that spell fields: decoding has set these fields."""
    plain: Plain = {**to_plain(NODE_POOL, pool), "status": None}
    annotations = {**(plain["metadata"].get("annotations") or {})}
    for field, _, fault in list(spelled_fields(plain)):
        if fault is None:
            annotations.pop(field.annotation)
    kept: Plain = without_nulls({**plain, "metadata": {**plain["metadata"], "annotations": annotations}})
    return kept


def _respelled(plain: Plain, setting: Setting) -> Plain:
    """The NodePool without the field that the setting spells as an annotation, so that only the annotation counts."""
    field = FIELD_BY_ANNOTATION.get(str(setting.path[-1])) if setting.path[:2] == _ANNOTATIONS else None
    return without_nulls(with_value(plain, field.spells, None)) if field is not None else plain


def _names(setting: Setting, pools: Iterable[str]) -> list[str]:
    return [setting.name] if setting.name else list(pools)


def _apply(pools: Mapping[str, Plain], setting: Setting) -> dict[str, Plain]:
    """The NodePools after one setting; a fault names the NodePool if the setting is for all of them."""
    changed = dict(pools)
    faults: list[Fault] = []
    for name in _names(setting, pools):
        try:
            document = apply_settings({"spec": {"objects": [_respelled(pools[name], setting)]}}, [setting])
            changed[name] = document["spec"]["objects"][0]
        except ScenarioInvalid as error:
            faults += [each._replace(problem=f"{each.problem} (NodePool {name})") for each in error.faults]
    if faults:
        raise ScenarioInvalid(faults)
    return changed


def _applied(setting: Setting, name: str, before: Plain, after: Plain) -> AppliedSetting:
    path = _path_text(setting.path)
    first, second = (_value_at(plain, setting.path) for plain in (before, after))
    return AppliedSetting(setting.text, name, path, first, second, _differ(before, after))


def _differ(before: Plain, after: Plain) -> bool:
    """Whether two NodePools mean something different; a NodePool that cannot be decoded always does."""
    first, second = (from_plain(NODE_POOL, _stored(plain)) for plain in (before, after))
    if isinstance(first, UnreadableObject) or isinstance(second, UnreadableObject):
        return before != after
    return (first.spec, first.metadata) != (second.spec, second.metadata)


def _stored(plain: Plain) -> Plain:
    stored: Plain = as_stored(_SCOPE, without_nulls(plain))
    return stored


def _path_text(path: Sequence[str | int]) -> str:
    text = ""
    for step in path:
        quoted = isinstance(step, str) and ("." in step or "/" in step)
        text += f"[{step}]" if isinstance(step, int) or quoted else f".{step}"
    return text.removeprefix(".")


def _value_at(plain: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        if isinstance(step, int):
            plain = plain[step] if isinstance(plain, list) and step < len(plain) else None
        else:
            plain = plain.get(step) if isinstance(plain, dict) else None
    return plain


def _new_faults(before: Plain, after: Plain) -> Iterator[Fault]:
    """The faults of a changed NodePool that it did not have before; the API server drops unknown fields silently."""
    reports = [faults_of(plain) for plain in (before, after)]
    old, new = ([*each.faults, *(w for w in each.warnings if w.problem == DROPPED)] for each in reports)
    known = {str(each) for each in old}
    name = after["metadata"]["name"]
    yield from (each._replace(path=f"NodePool {name}: {each.path}") for each in new if str(each) not in known)


def _new_warnings(before: Plain, after: Plain) -> Iterator[str]:
    known = {str(each) for each in faults_of(before).warnings}
    for each in faults_of(after).warnings:
        if str(each) not in known:
            yield f"NodePool {after['metadata']['name']}: {each}"


def _changed_pool(original: NodePool, plain: Plain) -> NodePool:
    """The NodePool as the API server would store it: a new generation, and the status of before."""
    decoded = from_plain(NODE_POOL, _stored(plain))
    assert isinstance(decoded, NodePool), "it has no new faults"
    generation = original.metadata.generation + (decoded.spec != original.spec)
    metadata = msgspec.structs.replace(decoded.metadata, generation=generation)
    return msgspec.structs.replace(decoded, metadata=metadata, status=original.status)
