"""Loads the scenario of the demo from scenario.yaml, and replaces its NodePools with those of a user.

NodePools of a user are validated as by `dovetail validate`. A NodePool with a node class of another provider gets a
KWOKNodeClass instead; documents of other kinds are left out. Both are reported as notes.
"""

from dataclasses import dataclass
from importlib import resources
from typing import Any

import msgspec
import yaml

from dovetail.cloud.kwok.node import GROUP, NODE_CLASS_KIND
from dovetail.manifest.documents import Document, read_documents
from dovetail.manifest.validation import faults_of
from dovetail.sim.scenario.document import Scenario, read_scenario
from dovetail.sim.scenario.parsing import PositiveSpan

Plain = dict[str, Any]
_REPLACED = ("NodePool", NODE_CLASS_KIND)


def demo_scenario(
    length: str = "2h", *, seed: int = 0, catalog: str = "realistic", nodepools: tuple[Plain, ...] = ()
) -> Scenario:
    """Load the scenario with the given length, seed and catalog, and optionally other NodePools and node classes."""
    text = resources.files("dovetail.cli.demo").joinpath("scenario.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    if nodepools:
        _replace_nodepools(document["spec"], nodepools)
    scenario = read_scenario(document, "demo")
    return msgspec.structs.replace(scenario, lasts=PositiveSpan(length), seed=seed, catalog=catalog)


def _replace_nodepools(spec: Plain, nodepools: tuple[Plain, ...]) -> None:
    """Replace the NodePools; events for a NodePool get one with a repair block, or all NodePools."""
    spec["objects"] = [*nodepools, *(each for each in spec["objects"] if each["kind"] not in _REPLACED)]
    repairing = [pool["metadata"]["name"] for pool in nodepools if (pool.get("spec") or {}).get("repair") is not None]
    for event in spec["events"]:
        for target in event.values():
            if isinstance(target, dict) and "nodepool" in target:
                target["nodepool"] = repairing[0] if repairing else ""


_CLASS_NAME = "demo"


@dataclass(frozen=True, slots=True)
class NodePoolFile:
    """The documents for the cluster, or the faults of the file; and notes about changes."""

    documents: tuple[Plain, ...] = ()
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_nodepools(text: str, source: str, delay: str = "35s") -> NodePoolFile:
    """Read NodePools. Node classes that are missing in the text get `delay` as registration delay."""
    faults: list[str] = []
    notes: list[str] = []
    pools: list[Plain] = []
    classes: dict[str, Plain] = {}
    for document in read_documents(text, source):
        faults.extend(_faults(document))
        plain = document.content if isinstance(document.content, dict) else {}
        kind = plain.get("kind")
        if kind == "NodePool":
            pools.append(plain)
        elif kind == NODE_CLASS_KIND:
            classes[_name(plain)] = plain
        elif kind:
            notes.append(f"{source}:{document.line} {kind} {_name(plain)}: left out, only NodePools are used")
    if not pools and not faults:
        faults.append(f"{source}: has no NodePool")
    if faults:
        return NodePoolFile(faults=tuple(faults))
    converted = [_with_kwok_class(pool, notes) for pool in pools]
    for pool in converted:
        name = pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
        classes.setdefault(name, _node_class(name, delay))
    return NodePoolFile((*classes.values(), *converted), notes=tuple(notes))


def _faults(document: Document) -> list[str]:
    found = (*document.faults, *(() if document.content is None else faults_of(document.content).faults))
    return [f"{document.source}:{document.line_of(fault.path)} {fault}" for fault in found]


def _with_kwok_class(pool: Plain, notes: list[str]) -> Plain:
    template = pool["spec"]["template"]
    ref = template["spec"]["nodeClassRef"]
    group = ref.get("group") or str(ref.get("apiVersion", "")).partition("/")[0]
    if group == GROUP and ref.get("kind") == NODE_CLASS_KIND:
        return pool
    notes.append(f"NodePool {_name(pool)}: {ref.get('kind')} {ref.get('name')} is replaced by a {NODE_CLASS_KIND}")
    # v1 names the group; v1beta1 the apiVersion
    own = {"group": GROUP} if "group" in ref else {"apiVersion": f"{GROUP}/v1alpha1"}
    spec = {**template["spec"], "nodeClassRef": {**own, "kind": NODE_CLASS_KIND, "name": _CLASS_NAME}}
    return {**pool, "spec": {**pool["spec"], "template": {**template, "spec": spec}}}


def _node_class(name: str, delay: str) -> Plain:
    spec = {"nodeRegistrationDelay": delay}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": NODE_CLASS_KIND, "metadata": {"name": name}, "spec": spec}


def _name(plain: Plain) -> str:
    metadata = plain.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
