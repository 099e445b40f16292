"""Validates a scenario: its document, objects, pods, events and settings. All faults are reported together.

Objects are checked as an API server would check them, including patches of later events, so that a run does not fail
halfway. References to NodePools and Deployments must exist.
"""

import difflib
from collections.abc import Iterable
from typing import Any

from dovetail.manifest.schema_check import DROPPED
from dovetail.manifest.validation import faults_of
from dovetail.model.kube_object import Fault
from dovetail.settings import read_settings, setting_fields
from dovetail.sim.kubernetes.merge_patch import merge_patch
from dovetail.sim.scenario.document import Scenario, named, numbered, read_scenario
from dovetail.sim.scenario.parsing import ScenarioInvalid

Plain = dict[str, Any]
SELECTING = {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}
OWNERS = {*SELECTING, "Job"}
POD_FIELDS = frozenset(
    (  # noqa: SIM905 - words in a row read better
        "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks"
        " ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride"
        " imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName"
        " readinessGates resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates"
        " securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain"
        " terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes"
    ).split()
)
"""The fields of a pod's spec in Kubernetes; most have no effect in a simulation."""


def validate_scenario(document: Plain, name: str) -> Scenario:
    """Read the scenario of a document; `ScenarioInvalid` has all faults."""
    scenario: Scenario | None = None
    faults: list[Fault] = []
    try:
        scenario = read_scenario(document, name)
    except ScenarioInvalid as error:
        faults += error.faults
    spec = document.get("spec")
    if isinstance(spec, dict):
        faults += [*_objects(spec), *_pods(spec), *_events(spec), *_settings(spec)]
    if faults or scenario is None:
        raise ScenarioInvalid(faults)
    return scenario


def _objects(spec: Plain) -> Iterable[Fault]:
    """Find objects that the API server would refuse, duplicates, and references to missing NodePools."""
    objects = spec.get("objects") or []
    if not isinstance(objects, list):
        return
    seen: set[tuple[str, str, str]] = set()
    for index, plain in enumerate(objects):
        path = f"spec.objects[{index}]"
        if not isinstance(plain, dict):
            continue  # read_scenario reports it
        if not named(plain):
            yield Fault(path, "needs apiVersion, kind and metadata.name")
            continue
        yield from _under(path, _admission_faults(plain))
        identity = _identity(plain)
        if identity in seen:
            yield Fault(path, f"{identity[0]} {identity[2]} is listed twice; remove one of them")
        seen.add(identity)
    pools = {name for kind, _, name in seen if kind == "NodePool"}
    if not pools and not spec.get("snapshot"):
        yield Fault("spec.objects", "has no NodePool, so no node can be launched; add one")
    generated = spec.get("generate")
    named_pools = generated.get("nodepools") if isinstance(generated, dict) else None
    for name in sorted(set(named_pools) - pools) if isinstance(named_pools, dict) and pools else ():
        yield Fault(
            f"spec.generate.nodepools.{name}", f"there is no such NodePool; there are: {', '.join(sorted(pools))}"
        )


def _admission_faults(plain: Plain) -> Iterable[Fault]:
    """Find what the API server or a simulated controller would refuse or drop of a manifest."""
    report = faults_of(plain)
    return (*report.faults, *(each for each in report.warnings if each.problem == DROPPED), *_owner(plain))


def _under(path: str, faults: Iterable[Fault]) -> Iterable[Fault]:
    return (each._replace(path=f"{path}.{each.path}") for each in faults)


def _pods(spec: Plain) -> Iterable[Fault]:
    """Check the pod fields that workloads merge into the spec of their pods."""
    for index, work in enumerate(_mappings(spec.get("workloads"))):
        pod = work.get("pod")
        if not isinstance(pod, dict) or not pod:
            continue
        path = f"spec.workloads[{index}].pod"
        for name in sorted(set(map(str, pod)) - POD_FIELDS):
            near = difflib.get_close_matches(name, POD_FIELDS, 1)
            yield Fault(
                f"{path}.{name}", f"is not a field of a pod's spec{f'; did you mean {near[0]}?' if near else ''}"
            )
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": {"containers": [], **pod}}
        yield from (each._replace(path=f"{path}{each.path.removeprefix('spec')}") for each in faults_of(whole).faults)


def _events(spec: Plain) -> Iterable[Fault]:
    """Check what events apply and patch, and that the NodePools and Deployments they name exist."""
    events = _mappings(spec.get("events"))
    objects = [each for each in _mappings(spec.get("objects")) if named(each)]
    known = [*map(_identity, objects), *(_identity(each["apply"]) for each in events if named(each.get("apply")))]
    deployments = {f"{space or 'default'}/{name}" for kind, space, name in known if kind == "Deployment"}
    standing = [work for work in _mappings(spec.get("workloads")) if not work.get("runs")]
    deployments |= {f"{work.get('namespace', 'default')}/{work.get('name')}" for work in standing}
    pools = {name for kind, _, name in known if kind == "NodePool"}
    for index, event in enumerate(events):
        path = f"spec.events[{index}]"
        for what in ("apply", "runJob"):
            if named(event.get(what)):
                yield from _under(f"{path}.{what}", _admission_faults(event[what]))
        yield from _patched(event.get("patch"), objects, f"{path}.patch.patch")
        for what in ("interrupt", "fail", "vanish", "deleteNodes", "setCondition"):
            target_nodes = event.get(what)
            pool = target_nodes.get("nodepool") if isinstance(target_nodes, dict) else None
            if pool and pools and pool not in pools:
                there = ", ".join(sorted(pools))
                yield Fault(f"{path}.{what}.nodepool", f"there is no NodePool {pool!r}; there are: {there}")
        scaled = event.get("scale")
        for name in scaled if isinstance(scaled, dict) else ():
            if (name if "/" in str(name) else f"default/{name}") not in deployments:
                there = ", ".join(sorted(deployments)) or "none"
                yield Fault(f"{path}.scale.{name}", f"there is no Deployment {name!r}; there are: {there}")


def _patched(patch: Any, objects: Iterable[Plain], path: str) -> Iterable[Fault]:
    """Find faults that a patch adds to the objects it changes."""
    if not isinstance(patch, dict) or not isinstance(patch.get("patch"), dict):
        return
    for target in objects:
        kind, *place = _identity(target)
        all_objects = not patch.get("name")
        if kind == patch.get("kind") and (all_objects or place == [patch.get("namespace", ""), patch["name"]]):
            known = {str(each) for each in _admission_faults(target)}
            found = _admission_faults(merge_patch(target, numbered(patch["patch"], 1)))
            yield from _under(path, (each for each in found if str(each) not in known))


def _mappings(written: object) -> list[Plain]:
    """Return the items of a list, with an empty mapping for each item that is no mapping (read_scenario reports it)."""
    return [each if isinstance(each, dict) else {} for each in written] if isinstance(written, list) else []


def _identity(plain: Plain) -> tuple[str, str, str]:
    return str(plain["kind"]), str(plain["metadata"].get("namespace", "")), str(plain["metadata"]["name"])


def _owner(plain: Plain) -> Iterable[Fault]:
    """Check the fields of pod owners that the simulated controllers need; these kinds have no schema here."""
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
    given, known = spec.get("settings") or {}, {setting.name: setting.flag for setting in setting_fields()}
    if not isinstance(given, dict):
        return
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name).lower(), known, 1)
            hint = f"did you mean {near[0]}?" if near else "see the reference of settings, with underscores for dashes"
            yield Fault(f"spec.settings.{name}", f"is not a setting; {hint}")
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
