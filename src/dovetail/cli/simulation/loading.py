"""From what was typed to what is run: the scenario's file, the files it names, and the variants that were asked for."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dovetail.cli.simulation.runner import settings_of
from dovetail.cli.simulation.variants import Variant, alone, compared, read_setting, read_sweep, swept
from dovetail.manifest.codec import to_plain
from dovetail.manifest.documents import read_documents
from dovetail.manifest.snapshot_file import SnapshotInvalid, read_snapshot_file
from dovetail.model.kinds import NODE_POOL
from dovetail.model.wire import Fault
from dovetail.sim.scenario.adopt import CLASS
from dovetail.sim.scenario.document import ScenarioInvalid
from dovetail.sim.scenario.trace import Arrival, read_trace

MOST_SEEDS = 10_000


def load(source: Path) -> tuple[dict[str, Any], str, Path]:
    """The document of a scenario, its name, and the folder that its file names start from."""
    text = sys.stdin.read() if str(source) == "-" else source.read_text(encoding="utf-8")
    documents = list(read_documents(text, str(source)))
    faults = [fault for each in documents for fault in each.faults]
    if not faults and len(documents) != 1:
        faults = [Fault("", f"one scenario was expected, found {len(documents)} documents")]
    if faults:
        raise ScenarioInvalid(faults)
    folder = Path() if str(source) == "-" else source.parent
    content = documents[0].content
    if not isinstance(content, dict):
        raise ScenarioInvalid([Fault("", "a scenario is a mapping with apiVersion, kind and spec")])
    _include(content, folder)
    _begin_with(content, folder)
    return content, source.stem, folder


def _include(document: dict[str, Any], folder: Path) -> None:
    """Put the manifests of `spec.files` among its objects."""
    spec = document.get("spec")
    if not isinstance(spec, dict) or "files" not in spec:
        return
    objects = list(spec.get("objects") or ())
    for name in spec.pop("files") or ():
        for each in read_documents((folder / str(name)).read_text(encoding="utf-8"), str(name)):
            if each.faults:
                raise ScenarioInvalid(each.faults)
            objects.append(each.content)
    spec["objects"] = objects


def _begin_with(document: dict[str, Any], folder: Path) -> None:
    """A story that starts from a snapshot starts when that was taken; its NodePools can be set like any other."""
    spec = document.get("spec")
    if not isinstance(spec, dict) or not spec.get("snapshot"):
        return
    source = folder / str(spec["snapshot"])
    try:
        snapshot = read_snapshot_file(source)
    except SnapshotInvalid as error:
        raise ScenarioInvalid(Fault(f"spec.snapshot: {each.path}", each.problem) for each in error.faults) from error
    spec["snapshot"] = str(source.resolve())
    spec.setdefault("start", snapshot.at)
    named = {
        (each.get("metadata") or {}).get("name") for each in spec.get("objects") or () if each.get("kind") == "NodePool"
    }
    pools = [to_plain(NODE_POOL, pool) for name, pool in sorted(snapshot.nodepools.items()) if name not in named]
    for pool in pools:
        pool["metadata"] = {key: pool["metadata"][key] for key in ("name", "labels") if key in pool["metadata"]}
        pool["spec"]["template"]["spec"]["nodeClassRef"] = dict(CLASS)
        pool.pop("status", None)
    spec["objects"] = [*(spec.get("objects") or ()), *pools]


def ask(  # noqa: PLR0913 - what was asked for
    document: dict[str, Any],
    name: str,
    folder: Path,
    *,
    sets: Sequence[str],
    sweeps: Sequence[str],
    seeds: str,
    lasts: str | None,
    compare: bool,
) -> tuple[list[Variant], tuple[Arrival, ...]]:
    """The variants to run and the trace they share; ValueError or `ScenarioInvalid` where something is wrong."""
    if sweeps and (sets or compare):
        raise ValueError("--sweep stands alone; put what shall be the same in every run into the scenario")
    if compare and not sets:
        raise ValueError("--compare needs at least one --set to compare with")
    if lasts is not None:
        document.setdefault("spec", {})["for"] = lasts
    chosen = _seeds(seeds, document)
    if sweeps:
        variants = swept(document, name, [read_sweep(each) for each in sweeps], chosen)
    else:
        settings = [read_setting(each) for each in sets]
        variants = (compared if compare else alone)(document, name, settings, chosen)
    for variant in variants:
        settings_of(variant.scenario)
    trace = variants[0].scenario.trace
    return variants, read_trace((folder / trace).read_text(encoding="utf-8"), trace) if trace else ()


def _seeds(text: str, document: dict[str, Any]) -> list[int]:
    first = (document.get("spec") or {}).get("seed", 0)
    if not text:
        return [first if isinstance(first, int) else 0]
    try:
        numbers = [int(each) for each in text.split(",")]
    except ValueError as error:
        raise ValueError(f"--seeds must be a number of seeds or a list such as 1,2,3; got {text!r}") from error
    if "," in text:
        return numbers
    if not 0 < numbers[0] <= MOST_SEEDS:
        raise ValueError(f"--seeds must be between 1 and {MOST_SEEDS}, got {text}")
    return list(range(numbers[0]))
