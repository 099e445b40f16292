"""Whether a scenario can be lived through: the document, the objects in it and its settings, every fault at once."""

import difflib
from collections.abc import Iterable
from typing import Any

from dovetail.manifest.unknown import DROPPED
from dovetail.manifest.validation import faults_of
from dovetail.model.wire import Fault
from dovetail.settings import knobs, read_settings
from dovetail.sim.scenario.document import Scenario, named, read_scenario
from dovetail.sim.scenario.reading import ScenarioInvalid

Plain = dict[str, Any]
SELECTING = {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}
OWNERS = {*SELECTING, "Job"}


def examined(document: Plain, name: str) -> Scenario:
    """The scenario of a document; `ScenarioInvalid` with all that is wrong with it, whatever kind it is of."""
    scenario: Scenario | None = None
    faults: list[Fault] = []
    try:
        scenario = read_scenario(document, name)
    except ScenarioInvalid as error:
        faults += error.faults
    spec = document.get("spec")
    if isinstance(spec, dict):
        faults += [*_objects(spec), *_settings(spec)]
    if faults or scenario is None:
        raise ScenarioInvalid(faults)
    return scenario


def _objects(spec: Plain) -> Iterable[Fault]:
    """What a cluster would refuse, and pools that are spoken of and not there."""
    objects = spec.get("objects") or []
    if not isinstance(objects, list):
        return
    seen: set[tuple[str, str, str]] = set()
    for index, plain in enumerate(objects):
        path = f"spec.objects[{index}]"
        if not isinstance(plain, dict):
            continue  # told by the document
        if not named(plain):
            yield Fault(path, "needs apiVersion, kind and metadata.name")
            continue
        report = faults_of(plain)
        dropped = [each for each in report.warnings if each.problem == DROPPED]
        yield from (each._replace(path=f"{path}.{each.path}") for each in (*report.faults, *dropped, *_owner(plain)))
        identity = (str(plain["kind"]), str(plain["metadata"].get("namespace", "")), str(plain["metadata"]["name"]))
        if identity in seen:
            yield Fault(path, f"{identity[0]} {identity[2]} is there already; leave one of the two out")
        seen.add(identity)
    pools = {name for kind, _, name in seen if kind == "NodePool"}
    if not pools and not spec.get("snapshot"):
        yield Fault("spec.objects", "has no NodePool, so no node could ever come; add one")
    generated = spec.get("generate")
    wanted = generated.get("nodepools") if isinstance(generated, dict) else None
    for name in sorted(set(wanted) - pools) if isinstance(wanted, dict) and pools else ():
        yield Fault(
            f"spec.generate.nodepools.{name}", f"there is no such NodePool; there are: {', '.join(sorted(pools))}"
        )


def _owner(plain: Plain) -> Iterable[Fault]:
    """Owners of pods have no schema here; what the simulated controllers need of them is looked at."""
    if plain["kind"] not in OWNERS:
        return
    spec: Any = plain.get("spec")
    if not isinstance(spec, dict):
        yield Fault("spec", "must be a mapping", spec)
        return
    replicas = spec.get("replicas", 1)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        yield Fault("spec.replicas", "must be a whole number >= 0", replicas)
    pod: Any = spec.get("template")
    for step in ("spec", "containers"):
        pod = pod.get(step) if isinstance(pod, dict) else None
    if not isinstance(pod, list) or not pod or not all(isinstance(each, dict) for each in pod):
        yield Fault("spec.template.spec.containers", "must be a list of containers")
    if plain["kind"] in SELECTING and not isinstance((spec.get("selector") or {}), dict):
        yield Fault("spec.selector", "must be a mapping such as {matchLabels: {app: web}}", spec.get("selector"))


def _settings(spec: Plain) -> Iterable[Fault]:
    given, known = spec.get("settings") or {}, {knob.name: knob.flag for knob in knobs()}
    if not isinstance(given, dict):
        return
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name).lower(), known, 1)
            hint = f"did you mean {near[0]}?" if near else "names are as in the reference of settings, with underscores"
            yield Fault(f"spec.settings.{name}", f"is no setting; {hint}")
    texts = {name: value for name, value in given.items() if name in known and isinstance(value, str)}
    if isinstance(spec.get("catalog"), str):
        texts["catalog"] = spec["catalog"]
    try:
        read_settings(texts)
    except ValueError as error:
        for line in str(error).splitlines():
            name = next((name for name, flag in known.items() if line.startswith(f"{flag} ")), "")
            path = "spec.catalog" if name == "catalog" else f"spec.settings.{name}"
            yield Fault(path, line.partition(": ")[2])
